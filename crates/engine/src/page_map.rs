//! Which pages a process has made its own: those that it has written to since they were mapped.
//!
//! The kernel tells in `/proc/thread-self/pagemap`. Newer kernels (6.7) pass over what is not there, however large it is;
//! older ones have a word for every page, so that ranges beyond [`LARGEST_BY_WORDS`] are not looked through.
//!
//! Pages of a file that nobody has written to are left out: which of them are in memory is the kernel's affair. Pages of
//! zeros may be in or out, for the same reason.

use crate::kernel;
use crate::private::MoreDescriptors;
use crate::space::PAGE;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// A word for each of its pages takes some milliseconds to read.
const LARGEST_BY_WORDS: u64 = 4 << 30;
/// Words that are read at a time.
const WORDS: usize = 4096;
/// Regions that are asked for at a time.
const REGIONS: usize = 128;

/// `PAGEMAP_SCAN`, the size of its argument, and the categories of pages as the kernel's headers have them.
const SCAN: u64 = 0xc060_6610;
const SCAN_SIZE: u64 = 96;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

/// Bits of the words.
const WORD_PRESENT: u64 = 1 << 63;
const WORD_SWAPPED: u64 = 1 << 62;
const WORD_FILE: u64 = 1 << 61;

pub struct PageMap {
    file: File,
}

/// What was found in a range.
#[derive(Debug, PartialEq, Eq)]
pub struct Own {
    /// In ascending order.
    pub runs: Vec<Range<u64>>,
    pub pages: u64,
    /// Up to here the range was looked through.
    pub end: u64,
}

impl PageMap {
    /// None where there is no `/proc`.
    pub fn open() -> Option<PageMap> {
        let _room = MoreDescriptors::claim();
        // The process's first thread may be gone, and its memory with it.
        File::open("/proc/thread-self/pagemap").ok().map(|file| PageMap { file })
    }

    /// The first `most` pages of the range that the process has made its own. None if nobody can tell.
    pub fn own(&self, range: Range<u64>, most: u64) -> Option<Own> {
        if !range.start.is_multiple_of(PAGE) || !range.end.is_multiple_of(PAGE) {
            return None;
        }
        self.scan(range.clone(), most).or_else(|| self.words(range, most))
    }

    fn scan(&self, range: Range<u64>, most: u64) -> Option<Own> {
        let mut own = Own { runs: Vec::new(), pages: 0, end: range.start };
        let mut regions = [0u64; 3 * REGIONS];
        while own.end < range.end && own.pages < most {
            let (out, of) = (IS_FILE | IS_ZERO, IS_PRESENT | IS_SWAPPED);
            let left = most - own.pages;
            let into = regions.as_mut_ptr() as u64;
            let mut argument = [SCAN_SIZE, 0, own.end, range.end, 0, into, REGIONS as u64, left, out, out, of, of];
            let at = argument.as_mut_ptr() as u64;
            let found = kernel::call(libc::SYS_ioctl as u64, [self.file.as_raw_fd() as u64, SCAN, at, 0, 0, 0]);
            let found = usize::try_from(found).ok()?;
            for region in regions[..3 * found].chunks_exact(3) {
                own.add(region[0]..region[1]);
            }
            let walked = argument[4];
            if walked <= own.end {
                return None;
            }
            own.end = walked;
        }
        Some(own)
    }

    fn words(&self, range: Range<u64>, most: u64) -> Option<Own> {
        if range.end.saturating_sub(range.start) > LARGEST_BY_WORDS {
            return None;
        }
        let mut own = Own { runs: Vec::new(), pages: 0, end: range.start };
        let mut words = vec![0; WORDS * 8];
        while own.end < range.end {
            let count = WORDS.min(((range.end - own.end) / PAGE) as usize);
            let words = &mut words[..count * 8];
            self.file.read_exact_at(words, own.end / PAGE * 8).ok()?;
            for word in words.chunks_exact(8) {
                if own.pages == most {
                    return Some(own);
                }
                let word = u64::from_le_bytes(word.try_into().ok()?);
                if word & (WORD_PRESENT | WORD_SWAPPED) != 0 && word & WORD_FILE == 0 {
                    own.add(own.end..own.end + PAGE);
                }
                own.end += PAGE;
            }
        }
        Some(own)
    }
}

impl Own {
    fn add(&mut self, run: Range<u64>) {
        self.pages += (run.end - run.start) / PAGE;
        match self.runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => self.runs.push(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 64;

    /// Fresh memory of which some pages are written to.
    fn memory(written: &[u64]) -> Range<u64> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let start = kernel::call(libc::SYS_mmap as u64, [0, PAGES * PAGE, protection, flags, u64::MAX, 0]) as u64;
        for page in written {
            kernel::write(start + page * PAGE, 1u8).unwrap();
        }
        start..start + PAGES * PAGE
    }

    fn indices(own: &Own, range: &Range<u64>) -> Vec<Range<u64>> {
        let index = |address: u64| (address - range.start) / PAGE;
        own.runs.iter().map(|run| index(run.start)..index(run.end)).collect()
    }

    #[test]
    fn pages_that_were_written_to() {
        let range = memory(&[0, 1, 7, 63]);
        let map = PageMap::open().unwrap();
        let by_words = map.words(range.clone(), u64::MAX).unwrap();
        assert_eq!(indices(&by_words, &range), [0..2, 7..8, 63..64]);
        assert_eq!((by_words.pages, by_words.end), (4, range.end));
        assert_eq!(map.own(range, u64::MAX), Some(by_words));
    }

    #[test]
    fn no_more_than_wanted() {
        let range = memory(&[3, 4, 5, 9]);
        let map = PageMap::open().unwrap();
        for own in [map.own(range.clone(), 2).unwrap(), map.words(range.clone(), 2).unwrap()] {
            assert_eq!(indices(&own, &range), vec![3..5]);
            assert_eq!(own.end, range.start + 5 * PAGE);
        }
    }

    #[test]
    fn odd_ranges_are_refused() {
        let range = memory(&[0]);
        let map = PageMap::open().unwrap();
        assert_eq!(map.own(range.start + 1..range.end, u64::MAX), None);
        assert_eq!(map.words(0..LARGEST_BY_WORDS + PAGE, u64::MAX), None);
    }
}

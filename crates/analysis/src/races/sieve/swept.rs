//! Records that come from sweepers alone, and are to be passed over as a whole wherever nothing is looked at: there are many of
//! them, so it is to be told by as few looks as it takes.

use super::super::sampling::{STRIP_SIZE, Sampling};
use super::super::shapes::Part;
use trace::stream::records::address;

/// The start of memory that is on two strips at most.
#[derive(Clone, Copy)]
struct Start {
    offset: i64,
    word: u16,
    through_fs: bool,
}

/// What is known of a pattern.
#[derive(Clone, Copy, Default)]
struct Known {
    first: u32,
    n_starts: u32,
    /// All that it accesses is accessed by sweepers.
    is_swept: bool,
    /// The number of strips that were known when this was found out.
    as_of: u32,
}

/// By the numbers of patterns.
#[derive(Default)]
pub struct Swept {
    known: Vec<Known>,
    starts: Vec<Start>,
}

impl Swept {
    /// Whether nothing is looked at of a record, given the parts of its pattern.
    #[inline]
    pub fn skips(&mut self, number: u32, parts: &[Part], sampling: &Sampling, words: &[u64], fs_base: u64) -> bool {
        let known = match self.known.get(number as usize) {
            Some(known) if known.is_swept || known.as_of == sampling.n_known() => *known,
            _ => self.learn(number, parts, sampling),
        };
        let starts = &self.starts[known.first as usize..][..known.n_starts as usize];
        let is_near =
            |start: &Start| sampling.is_near(address(start.word, start.through_fs, start.offset, words, fs_base));
        known.is_swept && !starts.iter().any(is_near)
    }

    #[cold]
    fn learn(&mut self, number: u32, parts: &[Part], sampling: &Sampling) -> Known {
        let first = self.starts.len();
        let is_swept = parts.iter().all(|part| sampling.is_sweeper(part.site));
        if is_swept {
            self.starts.extend(starts_of(parts));
        }
        let n_starts = (self.starts.len() - first) as u32;
        let known = Known { first: first as u32, n_starts, is_swept, as_of: sampling.n_known() };
        self.known.resize(self.known.len().max(number as usize + 1), Known::default());
        self.known[number as usize] = known;
        known
    }
}

/// As few as it takes for all parts.
fn starts_of(parts: &[Part]) -> Vec<Start> {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| (part.word, part.through_fs, part.offset));
    let mut starts: Vec<Start> = Vec::new();
    for Part { offset, size, word, through_fs, .. } in parts {
        let end = offset.saturating_add(i64::from(size));
        let mut next = offset;
        if let Some(last) = starts.last().filter(|last| (last.word, last.through_fs) == (word, through_fs)) {
            next = next.max(last.offset.saturating_add(STRIP_SIZE));
            if end <= next {
                continue;
            }
        }
        while next < end {
            starts.push(Start { offset: next, word, through_fs });
            next = next.saturating_add(STRIP_SIZE);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::super::super::sampling::is_sampled;
    use super::*;
    use trace::stream::Site;

    fn part(word: u16, offset: i64, size: u32, site: u32) -> Part {
        Part { offset, size, word, through_fs: false, writes: false, site: Site(site) }
    }

    #[test]
    fn parts_close_together_take_one_look() {
        let offsets = |parts: &[Part]| -> Vec<(u16, i64)> {
            starts_of(parts).iter().map(|start| (start.word, start.offset)).collect()
        };
        assert_eq!(offsets(&[part(1, 64, 64, 0), part(1, 0, 64, 0), part(2, 0, 8, 0)]), [(1, 0), (2, 0)]);
        assert_eq!(offsets(&[part(1, 0, 8, 0), part(1, 508, 8, 0)]), [(1, 0), (1, 512)]);
        assert_eq!(offsets(&[part(1, 0, 8, 0), part(1, 1024, 8, 0)]), [(1, 0), (1, 1024)]);
        assert_eq!(offsets(&[part(1, -8, 1100, 0)]), [(1, -8), (1, 504), (1, 1016)]);
    }

    #[test]
    fn records_of_sweepers_are_skipped_where_nothing_is_looked_at() {
        let (mut swept, mut sampling) = (Swept::default(), Sampling::after(0));
        let parts = [part(1, 0, 8, 1), part(2, 0, 8, 2)];
        let strip = |number: i64| (number * STRIP_SIZE) as u64;
        let mut plain = (1000..).filter(|number| (-1..9).all(|next| !is_sampled(strip(number + next))));
        let first = plain.next().unwrap_or_default();
        let words = [0, strip(first), strip(first + 4)];
        let mut skips = |sampling: &Sampling| swept.skips(0, &parts, sampling, &words, 0);
        assert!(!skips(&sampling));
        sampling.share(Site(1), strip(first + 2), 8);
        assert!(!skips(&sampling), "not all are sweepers");
        sampling.share(Site(2), strip(first + 7), 8);
        assert!(skips(&sampling));
        sampling.know(strip(first + 5), 8);
        assert!(!skips(&sampling), "the next strip");
    }
}

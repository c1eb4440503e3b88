//! The one owner of code memory: nothing else holds a pointer into it.
//!
//! One guest thread runs at a time and hands its turn over through a lock, so code can be written and patched in
//! place while no other thread executes it; the hand-over orders the writes.
#![allow(unsafe_code)]

use std::ops::Range;

/// A contiguous piece of code memory that grows upwards until it is reset.
pub struct Region {
    start: u64,
    next: u64,
    end: u64,
}

impl Region {
    fn new(start: u64, size: u64) -> Region {
        Region { start, next: start, end: start + size }
    }

    pub fn next(&self) -> u64 {
        self.next
    }

    #[cfg(test)]
    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn used(&self) -> u64 {
        self.next - self.start
    }

    pub fn left(&self) -> u64 {
        self.end - self.next
    }
}

/// The regions of the cache, apart so that hot code stays dense.
pub struct CodeMemory {
    /// Translated units in the order of translation.
    pub hot: Region,
    /// Lookup prefixes of units that were translated before their first indirect entry.
    pub warm: Region,
    /// Exits, which run once or rarely.
    pub cold: Region,
    /// Eight-byte constants that code pushes.
    pub constants: Region,
    whole: Range<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegionName {
    Hot,
    Warm,
    Cold,
    Constants,
}

/// Code beyond this much is worth huge pages; below it, clearing them would cost more than they save.
const SMALL_PROGRAM: u64 = 1 << 20;

/// Large programs miss the instruction TLB more in translated code, which is longer than their own.
fn prefer_huge_pages(start: u64, end: u64) {
    if start >= end {
        return;
    }
    // SAFETY: advice about our own mapping; failure leaves small pages.
    unsafe { libc::madvise(start as *mut libc::c_void, (end - start) as usize, libc::MADV_HUGEPAGE) };
}

impl CodeMemory {
    /// How `size` bytes are shared out between the regions, in sixteenths.
    const SHARES: [u64; 4] = [9, 2, 4, 1];

    /// Reserves `size` bytes of writable and executable memory at `address`, which must be free.
    pub fn reserve(address: u64, size: u64) -> std::io::Result<CodeMemory> {
        // SAFETY: a fresh anonymous mapping at an address that the kernel refuses if anything is there.
        let got = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                size as usize,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if got as u64 != address {
            return Err(std::io::Error::last_os_error());
        }
        let mut at = address;
        let mut region = |share: u64| {
            let length = size / 16 * share;
            at += length;
            Region::new(at - length, length)
        };
        let [hot, warm, cold, constants] = Self::SHARES.map(&mut region);
        for region in [&hot, &warm] {
            prefer_huge_pages(region.start + SMALL_PROGRAM, region.end);
        }
        Ok(CodeMemory { hot, warm, cold, constants, whole: address..address + size })
    }

    pub fn range(&self) -> Range<u64> {
        self.whole.clone()
    }

    fn region(&mut self, name: RegionName) -> &mut Region {
        match name {
            RegionName::Hot => &mut self.hot,
            RegionName::Warm => &mut self.warm,
            RegionName::Cold => &mut self.cold,
            RegionName::Constants => &mut self.constants,
        }
    }

    /// Appends to a region; the bytes must have been assembled for its `next` address.
    pub fn append(&mut self, name: RegionName, bytes: &[u8]) -> u64 {
        let region = self.region(name);
        assert!(region.left() >= bytes.len() as u64, "code cache region {name:?} overflows");
        let at = region.next;
        region.next += bytes.len() as u64;
        self.write(at, bytes);
        at
    }

    pub fn align(&mut self, name: RegionName, alignment: u64) {
        let region = self.region(name);
        region.next = region.next.next_multiple_of(alignment).min(region.end);
    }

    /// Overwrites code in place.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(self.whole.contains(&at) && at + bytes.len() as u64 <= self.whole.end);
        // SAFETY: the range lies inside the mapping made by `reserve`, which is never unmapped.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }

    /// Reads what `append` has put into the region of constants, and code may have changed.
    pub fn constant(&self, at: u64) -> u64 {
        assert!(self.constants.start <= at && at + 8 <= self.constants.next);
        // SAFETY: the eight bytes lie inside the mapping made by `reserve`, which is never unmapped, and are aligned as
        // all of the region's entries have their size.
        unsafe { (at as *const u64).read_volatile() }
    }

    /// Points the displacement at `at` to `target`.
    pub fn aim(&mut self, at: u64, target: u64) {
        let displacement = target.wrapping_sub(at + 4) as i32;
        self.write(at, &displacement.to_le_bytes());
    }

    /// Forgets all code from the given marks on.
    pub fn rewind(&mut self, mark: Mark) {
        self.hot.next = mark.0[0];
        self.warm.next = mark.0[1];
        self.cold.next = mark.0[2];
        self.constants.next = mark.0[3];
    }

    pub fn mark(&self) -> Mark {
        Mark([self.hot.next, self.warm.next, self.cold.next, self.constants.next])
    }
}

/// How far the regions were filled at some moment.
#[derive(Clone, Copy)]
pub struct Mark([u64; 4]);

/// The table of indirect-branch targets: an address to jump to for the low bits of every guest address.
pub struct BranchTable {
    start: u64,
}

impl BranchTable {
    pub const ENTRIES: u64 = 1 << 16;
    /// Addresses this close share an entry: few branch targets do, and the entries in use lie closer together, which
    /// keeps them in the data cache.
    pub const SHIFT: u32 = 2;

    /// Reserves the table in the low two gigabytes, where an instruction can name it by a 32-bit constant.
    pub fn reserve(candidates: impl Iterator<Item = u64>) -> std::io::Result<BranchTable> {
        let mut last = std::io::Error::other("no address is left for the branch table");
        for start in candidates {
            // SAFETY: a fresh mapping at an address that the kernel refuses if anything is there.
            let got = unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    (Self::ENTRIES * 8) as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            if got as u64 == start {
                return Ok(BranchTable { start });
            }
            last = std::io::Error::last_os_error();
        }
        Err(last)
    }

    pub fn range(&self) -> Range<u64> {
        self.start..self.start + Self::ENTRIES * 8
    }

    pub fn displacement(&self) -> i32 {
        i32::try_from(self.start).expect("the branch table lies in the low two gigabytes")
    }

    pub fn get(&self, guest: u64) -> u64 {
        // SAFETY: the masked index lies inside the table.
        unsafe { self.entry(guest).read() }
    }

    pub fn set(&mut self, guest: u64, host: u64) {
        // SAFETY: the masked index lies inside the table.
        unsafe { self.entry(guest).write(host) };
    }

    fn entry(&self, guest: u64) -> *mut u64 {
        (self.start + (guest >> Self::SHIFT & (Self::ENTRIES - 1)) * 8) as *mut u64
    }

    pub fn fill(&mut self, host: u64) {
        for index in 0..Self::ENTRIES {
            self.set(index << Self::SHIFT, host);
        }
    }
}

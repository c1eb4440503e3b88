//! Memory that other processes write too: what has changed there since the last look goes into the recording.
//!
//! What was there is kept when the guest stops running ([`Commons`](crate::commons::Commons)), and a look is taken when it
//! goes on. In between only other processes and the kernel write.
//!
//! May miss: memory that the guest may only read; what processes write that are not recorded while the guest runs; and
//! all beyond [`MOST_BYTES`], of which a note in the recording tells.

use crate::kernel;
use crate::space::PAGE;
use std::collections::BTreeMap;
use std::ops::Range;

/// So much is compared at a call: some microseconds' worth for what programs usually share.
const MOST_BYTES: u64 = 1 << 20;

/// The memory as a replay will have it, page by page.
#[derive(Default)]
pub struct Sharing {
    pages: BTreeMap<u64, Box<[u8]>>,
    /// Anonymous memory is not shared with anybody before the first fork.
    pub has_forked: bool,
    has_told: bool,
}

/// A place, and what it holds now.
pub type Change = (u64, Vec<u8>);

/// What a look found.
pub struct Look {
    pub changes: Vec<Change>,
    /// There is more than can be looked at, and nobody has said so yet.
    pub is_too_much: bool,
}

impl Sharing {
    /// Keeps what is in `ranges` now, which is what a replay has there.
    pub fn keep(&mut self, ranges: &[Range<u64>]) {
        let has_told = self.has_told;
        self.look(ranges);
        self.has_told = has_told;
    }

    /// Looks at all of `ranges`, which are whole pages.
    pub fn look(&mut self, ranges: &[Range<u64>]) -> Look {
        let mut look = Look { changes: Vec::new(), is_too_much: false };
        let mut left = MOST_BYTES;
        let mut before = std::mem::take(&mut self.pages);
        for range in ranges {
            let size = range.end - range.start;
            if size > left {
                look.is_too_much |= !std::mem::replace(&mut self.has_told, true);
                continue;
            }
            left -= size;
            for page in range.clone().step_by(PAGE as usize) {
                let (known, change) = match before.remove(&page) {
                    Some(mut known) => {
                        let change = compare(page, &mut known);
                        (known, change)
                    }
                    None => first_look(page),
                };
                look.changes.extend(change);
                self.pages.insert(page, known);
            }
        }
        look
    }
}

/// All of a page that is new: others may have written to it since it was mapped or shared by a fork.
fn first_look(page: u64) -> (Box<[u8]>, Option<Change>) {
    let mut now = vec![0; PAGE as usize];
    let is_there = kernel::read_bytes(page, &mut now).is_ok();
    let change = is_there.then(|| (page, now.clone()));
    (now.into(), change)
}

/// Brings what is known of a page up to date; tells the part that differs.
pub fn compare(page: u64, known: &mut [u8]) -> Option<Change> {
    let mut now = [0; PAGE as usize];
    // Behind the end of a file there is no memory.
    kernel::read_bytes(page, &mut now).ok()?;
    if now[..] == *known {
        return None;
    }
    let differs = |(now, known): (&u8, &u8)| now != known;
    let first = now.iter().zip(&*known).position(differs)?;
    let last = now.iter().zip(&*known).rposition(differs)?;
    known.copy_from_slice(&now);
    Some((page + first as u64, now[first..=last].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; PAGE as usize]);

    #[test]
    fn a_change_is_told_once() {
        let mut page = Box::new(Page([0; PAGE as usize]));
        let start = (&raw const *page) as u64;
        let range = start..start + PAGE;
        let mut sharing = Sharing::default();
        let all = sharing.look(std::slice::from_ref(&range)).changes;
        assert_eq!(all, [(start, vec![0; PAGE as usize])]);
        assert!(sharing.look(std::slice::from_ref(&range)).changes.is_empty());
        page.0[10] = 1;
        page.0[12] = 2;
        let look = sharing.look(std::slice::from_ref(&range));
        assert_eq!(look.changes, [(start + 10, vec![1, 0, 2])]);
        assert!(sharing.look(std::slice::from_ref(&range)).changes.is_empty());
    }

    #[test]
    fn too_much_is_told_once() {
        let mut sharing = Sharing::default();
        let range = PAGE..PAGE + MOST_BYTES + PAGE;
        assert!(sharing.look(std::slice::from_ref(&range)).is_too_much);
        assert!(!sharing.look(std::slice::from_ref(&range)).is_too_much);
    }
}

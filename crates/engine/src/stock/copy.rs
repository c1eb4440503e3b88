//! The last resort for calls of which nobody knows what they write: a copy of the guest's memory from before the call, which
//! is compared with what is there after it.
//!
//! Only private pages that the guest has made its own are copied. One that becomes its own meanwhile counts as changed as a
//! whole. What other threads have written meanwhile is told too, which does no harm: a replay has the same there.
//!
//! May miss: memory that is shared with other processes, mappings that the call makes or moves, and what the kernel writes
//! when the call is over.

use super::look_for_pages;
use crate::kernel;
use crate::shared_memory::compare;
use crate::space::{GuestSpace, PAGE};
use guest::effects::Span;
use std::collections::BTreeMap;

/// No more than 256 megabytes are copied for a call.
const MOST_PAGES: u64 = 1 << 16;

pub struct MemoryCopy {
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl MemoryCopy {
    /// None if there is too much of it, or if nobody can tell which pages there are.
    pub fn take(space: &GuestSpace) -> Option<MemoryCopy> {
        let pages = own_pages(space, MOST_PAGES)?.into_iter().filter_map(|page| Some((page, page_at(page)?)));
        Some(MemoryCopy { pages: pages.collect() })
    }

    /// Where memory is no longer what it was. None if nobody can tell.
    pub fn changes(mut self, space: &GuestSpace) -> Option<Vec<Span>> {
        let changed = own_pages(space, MOST_PAGES)?.into_iter().filter_map(|page| match self.pages.get_mut(&page) {
            Some(known) => compare(page, known).map(|(address, bytes)| Span { address, length: bytes.len() as u64 }),
            None => Some(Span { address: page, length: PAGE }),
        });
        Some(changed.collect())
    }
}

/// The pages that the guest has made its own, unless there are more than `most`.
fn own_pages(space: &GuestSpace, most: u64) -> Option<Vec<u64>> {
    let found = look_for_pages(&space.private_ranges(), most + 1)?;
    let pages: u64 = found.iter().map(|(_, own)| own.pages).sum();
    let runs = found.into_iter().flat_map(|(_, own)| own.runs);
    (pages <= most).then(|| runs.flat_map(|run| run.step_by(PAGE as usize)).collect())
}

fn page_at(address: u64) -> Option<Box<[u8]>> {
    let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
    kernel::read_bytes(address, &mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::memory;
    use super::*;

    #[test]
    fn what_has_changed_is_found() {
        let (space, range) = memory(600);
        let at = |page: u64, offset: u64| range.start + page * PAGE + offset;
        for page in [0, 3, 599] {
            kernel::write(at(page, 100), 7u8).unwrap();
        }
        let copy = || MemoryCopy::take(&space).unwrap();
        assert_eq!(copy().changes(&space), Some(vec![]));
        let before = copy();
        kernel::write(at(3, 40), 1u8).unwrap();
        kernel::write(at(3, 90), u64::MAX).unwrap();
        kernel::write(at(7, 5), 1u8).unwrap();
        let (part, page) = (Span { address: at(3, 40), length: 58 }, Span { address: at(7, 0), length: PAGE });
        assert_eq!(before.changes(&space), Some(vec![part, page]));
    }

    #[test]
    fn too_much_is_not_copied() {
        let (space, range) = memory(40);
        let written = [2, 3, 20].map(|page| range.start + page * PAGE);
        for page in written {
            kernel::write(page, 1u8).unwrap();
        }
        assert_eq!(own_pages(&space, 3), Some(written.to_vec()));
        assert_eq!(own_pages(&space, 2), None);
    }
}

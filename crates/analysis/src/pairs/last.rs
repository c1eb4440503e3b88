//! The last accesses of every two threads to each byte: the heads of pairs that are still to come, where others do not count.

use super::Deed;
use super::cells::Stamp;
use super::two_by_two::TwoByTwo;
use super::words::{Word, Words};
use trace::stream::Thread;

/// Memory is kept in pieces of so many bytes, with masks of them.
pub(super) const GRANULE: u64 = 8;
/// Of a longer access, only so many granules are looked at.
pub(super) const LONGEST: u64 = 1 << 16;

/// An access that may become a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Past {
    pub thread: Thread,
    pub stamp: Stamp,
}

impl Past {
    /// Its place among all accesses of the run.
    pub fn order(&self) -> u64 {
        self.stamp.order()
    }
}

/// The same bytes of a granule, which have been accessed alike.
#[derive(Clone, Debug)]
struct Slot {
    mask: u8,
    history: TwoByTwo,
}

#[derive(Default)]
pub(super) struct LastAccesses {
    /// By granule: one more than the place of its slots.
    places: Words,
    slots: Vec<Vec<Slot>>,
    /// Places that are not in use.
    free: Vec<Word>,
}

impl LastAccesses {
    /// An access; tells each pair that it is the tail of, with the first byte that both ends access.
    pub fn access(&mut self, address: u64, size: u64, deed: Deed, past: Past, mut pair: impl FnMut(Past, Deed, u64)) {
        for (number, mask) in pieces(address, size) {
            let slots = self.slots_of(number);
            separate(slots, mask);
            for slot in slots.iter_mut().filter(|slot| slot.mask & mask != 0) {
                let at = number * GRANULE + u64::from(slot.mask.trailing_zeros());
                match deed {
                    Deed::Read => slot.history.read(past, |head, deed| pair(head, deed, at)),
                    Deed::Write => slot.history.write(past, |head, deed| pair(head, deed, at)),
                }
            }
        }
    }

    fn slots_of(&mut self, granule: u64) -> &mut Vec<Slot> {
        let place = &mut self.places.from(granule, granule)[0];
        if *place == 0 {
            *place = self.free.pop().unwrap_or_else(|| {
                self.slots.push(Vec::new());
                self.slots.len() as Word
            });
        }
        &mut self.slots[*place as usize - 1]
    }

    /// Writes the bytes of a range that anybody has accessed.
    pub fn overwrite(&mut self, address: u64, size: u64, past: Past, mut pair: impl FnMut(Past, Deed, u64)) {
        let last_byte = address.saturating_add(size.max(1) - 1);
        let slots = &mut self.slots;
        for (number, place) in self.places.known(address, size).filter(|(_, place)| **place != 0) {
            let mask = mask_in(number, address, last_byte);
            for slot in slots[*place as usize - 1].iter_mut().filter(|slot| slot.mask & !mask == 0) {
                let at = number * GRANULE + u64::from(slot.mask.trailing_zeros());
                slot.history.write(past, |head, deed| pair(head, deed, at));
            }
        }
    }

    /// The memory is another one from now on.
    pub fn forget(&mut self, address: u64, size: u64) {
        for (_, place) in self.places.known(address, size).filter(|(_, place)| **place != 0) {
            self.slots[*place as usize - 1].clear();
            self.free.push(std::mem::take(place));
        }
    }
}

/// Makes sure that every slot lies within the mask or apart from it, and that the mask is covered.
fn separate(slots: &mut Vec<Slot>, mask: u8) {
    let mut covered = 0;
    for idx in 0..slots.len() {
        let (inside, outside) = (slots[idx].mask & mask, slots[idx].mask & !mask);
        covered |= inside;
        if inside != 0 && outside != 0 {
            let rest = Slot { mask: outside, history: slots[idx].history.clone() };
            slots[idx].mask = inside;
            slots.push(rest);
        }
    }
    if covered != mask {
        slots.push(Slot { mask: mask & !covered, history: TwoByTwo::default() });
    }
}

/// The granules of a range, each with a mask of the bytes that are in it.
fn pieces(address: u64, size: u64) -> impl Iterator<Item = (u64, u8)> {
    let last_byte = address.saturating_add(size.max(1) - 1);
    let (first, last) = (address / GRANULE, last_byte / GRANULE);
    (first..=last.min(first.saturating_add(LONGEST))).map(move |number| (number, mask_in(number, address, last_byte)))
}

/// The bytes of a granule that are in a range.
fn mask_in(number: u64, first_byte: u64, last_byte: u64) -> u8 {
    let from = if number == first_byte / GRANULE { first_byte % GRANULE } else { 0 };
    let to = if number == last_byte / GRANULE { last_byte % GRANULE } else { GRANULE - 1 };
    (0xff_u8 << from) & (0xff_u8 >> (GRANULE - 1 - to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(thread: Thread, order: u64) -> Past {
        // Orders are counted from 1.
        Past { thread, stamp: Stamp::new(1, order + 1) }
    }

    #[test]
    fn masks_follow_bytes() {
        assert_eq!(pieces(0x10, 8).collect::<Vec<_>>(), [(2, 0xff)]);
        assert_eq!(pieces(0x14, 4).collect::<Vec<_>>(), [(2, 0xf0)]);
        assert_eq!(pieces(0x16, 4).collect::<Vec<_>>(), [(2, 0xc0), (3, 0x03)]);
        assert_eq!(pieces(u64::MAX, 8).count(), 1);
    }

    #[test]
    fn neighbours_do_not_meet_and_overlaps_do() {
        let mut last = LastAccesses::default();
        let mut pairs = Vec::new();
        let accesses = [(1, 0x10, 4), (2, 0x14, 4), (2, 0x10, 8), (1, 0x16, 1)];
        for (order, (thread, address, size)) in accesses.into_iter().enumerate() {
            let past = past(thread, order as u64);
            last.access(address, size, Deed::Write, past, |head, _, at| pairs.push((head.order() - 1, order, at)));
        }
        assert_eq!(pairs, [(0, 2, 0x10), (2, 3, 0x16)]);
    }

    #[test]
    fn released_memory_is_another() {
        let mut last = LastAccesses::default();
        let mut pairs = 0;
        last.access(0x10, 4, Deed::Write, past(1, 0), |_, _, _| pairs += 1);
        last.overwrite(0x10, 64, past(2, 1), |head, deed, at| {
            assert_eq!((head.order(), deed, at), (1, Deed::Write, 0x10));
            pairs += 1;
        });
        last.forget(0x10, 64);
        last.access(0x10, 4, Deed::Write, past(1, 2), |_, _, _| pairs += 1);
        assert_eq!(pairs, 1);
    }
}

//! What is known of the synchronisation memory of a granule.

use super::clock::{Moment, Passed};

/// Bytes that were accessed together, and what their writers pass on to their readers.
struct Part {
    mask: u8,
    passed: Passed,
}

/// The bytes of a granule that are synchronisation, in parts that do not overlap.
#[derive(Default)]
pub struct Parts(Vec<Part>);

impl Parts {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All bytes that are in a part.
    pub fn mask(&self) -> u8 {
        self.0.iter().fold(0, |mask, part| mask | part.mask)
    }

    /// These bytes, none of which is in a part yet, are one.
    pub fn add(&mut self, mask: u8) {
        self.0.push(Part { mask, passed: Passed::Nothing });
    }

    /// Forgets the parts that have any of these bytes.
    pub fn remove(&mut self, mask: u8) {
        self.0.retain(|part| part.mask & mask == 0);
    }

    /// What readers of these bytes acquire.
    pub fn passed(&self, mask: u8) -> impl Iterator<Item = &Passed> {
        self.0.iter().filter(move |part| part.mask & mask != 0).map(|part| &part.passed)
    }

    /// A write to these bytes: it replaces what it overwrites as a whole.
    pub fn pass_on(&mut self, mask: u8, moment: &Moment) {
        for part in self.0.iter_mut().filter(|part| part.mask & mask != 0) {
            if part.mask & !mask == 0 {
                part.passed = Passed::One(moment.clone());
            } else {
                part.passed.add(moment.clone());
            }
        }
    }

    /// How much memory the parts take, in bytes.
    pub fn size(&self) -> usize {
        self.0.capacity() * size_of::<Part>()
    }
}

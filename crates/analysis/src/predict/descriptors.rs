//! Open descriptors, and who has used each of them.

use super::deeds::Happening;
use rustc_hash::FxHashMap;

#[derive(Default)]
pub struct Descriptors {
    /// The last use by each thread.
    uses: FxHashMap<u64, Vec<Happening>>,
}

impl Descriptors {
    pub fn used(&mut self, descriptor: u64, by: Happening) {
        let uses = self.uses.entry(descriptor).or_default();
        uses.retain(|earlier| earlier.thread != by.thread);
        uses.push(by);
    }

    /// Who has used it: nobody knows of it any longer.
    pub fn closed(&mut self, descriptor: u64) -> Vec<Happening> {
        self.uses.remove(&descriptor).unwrap_or_default()
    }

    pub fn forget_all(&mut self) {
        self.uses.clear();
    }
}

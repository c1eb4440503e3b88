//! Chosen instructions that come very often are told for a while, and then now and then.
//!
//! How often each has been told is counted where records are handed over, so it depends on the run alone. One that has been told often enough is *hushed* when a slice
//! of the clock ends: every unit that has it is made anew. Each time that gates are opened, all of them are told for a while again.
//!
//! At any moment, an instruction is told by all units that have it, or by none. So whoever counts how often it has come has to know only from when on nothing was left
//! out, which is kept for each thread: since its clock showed so much.

use super::CodeCache;
use super::bare_calls::BareCalls;
use crate::code::observe::{Catalogue, Patience};
use crate::code::path::GuestCode;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Tellings are looked through after so many records: making units anew more often would cost more than it saves.
const FEWEST_RECORDS: u64 = 1 << 12;

/// Since when nothing was left out of what a thread tells.
#[derive(Clone, Copy)]
struct Whole {
    /// How often what is told had changed by then.
    changes: u64,
    clock: u64,
}

#[derive(Default)]
pub struct Tellings {
    patience: Option<Patience>,
    /// How often records were written since they were last looked through, by their numbers.
    written: Vec<u32>,
    n_written: u64,
    /// How often instructions have been told since they were last hushed.
    told: FxHashMap<u64, u32>,
    hushed: BTreeSet<u64>,
    bare_calls: BareCalls,
    /// How often what is told has changed.
    changes: u64,
    threads: BTreeMap<u32, Whole>,
}

impl Tellings {
    pub fn with(patience: Option<Patience>) -> Tellings {
        Tellings { patience, ..Tellings::default() }
    }

    pub fn hushed(&self) -> &BTreeSet<u64> {
        &self.hushed
    }

    pub fn is_hushed(&self, pc: u64) -> bool {
        self.hushed.contains(&pc)
    }

    /// Records have been handed over.
    pub fn count(&mut self, mut words: &[u64], catalogue: &Catalogue) {
        if self.patience.is_none() {
            return;
        }
        self.bare_calls.begin_batch();
        while let Some(&number) = words.first() {
            let index = number as usize;
            if self.written.len() <= index {
                self.written.resize(index + 1, 0);
            }
            self.written[index] += 1;
            self.n_written += 1;
            self.bare_calls.note(number, catalogue);
            words = &words[usize::from(catalogue.record(number).words)..];
        }
    }

    /// An instruction that ran by itself has been told.
    pub fn count_step(&mut self, pc: u64) {
        if self.patience.is_some() {
            *self.told.entry(pc).or_default() += 1;
            self.n_written += 1;
        }
    }

    /// Since which moment of its clock nothing was left out of what a thread tells. None if the thread is on its way to such a moment.
    pub fn whole_since(&mut self, thread: u32) -> Option<u64> {
        let whole = self.threads.entry(thread).or_insert(Whole { changes: self.changes, clock: 0 });
        (whole.changes == self.changes).then_some(whole.clock)
    }

    /// Whether what is told has changed since a thread was last at an event of its clock.
    pub fn is_torn(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|whole| whole.changes != self.changes)
    }

    /// The thread's clock is about to show this.
    pub fn arrive(&mut self, thread: u32, clock: u64) {
        if self.is_torn(thread) {
            self.threads.insert(thread, Whole { changes: self.changes, clock });
        }
    }

    /// Whether so much was written that it is worth looking through.
    pub fn are_due(&self) -> bool {
        self.n_written >= FEWEST_RECORDS
    }

    /// Adds up what was written, by the instructions that told it.
    fn add_up(&mut self, catalogue: &Catalogue, chosen: &BTreeSet<u64>) {
        self.n_written = 0;
        for (number, written) in self.written.iter_mut().enumerate() {
            let times = std::mem::take(written);
            let record = catalogue.record(number as u64);
            if times == 0 || record.retracts {
                continue;
            }
            let unit = catalogue.unit(record.unit);
            let mut last = None;
            for access in unit.accesses.iter().take_while(|access| access.instruction < record.executed) {
                let pc = unit.sites[usize::from(access.instruction)].pc;
                if last.replace(access.instruction) != Some(access.instruction) && chosen.contains(&pc) {
                    let told = self.told.entry(pc).or_default();
                    *told = told.saturating_add(times);
                }
            }
        }
    }

    /// Functions that have been called often enough, with nothing told meanwhile, and where they return.
    fn weary_functions(&mut self) -> Vec<(u64, Vec<u64>)> {
        let first = self.patience.as_ref().map(|patience| patience.first);
        first.map(|first| self.bare_calls.hush(first)).unwrap_or_default()
    }

    /// Those that have been told often enough.
    fn weary(&self) -> BTreeSet<u64> {
        let Some(patience) = &self.patience else { return BTreeSet::new() };
        let weary = self.told.iter().filter(|(pc, times)| **times >= patience.first && !patience.steady.contains(pc));
        weary.map(|(pc, _)| *pc).filter(|pc| !self.hushed.contains(pc)).collect()
    }

    /// All are told again, for a shorter while. Gives those of which that is new, and tells whether there are functions of which it is.
    fn wake(&mut self) -> (BTreeSet<u64>, bool) {
        let Some(patience) = &self.patience else { return (BTreeSet::new(), false) };
        let since = patience.first.saturating_sub(patience.later);
        for pc in &self.hushed {
            self.told.insert(*pc, since);
        }
        (std::mem::take(&mut self.hushed), self.bare_calls.wake(since))
    }
}

impl CodeCache {
    /// Another slice of the clock begins: instructions that have been told often enough are hushed. Where gates have just been opened, all are told again.
    /// Tells whether anything has changed.
    pub fn review_tellings(&mut self, code: &dyn GuestCode, are_gates_opened: bool) -> bool {
        let changed = match are_gates_opened {
            true => self.wake(),
            false => self.hush_weary(code),
        };
        if let Some(changed) = &changed {
            self.tellings.changes += 1;
            self.drop_units_with(code, changed);
        }
        changed.is_some()
    }

    /// Gives what is told again, if anything is.
    fn wake(&mut self) -> Option<BTreeSet<u64>> {
        let (mut woken, are_functions) = self.tellings.wake();
        if woken.is_empty() && !are_functions {
            return None;
        }
        // Calls are told of functions that have something to tell, so they change with it.
        woken.extend(self.quiet.wake());
        Some(woken)
    }

    /// Gives what is no longer told, if anything is not.
    fn hush_weary(&mut self, code: &dyn GuestCode) -> Option<BTreeSet<u64>> {
        let (catalogue, chosen) = (self.catalogue.as_ref()?, self.chosen.as_ref()?);
        if !self.tellings.are_due() {
            return None;
        }
        self.tellings.add_up(catalogue, &chosen.instructions);
        let mut weary = self.tellings.weary();
        let functions = self.tellings.weary_functions();
        if weary.is_empty() && functions.is_empty() {
            return None;
        }
        self.tellings.hushed.extend(&weary);
        weary.extend(functions.iter().flat_map(|(entry, returns)| self.quiet.deem(*entry, returns)));
        if let Some(wishes) = self.wishes() {
            weary.extend(self.quiet.hush(code, wishes));
        }
        Some(weary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_whole_from_an_event_of_their_clocks_on() {
        let mut tellings = Tellings::default();
        assert_eq!([1, 2].map(|thread| tellings.whole_since(thread)), [Some(0); 2]);
        tellings.changes += 1;
        tellings.arrive(1, 70);
        assert_eq!([1, 2].map(|thread| tellings.whole_since(thread)), [Some(70), None]);
        assert!(tellings.is_torn(2) && !tellings.is_torn(1));
        assert_eq!(tellings.whole_since(3), Some(0), "of a new thread, nothing was ever left out");
        tellings.arrive(1, 90);
        assert_eq!(tellings.whole_since(1), Some(70), "nothing has changed since");
    }
}

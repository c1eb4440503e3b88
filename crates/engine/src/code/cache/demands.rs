//! What translated code is asked to do besides running the guest: to write down, to leave early, to show less of the processor.

use super::sequels::Sequels;
use super::tellings::Tellings;
use super::{AlarmMaps, CodeCache, Window};
use crate::code::observe::sparing::{Spared, Sparing};
use crate::code::observe::wishes::Wishes;
use crate::code::observe::{Catalogue, Chosen, Marks, Wanted};
use crate::code::path::Limits;
use crate::debug::Watch;
use crate::processor::Shown;
use crate::signals::frame::XState;
use std::collections::{BTreeMap, BTreeSet};

impl CodeCache {
    /// Makes every unit from now on write down what it does.
    pub fn observe(&mut self, wanted: Wanted) {
        self.catalogue = Some(Catalogue::new(wanted));
    }

    /// Makes observed units write registers down at these instructions.
    pub fn set_marks(&mut self, marks: Marks) {
        self.marks = marks.into_iter().collect();
    }

    pub fn set_chosen(&mut self, chosen: Option<Chosen>) {
        self.sequels = chosen.as_ref().map(|chosen| Sequels::of(&chosen.sequels)).unwrap_or_default();
        self.tellings = Tellings::with(chosen.as_ref().and_then(|chosen| chosen.patience.clone()));
        self.chosen = chosen;
    }

    pub fn set_sparing(&mut self, sparing: Option<Sparing>) {
        self.spared = sparing.map(Spared::new);
    }

    pub(in crate::code) fn spared_mut(&mut self) -> Option<&mut Spared> {
        self.spared.as_mut()
    }

    pub fn spared(&self) -> Option<&Spared> {
        self.spared.as_ref()
    }

    /// What is wanted of which instructions, if anything is.
    pub(in crate::code) fn wishes(&self) -> Option<Wishes<'_>> {
        let wanted = self.catalogue.as_ref()?.wanted;
        let wishes = Wishes::new(wanted, &self.marks, self.chosen.as_ref(), &self.quiet);
        Some(Wishes { tells_all: self.sequels.are_told_now(), hushed: Some(self.tellings.hushed()), ..wishes })
    }

    /// Keeps the guest to the processor that it is shown.
    pub fn show(&mut self, shown: Option<Shown>) {
        let limited = shown.filter(|shown| shown.limits_state(XState::find()));
        self.state_limit = limited.map(|shown| shown.components as u32);
        self.intercepts_state = shown.is_some();
    }

    /// Leaves translated code after every instruction.
    pub fn step_singly(&mut self) {
        self.limits = Limits { instructions: 1, branches: 1 };
        self.single_steps = true;
    }

    /// Leaves translated code before the instructions at these addresses and no others, by [`Exit::Place`].
    pub fn set_places(&mut self, places: BTreeSet<u64>) {
        let old = std::mem::replace(&mut self.places, places);
        let changed: Vec<u64> = old.symmetric_difference(&self.places).copied().collect();
        for pc in changed {
            self.invalidate(pc..pc.saturating_add(1));
        }
    }

    /// Whether translated code leaves before the instruction at `pc`.
    pub fn is_place(&self, pc: u64) -> bool {
        self.places.contains(&pc)
    }

    /// Leaves before instructions that may do what is watched for, and no others.
    pub fn set_watched(&mut self, watches: &[Watch]) {
        self.watched = watches.iter().map(Window::around).collect();
        self.flush();
    }

    /// Leaves before accesses for which an entry of a map is set.
    pub fn set_alarms(&mut self, maps: AlarmMaps) {
        if self.alarms != Some(maps) {
            self.alarms = Some(maps);
            self.flush();
        }
    }

    /// Lets the memory operands of these instructions mean places so many bytes further on.
    pub fn set_moved(&mut self, moved: BTreeMap<u64, i64>) {
        self.moved = moved;
        self.flush();
    }

    pub(in crate::code) fn distance_at(&self, pc: u64) -> Option<i64> {
        self.moved.get(&pc).copied()
    }

    pub fn catalogue(&self) -> Option<&Catalogue> {
        self.catalogue.as_ref()
    }

    /// Records have been handed over. Gives what explains them.
    pub fn count_tellings(&mut self, words: &[u64]) -> Option<&Catalogue> {
        let catalogue = self.catalogue.as_ref()?;
        self.tellings.count(words, catalogue);
        Some(catalogue)
    }

    pub(crate) fn catalogue_mut(&mut self) -> Option<&mut Catalogue> {
        self.catalogue.as_mut()
    }
}

//! Units of hot paths, and following the threads that show where those lie.

use super::{CodeCache, PAGE};
use crate::code::assembler::Assembler;
use crate::code::events;
use crate::code::hot::{Beginning, Follower, Next};
use crate::code::memory::RegionName;
use crate::code::observe::sparing::Spared;
use crate::code::observe::wishes::Wishes;
use crate::code::path::{GuestCode, Path};
use crate::code::translate;
use iced_x86::Instruction;
use std::collections::BTreeSet;

/// A unit that is told in part, but not yet now and then.
pub struct ToldForAWhile {
    head: u64,
    /// Where it is counted how often it is run until then.
    left: u64,
}

impl CodeCache {
    /// Cuts hot paths off where they are often left.
    pub fn review_hot_paths(&mut self, code: &dyn GuestCode) {
        let memory = &mut self.memory;
        let cut = self.hot_paths.review(|counter| {
            let count = memory.constant(counter);
            memory.write(counter, &[0; 8]);
            count
        });
        for path in cut {
            self.add_hot_path(code, &path);
        }
    }

    /// Makes hot paths anew that nothing is told on any longer.
    pub fn resume_hot_paths(&mut self, code: &dyn GuestCode) {
        let resting = std::mem::take(&mut self.resting_paths);
        let (resting, ready): (Vec<Path>, Vec<Path>) = resting.into_iter().partition(|path| self.stops_within(path));
        self.resting_paths = resting;
        for path in ready {
            self.add_hot_path(code, &path);
        }
    }

    /// Where code goes on from `head` as long as it does not have to write anything down each time.
    fn quiet_path(&self, code: &dyn GuestCode, head: u64) -> Path {
        let tells = |instruction: &Instruction| {
            self.wishes().is_some_and(|wishes| self.tells_always(wishes, std::slice::from_ref(instruction)))
        };
        let is_known = |pc: u64| self.entry(pc).is_some();
        Path::follow(code, head, self.limits, is_known, |instruction| !tells(instruction)).into_loop()
    }

    /// The count of how often the unit of a path at `head` is run before it is one that tells now and then, if it becomes one.
    pub fn tell_for_a_while(&mut self, head: u64, path: &Path) -> Option<u64> {
        let patience = self.patience()?;
        if self.stops_within(path) {
            return None;
        }
        let left = self.emit_constant(patience);
        self.told_for_a_while.push(ToldForAWhile { head, left });
        Some(left)
    }

    /// Translates calls and returns anew that are no longer told, since what is called has been bound.
    pub fn hush_bound_functions(&mut self, code: &dyn GuestCode) {
        let hushed = self.wishes().map(|wishes| self.quiet.bind(code, wishes)).unwrap_or_default();
        let pages: BTreeSet<u64> = hushed.into_iter().map(|pc| pc / PAGE).collect();
        self.drop_pages(pages);
    }

    /// Makes units that have told enough such that tell now and then.
    pub fn quieten_units(&mut self, code: &dyn GuestCode) {
        let has_told_enough = |told: &mut ToldForAWhile| self.memory.constant(told.left) == 0;
        let enough: Vec<ToldForAWhile> = self.told_for_a_while.extract_if(.., has_told_enough).collect();
        for ToldForAWhile { head, .. } in enough {
            let path = self.quiet_path(code, head);
            // The unit may have been dropped, and its code with it.
            let is_there = self.entry(head).is_some() && !path.instructions.is_empty();
            if is_there && !self.stops_within(&path) {
                // Nobody has been seen to take it: unless it is a loop, it may be left anywhere.
                self.add_path(code, &path, path.is_loop());
            }
        }
    }

    /// Takes a sample of where threads are; gives a follower if the thread should be followed. Where everything is written down, there is no path without.
    pub fn sample(&mut self, branch: u64) -> Option<Follower> {
        let is_quiet_somewhere = self.catalogue.is_none() || self.chosen.is_some() || self.patience().is_some();
        if !is_quiet_somewhere || self.single_steps {
            return None;
        }
        match self.heat.sample(branch)? {
            Beginning::Target => Some(Follower::default()),
            // Units beside a hot path cost little, unless they write something down.
            Beginning::Block => self.patience().and_then(|_| self.block_of(branch)).map(Follower::towards),
        }
    }

    /// Where the block begins that a branch ends, as far as it can be told.
    fn block_of(&self, branch: u64) -> Option<u64> {
        const FARTHEST: u64 = 256;
        self.entries.keys().copied().filter(|pc| (branch.saturating_sub(FARTHEST)..=branch).contains(pc)).max()
    }

    /// What a followed thread that goes on at `pc` should do.
    pub fn follow(&mut self, code: &dyn GuestCode, follower: &mut Follower, pc: u64) -> Next {
        match follower.at(code, &mut self.heat, pc) {
            // The last block of a path is not run before the path is made, so both are looked at.
            Next::Run(path) | Next::Done(Some(path)) if self.stops_within(&path) => Next::Done(None),
            next => next,
        }
    }

    /// Whether a path leaves before its end, or has something to write down each time.
    fn stops_within(&self, path: &Path) -> bool {
        let may_stop = !(self.places.is_empty() && self.points.is_empty() && self.sequels.are_none());
        let stops = |instruction: &Instruction| {
            let pc = instruction.ip();
            self.is_place(pc) || self.has_sequel(pc) || self.points.contains(instruction)
        };
        may_stop && path.instructions.iter().any(stops)
            || self.wishes().is_some_and(|wishes| self.tells_always(wishes, &path.instructions))
    }

    /// Whether some code has something to write down however often it is run.
    fn tells_always(&self, wishes: Wishes<'_>, code: &[Instruction]) -> bool {
        match self.spared().filter(|spared| spared.patience().is_some()) {
            Some(spared) => spared.insists_on(wishes, code),
            None => wishes.concern(code),
        }
    }

    /// How often units tell before they do so now and then, if they ever do.
    fn patience(&self) -> Option<u64> {
        self.spared().and_then(Spared::patience)
    }

    /// A translation of the head of a path that would write something down, and does so.
    fn telling_head(&mut self, code: &dyn GuestCode, path: &Path) -> Option<u64> {
        self.wishes().filter(|wishes| wishes.concern(&path.instructions))?;
        self.anonymous = true;
        let aside = self.translate(code, path.instructions[0].ip());
        self.anonymous = false;
        Some(aside)
    }

    /// A translation of one basic block that comes back wherever it goes, for following a thread.
    pub fn host_for_block(&mut self, code: &dyn GuestCode, block: &Path) -> u64 {
        self.make_room();
        self.anonymous = true;
        self.detached = true;
        let (host, _) = self.emit(|cache, asm| translate::given(cache, asm, code, block));
        self.detached = false;
        self.anonymous = false;
        host
    }

    /// Translates a hot path and makes everything that goes to its head go there.
    pub fn add_hot_path(&mut self, code: &dyn GuestCode, path: &Path) {
        self.add_path(code, path, true);
    }

    /// The same with one that counts its events one by one, if it is not to count ahead.
    fn add_path(&mut self, code: &dyn GuestCode, path: &Path, counts_ahead: bool) {
        self.make_room();
        let aside = self.telling_head(code, path);
        self.memory.align(RegionName::Hot, 16);
        let head = path.instructions[0].ip();
        let old = self.entries.get(&head).copied();
        let repeated = path.clone().repeated();
        let placements = match counts_ahead {
            true => events::place_in_groups(code, &repeated.instructions),
            false => events::place(code, &repeated.instructions, &self.points),
        };
        let (_, guards) =
            self.emit(|cache, asm| translate::hot(cache, asm, code, &repeated, &placements, aside.is_some()));
        if let (Some(old), Some(new)) = (old, self.entry(head)) {
            let mut asm = Assembler::new(old);
            asm.jump(new);
            self.memory.write(old, asm.bytes());
            self.links.overwrite(old, head);
        }
        aside.into_iter().for_each(|aside| self.add_gate(head, aside));
        for placement in placements.iter().filter(|placement| placement.amount > 1) {
            let rest = path.from(placement.before % path.instructions.len());
            let pc = rest.instructions[0].ip();
            let (twin, _) = self.emit(|cache, asm| translate::twin(cache, asm, code, &rest));
            self.twins.insert(pc, twin);
        }
        self.hot_paths.add(path.clone(), guards);
        self.stats.hot_paths += 1;
    }
}

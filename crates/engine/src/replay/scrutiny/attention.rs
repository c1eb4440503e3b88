//! Which instructions of a run are looked at, and when that begins and ends.

use super::Scrutiny;
use super::look::Look;
use crate::engine::Engine;
use guest::flow::Control;
use std::ops::Range;

/// Those who write to a granule are sought no longer when there are more.
const MOST_WRITTEN: u32 = 20_000;

/// Which instructions are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attention {
    None,
    /// Those that corruption can reach, or that write to what is sought.
    Alarms,
    /// All, and their history is kept.
    Everything,
}

impl Scrutiny {
    pub fn is_on(&self) -> bool {
        self.attention != Attention::None
    }

    /// From now on every instruction is looked at.
    pub fn begin(&mut self) {
        self.windows += 1;
        self.attention = Attention::Everything;
    }

    /// From now on only those are that matter for other reasons.
    pub fn pause(&mut self) {
        self.windows = self.windows.saturating_sub(1);
        if self.windows > 0 {
            return;
        }
        self.attention = if self.alarmed { Attention::Alarms } else { Attention::None };
        self.memory.forget_writers();
        for thread in self.threads.values_mut() {
            thread.registers.forget_writers();
            thread.frames.forget();
        }
    }

    /// From now on at least those are that corruption can reach.
    pub(super) fn attend(&mut self, engine: &Engine) {
        self.listen(engine, true);
    }

    /// From now on at least those are that write to some memory.
    pub fn seek(&mut self, engine: &Engine, ranges: Vec<Range<u64>>) {
        self.listen(engine, false);
        ranges.into_iter().flatten().for_each(|address| self.memory.seek(address, true));
    }

    fn listen(&mut self, engine: &Engine, for_corruption: bool) {
        self.for_corruption |= for_corruption;
        self.alarmed = true;
        if self.attention == Attention::None {
            self.attention = Attention::Alarms;
        }
        let maps = self.memory.raise_alarms(self.for_corruption);
        self.has_maps = maps.is_some();
        maps.into_iter().for_each(|maps| engine.world().cache.set_alarms(maps));
    }

    /// Whether the thread may run on unseen until it comes to corrupt memory. Its calls are then no longer known.
    pub fn lets_go(&mut self, thread: u32) -> bool {
        if self.attention != Attention::Alarms || !self.has_maps {
            return false;
        }
        let Some(thread) = self.threads.get_mut(&thread) else { return true };
        let is_clean = thread.registers.is_clean();
        if is_clean {
            thread.frames.forget();
        }
        is_clean
    }

    /// How many instructions were looked at.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Whether somebody wants to know that an instruction writes to memory.
    pub(super) fn is_sought(&mut self, look: &Look) -> bool {
        if !self.memory.is_any_sought() {
            return false;
        }
        let flow = &look.known.flow;
        let written = (0..look.ranges.len()).filter(|operand| flow.memory[*operand].writes);
        let found = written.flat_map(|operand| look.addresses(operand)).find(|address| self.memory.is_sought(*address));
        if let Some(address) = found {
            self.tire_of(address);
        }
        found.is_some() || flow.control == Control::Kernel
    }

    /// What is written to again and again is not sought for ever.
    fn tire_of(&mut self, address: u64) {
        let granule = address & !7;
        let count = self.written.entry(granule).or_default();
        *count += 1;
        if *count > MOST_WRITTEN {
            (granule..granule + 8).for_each(|address| self.memory.seek(address, false));
            self.remark(format!("{granule:#x} is written to too often to keep who does"));
        }
    }
}

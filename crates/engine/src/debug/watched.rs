//! Memory that a debugger watches: what counts as a hit, and whether one instruction was one.
//!
//! Changes are seen by comparing, whoever made them. Accesses are those of instructions: what the kernel reads in a system call
//! is none, as with the debug registers of the processor.

use crate::code::observe::Wanted;
use crate::code::path::decode_at;
use crate::context::Context;
use crate::engine::Engine;
use crate::guest_code::LiveCode;
use crate::kernel;
use crate::observation::Step;
use std::ops::Range;

/// Memory to watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    pub range: Range<u64>,
    pub what: Watching,
}

/// What is to be told of watched memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watching {
    /// It has changed.
    Changes,
    /// An instruction has read from it.
    Reads,
    /// It has changed, or an instruction has read from it or written to it.
    Accesses,
}

impl Watching {
    pub fn sees_writes(self) -> bool {
        self != Watching::Reads
    }

    pub fn sees_reads(self) -> bool {
        self != Watching::Changes
    }
}

/// Memory that is being watched.
pub struct Watched {
    watch: Watch,
    /// What it held when it was last looked at.
    bytes: Option<Vec<u8>>,
}

impl Watched {
    pub fn new(watch: &Watch) -> Watched {
        let mut watched = Watched { watch: watch.clone(), bytes: None };
        watched.bytes = watched.look();
        watched
    }

    pub fn is(&self, watch: &Watch) -> bool {
        self.watch == *watch
    }

    fn look(&self) -> Option<Vec<u8>> {
        let range = &self.watch.range;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        kernel::read_bytes(range.start, &mut bytes).ok().map(|()| bytes)
    }

    /// Whether it has changed since it was last looked at, and that is to be told.
    pub fn has_changed(&mut self) -> bool {
        if !self.watch.what.sees_writes() {
            return false;
        }
        let now = self.look();
        let changed = now != self.bytes;
        self.bytes = now;
        changed
    }

    fn is_accessed_by(&self, step: &Step, context: &Context) -> bool {
        match self.watch.what {
            Watching::Changes => false,
            Watching::Reads => step.reads(&self.watch.range, context),
            Watching::Accesses => step.reads(&self.watch.range, context) || step.writes(&self.watch.range, context),
        }
    }
}

/// The instruction that the guest stands at, if its accesses matter.
pub fn begin(watched: &[Watched], engine: &Engine, context: &mut Context) -> Option<Step> {
    watched.iter().find(|watched| watched.watch.what.sees_reads())?;
    let instruction = decode_at(&LiveCode(&engine.world().space), context.pc).ok()?;
    Some(Step::begin(instruction, context, engine.xstate(), Wanted::ADDRESSES))
}

/// The first watched range that the instruction has accessed, now that it has run.
pub fn accessed(watched: &[Watched], step: &Step, context: &Context) -> Option<usize> {
    watched.iter().position(|watched| watched.is_accessed_by(step, context))
}

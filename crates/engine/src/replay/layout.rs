//! Another layout of the guest's memory: variables and blocks of the heap that lie elsewhere, each between guards, so that
//! a store beyond one of them shows.
//!
//! What lies where is the plan's business; here it is put in force. Operands that name a moved variable are translated
//! with another displacement (`code/cache`), functions that allocate are answered by a heap of the run's own (`heap`), and
//! each call of a function with moved variables makes guards around them. Guards are compared when their block is freed,
//! when their frame is gone, and at the end (`guards`); those that the plan watches, after every store that may reach them.
//!
//! May miss: stores that skip the guards or leave their bytes as they are.

mod guards;
mod heap;

use super::State;
use super::free::Run;
use super::outcome::Ending;
use crate::context::{Context, RSP};
use crate::engine::Engine;
use crate::kernel;
use crate::syscalls;
use guards::Guards;
pub use guards::{Broken, Guarded, Relaid};
pub use heap::Allocating;
use heap::Heap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where things lie instead. The default moves nothing.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Instructions whose memory operand, or copy of the stack pointer, means a place so many bytes further on.
    pub operands: BTreeMap<u64, i64>,
    pub globals: Vec<MovedGlobal>,
    /// Words that hold an address among the moved globals from the start.
    pub pointers: Vec<u64>,
    /// Variables of frames, by where their functions begin.
    pub frames: BTreeMap<u64, Vec<MovedLocal>>,
    /// Functions that allocate and free, by where they begin.
    pub allocators: BTreeMap<u64, Allocating>,
    /// Memory that the variables of frames lie in.
    pub areas: Vec<Range<u64>>,
    /// Guards that are compared at every store, by their numbers.
    pub watched: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
pub struct MovedGlobal {
    pub name: String,
    pub from: u64,
    pub to: u64,
    pub size: u64,
}

#[derive(Clone, Debug)]
pub struct MovedLocal {
    pub name: String,
    /// From what the stack pointer was before the call.
    pub offset: i64,
    pub size: u64,
    /// How much further on the variable lies.
    pub distance: i64,
}

const PAGE: u64 = 4096;
/// Guards around variables, before and behind.
const BEFORE: u64 = 32;
const BEHIND: u64 = 256;

impl Layout {
    /// Where translated code must leave.
    pub fn places(&self) -> impl Iterator<Item = u64> + '_ {
        self.frames.keys().chain(self.allocators.keys()).copied()
    }

    /// The place of a pointer into a moved global.
    fn moved(&self, pointer: u64) -> Option<u64> {
        let holds = |global: &&MovedGlobal| (global.from..global.from + global.size).contains(&pointer);
        self.globals.iter().find(holds).map(|global| pointer - global.from + global.to)
    }
}

/// A layout while it is in force.
pub struct Laid {
    layout: Layout,
    is_on: bool,
    guards: Guards,
    heap: Heap,
    /// Moved variables of the calls that may still be there, by their frames, the innermost last: frame and guards.
    calls: Vec<(u64, Vec<u32>)>,
    /// The instruction that the thread stands at.
    standing: u64,
}

impl Laid {
    pub fn new(layout: Layout) -> Laid {
        let guards = Guards::new(layout.watched.clone());
        Laid { layout, is_on: false, guards, heap: Heap::default(), calls: Vec::new(), standing: 0 }
    }

    /// From here on, things lie where the layout has them.
    fn begin(&mut self, engine: &Engine, context: &Context) {
        self.is_on = true;
        for area in &self.layout.areas {
            map(engine, context, area.clone());
        }
        let pointers: Vec<(u64, u64)> = self
            .layout
            .pointers
            .iter()
            .filter_map(|&at| Some((at, self.layout.moved(kernel::read::<u64>(at).ok()?)?)))
            .collect();
        for (at, pointer) in pointers {
            set_word(engine, at, pointer);
        }
        if let (Some(first), Some(last)) = (self.layout.globals.first(), self.layout.globals.last()) {
            let start = (first.to - BEFORE) / PAGE * PAGE;
            map(engine, context, start..(last.to + last.size + BEHIND).next_multiple_of(PAGE));
        }
        for global in &self.layout.globals {
            let mut bytes = vec![0; global.size as usize];
            if kernel::read_bytes(global.from, &mut bytes).is_ok() {
                let _ = kernel::write_bytes(global.to, &bytes);
                self.guards.add(Guarded::Global, &global.name, global.to..global.to + global.size, [BEFORE, BEHIND]);
            }
        }
        engine.world().cache.set_moved(self.layout.operands.clone());
        self.watch(engine);
    }

    /// The thread stands at the beginning of a function. Tells whether that is answered here, so that it does not run.
    fn at_place(&mut self, engine: &Engine, context: &mut Context) -> bool {
        self.standing = context.pc;
        if let Some(variables) = self.layout.frames.get(&context.pc) {
            let frame = context.gpr[RSP].wrapping_add(8);
            while let Some((_, gone)) = self.calls.pop_if(|(older, _)| *older <= frame) {
                gone.into_iter().for_each(|guard| self.guards.retire(guard));
            }
            let mut made = Vec::new();
            for MovedLocal { name, offset, size, distance } in variables {
                let start = frame.wrapping_add_signed(offset + distance);
                made.push(self.guards.add(Guarded::Local, name, start..start + size, [BEFORE, BEHIND]));
            }
            self.calls.push((frame, made));
            self.watch(engine);
        }
        let Some(function) = self.layout.allocators.get(&context.pc).copied() else { return false };
        let is_answered = self.heap.answer(function, &mut self.guards, engine, context);
        self.watch(engine);
        is_answered
    }

    /// Has stores looked at that may reach a guard of the plan's.
    fn watch(&mut self, engine: &Engine) {
        if let Some(watches) = self.guards.new_watches() {
            engine.world().cache.set_watched(&watches);
        }
    }

    pub fn told(&mut self) -> Option<Relaid> {
        self.is_on.then(|| self.guards.told())
    }
}

/// Makes memory of the guest's.
fn map(engine: &Engine, context: &Context, range: Range<u64>) {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED) as u64;
    let arguments = [range.start, range.end - range.start, protection, flags, u64::MAX, 0];
    syscalls::map_memory(engine, context, arguments);
}

/// Writes a word of the guest's, also where it is constant by now.
fn set_word(engine: &Engine, at: u64, word: u64) {
    if kernel::write(at, word).is_err() {
        let protect = |protection: i32| {
            let arguments = [at / PAGE * PAGE, PAGE, protection as u64, 0, 0, 0];
            syscalls::redo_mapping(engine, libc::SYS_mprotect as u64, arguments)
        };
        protect(libc::PROT_READ | libc::PROT_WRITE);
        let _ = kernel::write(at, word);
        protect(libc::PROT_READ);
    }
}

impl Run<'_> {
    /// The recording has been left: the layout is in force.
    pub fn lay_out(&mut self) {
        if let Some(laid) = &mut self.laid {
            self.kept.answers.is_relaid = true;
            laid.begin(self.engine, self.context);
        }
    }

    /// Does what the layout wants where the thread stands. Tells whether the function there has been answered.
    pub fn answers_here(&mut self) -> bool {
        let Some(laid) = &mut self.laid else { return false };
        let is_answered = laid.at_place(self.engine, self.context);
        if laid.guards.has_broken() {
            self.conclude(Ending::Stopped);
        }
        if is_answered {
            self.charge(1);
        }
        is_answered
    }

    /// Ends the run if the instruction that the thread has just run has broken a guard that is watched.
    pub fn look_at_watched(&mut self) {
        let Some(laid) = &mut self.laid else { return };
        let by = laid.standing;
        if laid.guards.compare_watched(by) {
            self.context.pc = by;
            self.conclude(Ending::Stopped);
        }
    }
}

impl super::Replay {
    /// The thread is about to run an instruction that may store to what is watched.
    pub fn watched(&self, context: &Context) {
        self.state().note_standing(context);
    }
}

impl State {
    fn note_standing(&mut self, context: &Context) {
        let Some(what_if) = &mut self.what_if else { return };
        if let Some(laid) = &mut what_if.laid {
            laid.standing = context.pc;
        }
        if let Some(free) = &mut what_if.free {
            free.standing = (context.pc, context.clock());
        }
    }
}

//! A run whose data are followed: which step wrote each byte, and which bytes are corrupt.
//!
//! This is execution suppression (Jeffrey, Gupta and Gupta, "Execution suppression: an automated iterative technique for
//! locating memory errors"): an instruction with a corrupt source does not take effect and its targets become corrupt;
//! any other runs, and its targets are clean. Copies are followed byte by byte. What cannot be left out, since the program
//! would go on where it must not (`rules`): the stack pointer always moves, a return goes where its call came from, a
//! conditional branch goes to the end of its structure, and what could have happened inside is corrupt.
//!
//! Where origins are wanted, every instruction is looked at, and each step is kept with those that its values come from, so
//! the end of a run can be traced back (`history`). Where they are not, only those are looked at that matter: all while a
//! register of the thread is corrupt, and those that access memory with corrupt bytes, or write to bytes whose
//! writers are sought (`alarms`).

mod alarms;
mod attention;
mod calls;
mod frames;
mod history;
mod look;
mod rules;
mod shadow;
mod structures;

use crate::context::{Context, RAX, RSP};
use crate::engine::Engine;
use crate::kernel;
use crate::syscalls::arguments_of;
use attention::Attention;
use calls::Begun;
use frames::Frames;
use guest::flow::{Control, Kind, Part, Place, Span};
use history::{History, Node, Sources, distance};
use look::{Known, Look};
use rustc_hash::FxHashMap;
use shadow::{Memory, Registers, Serial};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use structures::KnownStructures;

pub use history::Definition;
pub use structures::{Position, Region, Structures};

/// An outcome tells the branches of so many functions.
const MOST_BRANCHES: usize = 32;

/// What is known of how a run came to its end.
#[derive(Clone, Debug)]
pub struct Origins {
    /// How many instructions were looked at, and how many of them did not take effect.
    pub steps: u64,
    pub suppressed: u64,
    /// The instruction that ended the run, or that led to where there is none.
    pub failure: Option<Definition>,
    /// The last conditional branch of each function that its thread is in, the innermost first.
    pub branches: Vec<u32>,
    /// What they depend on, the latest first, and the branches.
    pub definitions: Vec<Definition>,
}

/// What becomes of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Runs,
    /// The thread stands somewhere else.
    Skipped,
}

#[derive(Default)]
struct Thread {
    registers: Registers,
    frames: Frames,
    /// The system call that it is in.
    call: Option<Begun>,
    /// Its last step.
    last: Serial,
}

pub struct Scrutiny {
    attention: Attention,
    /// How many want everything to be looked at.
    windows: u32,
    /// Translated code leaves where it matters, also where corruption does.
    alarmed: bool,
    for_corruption: bool,
    /// It knows where: otherwise nothing goes unseen.
    has_maps: bool,
    structures: KnownStructures,
    known: FxHashMap<u64, Arc<Known>>,
    /// How many units had been dropped when `known` was last emptied: code may have changed since.
    dropped: u64,
    memory: Memory,
    threads: BTreeMap<u32, Thread>,
    history: History,
    /// The instruction that is about to run, or has faulted.
    looking: Option<Look>,
    looked: u64,
    suppressed: u64,
    /// How often it was written to granules that are sought.
    written: FxHashMap<u64, u32>,
    /// Where corrupt registers were saved, though nothing was stored.
    saved_corrupt: BTreeSet<u64>,
    remarks: Vec<String>,
}

impl Scrutiny {
    pub fn new(structures: Box<dyn Structures>) -> Scrutiny {
        Scrutiny {
            attention: Attention::None,
            windows: 0,
            alarmed: false,
            for_corruption: false,
            has_maps: false,
            structures: KnownStructures::new(structures),
            known: FxHashMap::default(),
            dropped: 0,
            memory: Memory::default(),
            threads: BTreeMap::new(),
            history: History::default(),
            looking: None,
            looked: 0,
            suppressed: 0,
            written: FxHashMap::default(),
            saved_corrupt: BTreeSet::new(),
            remarks: Vec::new(),
        }
    }

    /// Looks at the instruction that the thread stands at.
    pub fn before(&mut self, engine: &Engine, context: &mut Context) -> Verdict {
        self.looking = None;
        self.looked += 1;
        let Some(look) = self.look(engine, context) else { return Verdict::Runs };
        if self.is_clean(look.thread) {
            self.looking = Some(look);
            return Verdict::Runs;
        }
        self.decide(engine, context, look)
    }

    fn look(&mut self, engine: &Engine, context: &mut Context) -> Option<Look> {
        let dropped = engine.world().cache.stats.invalidated;
        if std::mem::replace(&mut self.dropped, dropped) != dropped {
            self.known.clear();
        }
        let pc = context.pc;
        let known = match self.known.get(&pc) {
            Some(known) => Arc::clone(known),
            None => {
                let known = Arc::new(Known::at(engine, pc)?);
                self.known.insert(pc, Arc::clone(&known));
                known
            }
        };
        Some(Look::at(known, engine, context))
    }

    fn is_clean(&self, thread: u32) -> bool {
        self.memory.is_clean() && self.threads.get(&thread).is_none_or(|thread| thread.registers.is_clean())
    }

    fn registers(&mut self, thread: u32) -> &mut Registers {
        &mut self.threads.entry(thread).or_default().registers
    }

    fn is_corrupt(&self, look: &Look, place: Place) -> bool {
        match place {
            Place::Register(span) => {
                self.threads.get(&look.thread).is_some_and(|thread| thread.registers.any_corrupt(span))
            }
            Place::Memory(operand) => look.ranges[operand].iter().any(|range| self.memory.any_corrupt(range)),
        }
    }

    /// The instruction has run.
    pub fn ran(&mut self, engine: &Engine, context: &mut Context) {
        let Some(look) = self.looking.take() else { return };
        for (address, byte) in &look.restore {
            engine.world().open_guarded_in(*address..*address + 1);
            // The instruction has just written there.
            let _ = kernel::write_bytes(*address, &[*byte]);
        }
        let serial = self.note(&look, || value_left(context, &look));
        let parts = look.known.flow.parts.iter().filter(|_| look.moves);
        let changes: Vec<Change> = parts.map(|part| self.change(&look, part)).collect();
        for (part, change) in look.known.flow.parts.iter().filter(|_| look.moves).zip(changes) {
            for target in &part.targets {
                self.apply(&look, *target, &change, serial);
            }
        }
        self.follow_control(context, &look, serial);
    }

    /// Adds the step to the history, if that is kept.
    fn note(&mut self, look: &Look, value: impl FnOnce() -> u64) -> Serial {
        if self.attention != Attention::Everything && !self.is_sought(look) {
            return 0;
        }
        let sources = self.sources(look);
        let flow = &look.known.flow;
        let written = flow.memory.iter().position(|memory| memory.writes).or((!flow.memory.is_empty()).then_some(0));
        let range = written.and_then(|operand| look.ranges[operand].first());
        let read = flow.memory.iter().position(|memory| memory.reads && !memory.writes);
        let from = read.filter(|operand| Some(*operand) != written).and_then(|operand| look.ranges[operand].first());
        let writes = flow.memory.iter().any(|memory| memory.writes);
        let stored = range.filter(|range| writes && !range.is_empty()).cloned();
        let frames = self.threads.get(&look.thread).map(|thread| &thread.frames);
        let is_constant = sources.is_empty() && flow.control == Control::Straight;
        let slot = stored.as_ref().and_then(|stored| frames?.slot_below(stored.end - 1));
        let node = Node {
            pc: look.pc(),
            address: range.map_or(0, |range| range.start),
            size: range.map_or(0, |range| (range.end - range.start).min(u64::from(u32::MAX)) as u32),
            from: from.map_or(0, |range| range.start),
            value: value(),
            writes,
            decided: frames.filter(|_| is_constant).map_or(0, Frames::branch),
            overwrites: stored.as_ref().map_or(0, |stored| self.memory.last_writer(stored.clone())),
            beyond: stored.map_or(0, |stored| distance(stored.end - 1, slot)),
            copies: look.known.only_copies(),
            saves: look.known.saves(),
            system_call: flow.control == Control::Kernel,
            ..Node::default()
        };
        let serial = self.history.push(look.thread, look.clock, node, &sources);
        self.threads.entry(look.thread).or_default().last = serial;
        serial
    }

    fn sources(&self, look: &Look) -> Sources {
        let mut sources = Sources::default();
        let flow = &look.known.flow;
        let thread = self.threads.get(&look.thread);
        let writers =
            |span: Span| span.bytes().map(move |byte| thread.map_or(0, |thread| thread.registers.writer(byte)));
        for part in flow.parts.iter().filter(|part| part.kind != Kind::Advances) {
            for source in &part.sources {
                match *source {
                    Place::Register(span) => sources.values.extend(writers(span)),
                    Place::Memory(operand) => {
                        sources.values.extend(look.addresses(operand).map(|address| self.memory.writer(address)));
                    }
                }
            }
        }
        if flow.control == Control::Kernel {
            // What the kernel makes of a call depends on what it is given, which is mostly this much.
            sources
                .values
                .extend(calls::ARGUMENTS[..3].iter().flat_map(|number| writers(Span::general(*number as u8))));
        }
        sources.addresses = flow.addressing().flat_map(writers).collect();
        sources
    }

    /// What a part does to its targets.
    fn change(&self, look: &Look, part: &Part) -> Change {
        let extends = match part.kind {
            Kind::Copies { extends } => extends,
            Kind::CopiesIf(_) => true,
            Kind::Computes | Kind::Advances => {
                return Change::All(part.sources.iter().any(|source| self.is_corrupt(look, *source)));
            }
        };
        let marks = part.sources.first().map_or(Vec::new(), |source| self.marks(look, *source));
        if marks.contains(&true) { Change::Bytes { marks, extends } } else { Change::All(false) }
    }

    /// The marks of a place's bytes, in order.
    fn marks(&self, look: &Look, place: Place) -> Vec<bool> {
        match place {
            Place::Register(span) => match self.threads.get(&look.thread) {
                Some(thread) => span.bytes().map(|byte| thread.registers.is_corrupt(byte)).collect(),
                None => vec![false; usize::from(span.length)],
            },
            Place::Memory(operand) => look.addresses(operand).map(|address| self.memory.is_corrupt(address)).collect(),
        }
    }

    /// Gives a target its marks; bytes that are clean were written by this step.
    fn apply(&mut self, look: &Look, target: Place, change: &Change, serial: Serial) {
        match target {
            Place::Register(span) => {
                let is_kept = self.attention == Attention::Everything;
                let registers = self.registers(look.thread);
                if is_kept {
                    registers.write(span, serial);
                }
                for (position, byte) in span.bytes().enumerate() {
                    registers.mark(byte, change.corrupts(position, false));
                }
            }
            Place::Memory(operand) if matches!(change, Change::All(false)) => {
                for range in look.ranges[operand].iter().cloned() {
                    self.wrote(range.clone(), serial);
                    self.memory.mark_all(range, false);
                }
                self.note_saved(look, operand, false);
            }
            Place::Memory(operand) => {
                for (position, address) in look.addresses(operand).enumerate() {
                    let is_corrupt = change.corrupts(position, true);
                    self.memory.mark(address, is_corrupt);
                    if !is_corrupt {
                        self.wrote(address..address + 1, serial);
                    }
                }
                self.note_saved(look, operand, true);
            }
        }
    }

    /// A step has written to memory, or what is no step.
    fn wrote(&mut self, range: Range<u64>, serial: Serial) {
        match self.attention {
            Attention::Everything => self.memory.write(range, serial),
            Attention::Alarms if self.memory.is_any_sought() => self.memory.write_sought(range, serial),
            _ => {}
        }
    }

    /// A register was saved on the stack, or is not there because it was corrupt.
    fn note_saved(&mut self, look: &Look, operand: usize, is_corrupt: bool) {
        if let Some(range) = look.ranges[operand].first().filter(|_| look.known.saves()) {
            if is_corrupt {
                self.saved_corrupt.insert(range.start);
            } else {
                self.saved_corrupt.remove(&range.start);
            }
        }
    }

    fn follow_control(&mut self, context: &mut Context, look: &Look, serial: Serial) {
        let thread = self.threads.entry(look.thread).or_default();
        match look.known.flow.control {
            Control::Call | Control::IndirectCall => {
                let slot = look.ranges.last().and_then(|ranges| ranges.first()).map_or(0, |range| range.start);
                thread.frames.call(context, &thread.registers, slot, look.known.instruction.next_ip());
            }
            Control::Conditional => thread.frames.branched(serial),
            Control::Return => thread.frames.returned(context.gpr[RSP].wrapping_sub(8)),
            Control::Kernel => {
                if self.attention == Attention::Everything {
                    thread.registers.write(Span::general(RAX as u8), serial);
                }
                thread.registers.mark_all(Span::general(RAX as u8), false);
                thread.call = Some(Begun::new(serial, context.gpr[RAX], &arguments_of(context)));
            }
            _ => {}
        }
    }

    /// What the outcome is to say about the end.
    pub fn told(&mut self, thread: u32) -> Option<Origins> {
        if !self.is_on() {
            return None;
        }
        let looking = self.looking.take().filter(|look| look.thread == thread);
        // Where control went to what is no instruction, the last step counts.
        let last = match looking {
            Some(look) => self.note(&look, || 0),
            None => self.threads.get(&thread).map_or(0, |thread| thread.last),
        };
        let known = self.threads.get(&thread);
        let branches: Vec<Serial> =
            known.map_or(Vec::new(), |thread| thread.frames.branches().take(MOST_BRANCHES).collect());
        let mut definitions = self.history.behind(branches.iter().copied().chain([last]).collect());
        let failure = (!definitions.is_empty()).then(|| definitions.remove(0));
        Some(Origins { steps: self.looked, suppressed: self.suppressed, failure, branches, definitions })
    }

    /// The same about a byte of memory instead: where it came from.
    pub fn told_at(&self, address: u64) -> Option<Origins> {
        let mut definitions = self.history.behind([self.memory.writer(address)].into());
        let failure = (!definitions.is_empty()).then(|| definitions.remove(0));
        let (steps, branches) = (self.looked, Vec::new());
        self.is_on().then_some(Origins { steps, suppressed: self.suppressed, failure, branches, definitions })
    }

    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }
}

/// What an instruction has left in its first target, if that is a general register or no more than eight bytes.
fn value_left(context: &Context, look: &Look) -> u64 {
    let masked = |value: u64, length: u64| if length < 8 { value & ((1 << (8 * length)) - 1) } else { value };
    match look.known.flow.parts.first().and_then(|part| part.targets.first()) {
        Some(Place::Register(span)) => {
            let register = span.general_register().map(|number| context.gpr[usize::from(number)]);
            register.map_or(0, |value| masked(value, u64::from(span.length)))
        }
        Some(Place::Memory(operand)) => match look.ranges[*operand].first() {
            Some(range) if range.end - range.start <= 8 => {
                let mut bytes = [0; 8];
                let length = (range.end - range.start) as usize;
                let is_read = kernel::read_bytes(range.start, &mut bytes[..length]).is_ok();
                if is_read { u64::from_le_bytes(bytes) } else { 0 }
            }
            _ => 0,
        },
        None => 0,
    }
}

/// What an instruction does to the marks of a target.
enum Change {
    /// All bytes get this one.
    All(bool),
    /// Each byte has its own.
    Bytes { marks: Vec<bool>, extends: bool },
}

impl Change {
    /// The mark of the target's byte at a position. A string instruction stores its register again and again.
    fn corrupts(&self, position: usize, repeats: bool) -> bool {
        match self {
            Change::All(corrupt) => *corrupt,
            Change::Bytes { marks, .. } if position < marks.len() => marks[position],
            Change::Bytes { marks, .. } if repeats => marks[position % marks.len()],
            Change::Bytes { marks, extends } => *extends && marks.last() == Some(&true),
        }
    }
}

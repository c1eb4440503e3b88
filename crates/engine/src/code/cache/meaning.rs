//! What it means to be at a place in the cache, and to have left it.

use crate::debug::{Watch, Watching};

/// Why translated code left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// An indirect branch to an address that the lookup does not know; the target is in the context.
    Indirect,
    /// A signal was pending before anything ran.
    Interrupted,
    /// A signal handler has put a synchronous fault into the context.
    Fault,
    /// A direct branch to a place that is not translated yet; `link` is the displacement to fill in.
    Direct { target: u64, link: u64 },
    /// A system call; the guest goes on at `next`.
    SystemCall { next: u64 },
    /// The budget does not reach for `amount` clock events, of which that of `branch` is the first. An observed unit's
    /// record ends there: its number and length.
    Budget { pc: u64, branch: u64, amount: u8, record: Option<(u32, u16)> },
    /// The thread may pass no further point, and `pc` is one. A record ends there as for the budget.
    Point { pc: u64, record: Option<(u32, u16)> },
    /// The instruction at `pc` is to be observed by the engine, before and after it has run.
    Step { pc: u64 },
    /// What follows from the instruction at `pc` on is to be told.
    Sequel { pc: u64 },
    /// The thread is about to run an instruction that a plan or a debugger speaks of.
    Place { pc: u64 },
    /// The instruction at `pc` asks the machine, and the run is written down or comes from a recording.
    Instruction { pc: u64 },
    /// The end of a run up to a given instruction.
    Arrived { pc: u64 },
    /// The instruction at `pc` may access watched memory.
    Watch { pc: u64 },
    /// The instruction at `pc` cannot be fetched because of `address`.
    Unfetchable { pc: u64, address: u64 },
    /// The bytes at `pc` are no instruction, or one that raises a fixed trap.
    Trap { pc: u64, kind: Trap },
}

/// Traps that translation knows of beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    Undefined,
    /// `int3`: reported after the instruction.
    Breakpoint,
    /// An instruction that the engine does not run, such as a load of FS or a far jump.
    Unsupported,
}

/// What is to be undone at a place in the cache to get the guest's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// RCX and R11 are in their context slots.
    pub branching: bool,
    /// So many events that lie ahead are counted already.
    pub ahead: u8,
    /// This register's value is in the last spill slot.
    pub spilled: Option<u8>,
    /// The GS register holds the guest's GS base, and the slot of branch targets its FS base.
    pub own_gs: bool,
    /// RAX and RDX are in the spill slots 0 and 1.
    pub components: bool,
    pub counting: Counting,
    /// How far an observed unit has come.
    pub observed: Option<Observed>,
}

/// The state of an observed unit's record at a place in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observed {
    pub unit: u32,
    /// Instructions that have run.
    pub executed: u16,
    /// Words stored so far.
    pub words: u16,
    /// The registers in use for observation, whose values are in the spill slots 1 and 2; none if the record is
    /// complete and the last instruction is about to run.
    pub scratch: Option<(u8, u8)>,
    /// A value in memory is being copied; if that faults, the copy is to be left out.
    pub capturing: bool,
}

/// How far a flag-keeping count is, for handlers that want to take the budget away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counting {
    #[default]
    No,
    /// RCX holds the budget before the event.
    Loaded,
    /// RCX holds the budget after the event, not yet stored.
    Taken,
}

/// From here on in the cache, until the next step, the guest is at `pc`.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub host: u64,
    pub pc: u64,
    pub disturbance: Disturbance,
}

/// Addresses at which an access may touch watched memory: `1 << shift` bytes from `start` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub start: u64,
    pub shift: u8,
    pub what: Watching,
}

impl Window {
    /// No access that is checked is wider.
    pub const WIDEST: u64 = 64;

    pub(super) fn around(watch: &Watch) -> Window {
        let Watch { range, what } = watch;
        let length = (range.end - range.start + Window::WIDEST).next_power_of_two();
        Window { start: range.start.wrapping_sub(Window::WIDEST), shift: length.ilog2() as u8, what: *what }
    }
}

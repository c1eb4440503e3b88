//! Where a path counts the guest's clock, and how cheaply.
//!
//! The clock counts executed backward branches and indirect jumps: every loop passes one. What counts is a property
//! of the guest instruction alone, so the clock is the same however the code was cut into units or instrumented.
//! Instructions that a run was told to count too, its points, are events like branches.
//! The count may be taken earlier than the branch, at a point of the same straight run where flags are dead. A hot path
//! counts several events at once and gives back what it did not pass where it is left early.

use crate::code::path::{GuestCode, decode_at};
use crate::code::points::Points;
use guest::instruction::{ARITHMETIC_FLAGS, flags_killed, flags_read, may_fault};
use iced_x86::{FlowControl, Instruction, RflagsBits};

/// How the counter is decremented, from cheap to costly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// No flag is live: subtract.
    Subtract,
    /// Only carry is live: decrement.
    Decrement,
    /// Flags may be live: through a spilled register.
    KeepFlags,
    /// A point: the same, and the thread may be short of points.
    Point,
}

/// Count `amount` events, the first that of the branch `branch`, just before the instruction `before`; both are path
/// indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    pub before: usize,
    pub branch: usize,
    pub amount: u8,
    pub form: Form,
}

/// The most events that are counted at once.
const LARGEST_GROUP: usize = 32;

/// Whether executing the instruction is an event of the guest's clock.
pub fn is_event(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => instruction.near_branch_target() <= instruction.ip(),
        FlowControl::UnconditionalBranch => {
            instruction.is_jmp_short_or_near() && instruction.near_branch_target() <= instruction.ip()
        }
        FlowControl::IndirectBranch => true,
        _ => false,
    }
}

/// Places each event of a path by itself, in order.
pub fn place(code: &dyn GuestCode, instructions: &[Instruction], points: &Points) -> Vec<Placement> {
    let mut placements = Vec::new();
    let mut run_start = 0;
    for (index, instruction) in instructions.iter().enumerate() {
        if is_event(instruction) {
            placements.push(place_one(code, instructions, run_start, index));
        }
        let is_point = points.contains(instruction);
        if is_point {
            placements.push(Placement { before: index, branch: index, amount: 1, form: Form::Point });
        }
        // A thread that is to stop at an event must not run over another one on its way there.
        if is_point || instruction.flow_control() != FlowControl::Next {
            run_start = index + 1;
        }
    }
    placements
}

/// The latest point of the straight run where the counter may clobber flags, or the branch itself.
fn place_one(code: &dyn GuestCode, instructions: &[Instruction], run_start: usize, branch: usize) -> Placement {
    const LOOK_BACK: usize = 12;
    let first = run_start.max(branch.saturating_sub(LOOK_BACK));
    for before in (first..=branch).rev() {
        if let Some(form) = form_for(live_flags(code, &instructions[before..=branch])) {
            return Placement { before, branch, amount: 1, form };
        }
    }
    Placement { before: branch, branch, amount: 1, form: Form::KeepFlags }
}

/// Places the events of a hot path, as many at once as can be.
pub fn place_in_groups(code: &dyn GuestCode, instructions: &[Instruction]) -> Vec<Placement> {
    let events: Vec<usize> =
        instructions.iter().enumerate().filter(|(_, instruction)| is_event(instruction)).map(|(at, _)| at).collect();
    let mut placements = Vec::new();
    let mut rest = events.as_slice();
    let mut earliest = 0;
    while let Some(&branch) = rest.first() {
        let group = rest.len().min(LARGEST_GROUP);
        let place = (earliest..=branch).rev().find(|&before| flags_dead_along(&instructions[before..]));
        let placement = match place {
            Some(before) => Placement { before, branch, amount: group as u8, form: Form::Subtract },
            None => place_one(code, instructions, straight_run_start(instructions, earliest, branch), branch),
        };
        placements.push(placement);
        let counted = usize::from(placement.amount);
        earliest = rest[counted - 1] + 1;
        rest = &rest[counted..];
    }
    placements
}

fn straight_run_start(instructions: &[Instruction], earliest: usize, branch: usize) -> usize {
    let transfer =
        instructions[earliest..branch].iter().rposition(|instruction| instruction.flow_control() != FlowControl::Next);
    transfer.map_or(earliest, |at| earliest + at + 1)
}

/// Whether every flag is overwritten before anybody may see it on the path that begins here.
fn flags_dead_along(path: &[Instruction]) -> bool {
    let mut scan = Scan::new();
    for instruction in path {
        if scan.pass(instruction) {
            return scan.live == 0;
        }
        // Whoever waits at the other end of a branch may look at any flag that is still undecided.
        let leaves = !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::UnconditionalBranch | FlowControl::Call
        );
        if leaves || scan.live != 0 {
            return false;
        }
    }
    false
}

/// Whether every flag is overwritten before anybody may see it in the code at `pc`.
pub fn flags_dead_at(code: &dyn GuestCode, pc: u64) -> bool {
    let mut scan = Scan::new();
    scan.follow(code, pc);
    scan.live | scan.undecided == 0
}

fn form_for(live: u32) -> Option<Form> {
    match live {
        0 => Some(Form::Subtract),
        RflagsBits::CF => Some(Form::Decrement),
        _ => None,
    }
}

/// The flags that somebody may see before they are overwritten: a later instruction, or whoever looks at the
/// registers when an instruction faults.
fn live_flags(code: &dyn GuestCode, run: &[Instruction]) -> u32 {
    let mut scan = Scan::new();
    for instruction in run {
        if scan.pass(instruction) {
            return scan.live;
        }
    }
    let last = run.last().expect("a run ends in its branch");
    if last.flow_control() == FlowControl::UnconditionalBranch {
        scan.follow(code, last.near_branch_target());
    }
    scan.live | scan.undecided
}

struct Scan {
    live: u32,
    undecided: u32,
}

impl Scan {
    fn new() -> Scan {
        Scan { live: 0, undecided: ARITHMETIC_FLAGS }
    }

    /// Takes one instruction into account; tells whether every flag is decided.
    fn pass(&mut self, instruction: &Instruction) -> bool {
        let seen = if may_fault(instruction) { ARITHMETIC_FLAGS } else { flags_read(instruction) };
        self.live |= seen & self.undecided;
        self.undecided &= !(seen | flags_killed(instruction));
        self.undecided == 0
    }

    fn follow(&mut self, code: &dyn GuestCode, mut pc: u64) {
        const LOOK_AHEAD: usize = 6;
        for _ in 0..LOOK_AHEAD {
            let Ok(instruction) = decode_at(code, pc) else { return };
            if instruction.flow_control() != FlowControl::Next || self.pass(&instruction) {
                return;
            }
            pc = instruction.next_ip();
        }
    }
}

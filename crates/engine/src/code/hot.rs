//! Which places are hot, and the paths that threads take from them.
//!
//! A thread whose quantum ends stops at a branch, and the hotter a loop is, the more often it is that loop's branch. After
//! a few such samples of one branch the thread is followed for a while, block by block. The path it takes through
//! branches, calls and returns is then translated as one unit: in a straight line, with a check where it may be left, and
//! with all its clock events counted at once.

use crate::code::path::{End, GuestCode, Limits, Path};
use iced_x86::{Code, FlowControl, Instruction};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// How often branches were sampled, and how often paths were made from their targets.
#[derive(Default)]
pub struct Heat {
    samples: FxHashMap<u64, u32>,
    paths: FxHashMap<u64, u8>,
}

impl Heat {
    /// Takes a sample at `branch`; tells whether the thread should be followed from there.
    pub fn sample(&mut self, branch: u64) -> bool {
        const ENOUGH: u32 = 2;
        /// A path that was taken by chance gets another chance much later.
        const AGAIN: u32 = 256;
        let samples = self.samples.entry(branch).or_default();
        *samples += 1;
        *samples == ENOUGH || *samples >= AGAIN && samples.is_power_of_two()
    }

    /// The code in `range` is no longer what it was.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.samples.retain(|pc, _| !range.contains(pc));
        self.paths.retain(|pc, _| !range.contains(pc));
    }

    /// Whether one more path from `head` is worth its while.
    fn admits(&mut self, head: u64) -> bool {
        const MOST_PATHS: u8 = 3;
        let paths = self.paths.entry(head).or_default();
        *paths += 1;
        *paths <= MOST_PATHS
    }

    fn is_head(&self, pc: u64) -> bool {
        self.paths.contains_key(&pc)
    }
}

/// What to do with a thread that is being followed.
pub enum Next {
    /// Let it run this block.
    Run(Path),
    /// It has been followed far enough; there may be a path to show for it.
    Done(Option<Path>),
}

/// Follows one thread.
#[derive(Default)]
pub struct Follower {
    /// The branch that was sampled has been run.
    begun: bool,
    instructions: Vec<Instruction>,
    /// Where blocks begin: address and index.
    blocks: Vec<(u64, usize)>,
    /// Calls on the path that have not returned: only their returns can be foreseen.
    calls: usize,
}

/// A path has at most this many instructions and blocks.
const LONGEST: Limits = Limits { instructions: 160, branches: 32 };
/// A path that is no loop must be worth its while.
const SHORTEST: usize = 8;
const ONE_BLOCK: Limits = Limits { instructions: 64, branches: 1 };

impl Follower {
    /// The thread is about to go on at `pc`.
    pub fn at(&mut self, code: &dyn GuestCode, heat: &mut Heat, pc: u64) -> Next {
        if let Some(&(_, first)) = self.blocks.iter().find(|(start, _)| *start == pc) {
            self.instructions.drain(..first);
            return self.done(heat, End::Continues(pc));
        }
        let full = self.instructions.len() >= LONGEST.instructions || self.blocks.len() >= LONGEST.branches;
        if full || !self.blocks.is_empty() && heat.is_head(pc) {
            return self.done(heat, End::Continues(pc));
        }
        let block = Path::follow(code, pc, ONE_BLOCK, |_| false, |_| true);
        if !std::mem::replace(&mut self.begun, true) {
            return if leads_somewhere(&block) { Next::Run(block) } else { Next::Done(None) };
        }
        if !leads_somewhere(&block) {
            return self.done(heat, End::Continues(pc));
        }
        self.blocks.push((pc, self.instructions.len()));
        self.instructions.extend_from_slice(&block.instructions);
        if !self.goes_on_after(&block) {
            return self.done(heat, End::Transfer);
        }
        Next::Run(block)
    }

    /// Whether the path can foresee where control goes after the block: not where that changes from time to time.
    fn goes_on_after(&mut self, block: &Path) -> bool {
        match block.instructions.last().map(Instruction::flow_control) {
            Some(FlowControl::Call) => self.calls += 1,
            Some(FlowControl::Return) if self.calls > 0 => self.calls -= 1,
            Some(FlowControl::Return | FlowControl::IndirectBranch | FlowControl::IndirectCall) => return false,
            _ => {}
        }
        true
    }

    fn done(&mut self, heat: &mut Heat, end: End) -> Next {
        let path = Path { instructions: std::mem::take(&mut self.instructions), end };
        let worth = path.is_loop() || path.instructions.len() >= SHORTEST;
        let admitted = worth && heat.admits(path.instructions[0].ip());
        Next::Done(admitted.then_some(path))
    }
}

/// Whether control leaves the block in a way that a path can take.
fn leads_somewhere(block: &Path) -> bool {
    match (block.end, block.instructions.last()) {
        (End::Continues(_), Some(_)) => true,
        (End::Transfer, Some(last)) => matches!(last.code(), Code::Retnq | Code::Jmp_rm64 | Code::Call_rm64),
        _ => false,
    }
}

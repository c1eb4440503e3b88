//! Which places are hot, and the paths that threads take from them.
//!
//! A thread whose quantum ends stops at a branch, and the hotter a loop is, the more often it is that loop's branch. After
//! a few such samples of one branch the thread is followed for a while, block by block. The path it takes through
//! branches, calls and returns is then translated as one unit: in a straight line, with a check where it may be left, and
//! with all its clock events counted at once.

use crate::code::path::{End, GuestCode, Limits, Path};
use iced_x86::{Code, FlowControl, Instruction};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Where a hot path foresees the target of an indirect branch.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// Counts how often it was wrong.
    pub counter: u64,
    /// The branch, by its index in the path that was translated.
    pub index: usize,
}

/// A path that was made a unit.
struct HotPath {
    path: Path,
    guards: Vec<Guard>,
}

/// The hot paths there are.
#[derive(Default)]
pub struct HotPaths {
    paths: Vec<HotPath>,
}

impl HotPaths {
    pub fn add(&mut self, path: Path, guards: Vec<Guard>) {
        self.paths.push(HotPath { path, guards });
    }

    /// The code in `range` is no longer what it was.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.paths.retain(|hot| !hot.path.touches(range));
    }

    /// Takes out the paths that have one of these instructions.
    pub fn take_through(&mut self, instructions: &BTreeSet<u64>) -> Vec<Path> {
        let is_one = |instruction: &Instruction| instructions.contains(&instruction.ip());
        let taken = self.paths.extract_if(.., |hot| hot.path.instructions.iter().any(is_one));
        taken.map(|hot| hot.path).collect()
    }

    /// Takes paths out that are often left at one of their guards, and tells them cut off there. `surprises` reads a
    /// counter and sets it back.
    pub fn review(&mut self, mut surprises: impl FnMut(u64) -> u64) -> Vec<Path> {
        /// In one quantum.
        const OFTEN: u64 = 400;
        let mut cut = Vec::new();
        self.paths.retain(|hot| {
            let surprised = |guard: &&Guard| surprises(guard.counter) > OFTEN;
            let Some(guard) = hot.guards.iter().find(surprised) else { return true };
            cut.push(hot.path.cut_behind(guard.index % hot.path.instructions.len()));
            false
        });
        cut
    }
}

/// Where a path is to begin, seen from a branch that was sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// Where the branch goes.
    Target,
    /// At the block that it ends.
    Block,
}

/// How often branches were sampled, and how often paths were made from their targets.
#[derive(Default)]
pub struct Heat {
    samples: FxHashMap<u64, u32>,
    paths: FxHashMap<u64, u8>,
}

impl Heat {
    /// Takes a sample at `branch`; tells whether the thread should be followed, and from where on.
    pub fn sample(&mut self, branch: u64) -> Option<Beginning> {
        const ENOUGH: u32 = 2;
        /// A path from where the branch goes has not kept threads away from it: they come from the middle of another.
        const STILL: u32 = 4;
        /// A path that was taken by chance gets another chance much later.
        const AGAIN: u32 = 256;
        let samples = self.samples.entry(branch).or_default();
        *samples += 1;
        match *samples {
            ENOUGH => Some(Beginning::Target),
            STILL => Some(Beginning::Block),
            samples => (samples >= AGAIN && samples.is_power_of_two()).then_some(Beginning::Target),
        }
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
    /// Where the path is to begin, as long as the thread has not come there.
    head: Option<u64>,
    /// How many blocks it has run on the way.
    passed_over: usize,
    instructions: Vec<Instruction>,
    /// Where blocks begin: address and index.
    blocks: Vec<(u64, usize)>,
    /// Calls on the path that have not returned: only their returns can be foreseen.
    calls: usize,
}

/// A path has at most this many instructions and blocks.
const LONGEST: Limits = Limits { instructions: 512, branches: 96 };
/// A path that is no loop must be worth its while.
const SHORTEST: usize = 8;
const ONE_BLOCK: Limits = Limits { instructions: 64, branches: 1 };

impl Follower {
    /// One that waits for the thread to come to `head` first.
    pub fn towards(head: u64) -> Follower {
        Follower { head: Some(head), ..Follower::default() }
    }

    /// The thread is about to go on at `pc`.
    pub fn at(&mut self, code: &dyn GuestCode, heat: &mut Heat, pc: u64) -> Next {
        if self.head.is_some_and(|head| head != pc) {
            return self.pass_over(code, pc);
        }
        self.begun |= self.head.take().is_some();
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

    /// A block that comes before the path.
    fn pass_over(&mut self, code: &dyn GuestCode, pc: u64) -> Next {
        self.passed_over += 1;
        let block = Path::follow(code, pc, ONE_BLOCK, |_| false, |_| true);
        let goes_on = self.passed_over <= LONGEST.branches && leads_somewhere(&block);
        if goes_on { Next::Run(block) } else { Next::Done(None) }
    }

    /// Whether the path can foresee where control goes after the block. Indirect jumps and calls often go where they
    /// went before, and [`HotPaths::review`] finds those that do not; a return from a function that was not
    /// called on the path may go anywhere.
    fn goes_on_after(&mut self, block: &Path) -> bool {
        match block.instructions.last().map(Instruction::flow_control) {
            Some(FlowControl::Call) => self.calls += 1,
            Some(FlowControl::Return) if self.calls > 0 => self.calls -= 1,
            Some(FlowControl::IndirectCall) => self.calls += 1,
            Some(FlowControl::Return) => return false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    /// `call rax; jmp rbx; ret`
    const CODE: [u8; 5] = [0xff, 0xd0, 0xff, 0xe3, 0xc3];
    const HEAD: u64 = 0x1000;

    fn path() -> Path {
        let instructions = Decoder::with_ip(64, &CODE, HEAD, DecoderOptions::NONE).iter().collect();
        Path { instructions, end: End::Continues(HEAD) }
    }

    fn paths() -> HotPaths {
        let mut paths = HotPaths::default();
        // The path was translated twice over.
        let guards = (0..6).map(|index| Guard { counter: index as u64, index });
        paths.add(path(), guards.collect());
        paths
    }

    #[test]
    fn paths_end_where_they_are_often_left() {
        let mut paths = paths();
        assert!(paths.review(|_| 400).is_empty());
        let cut = paths.review(|counter| if counter == 4 { 401 } else { 0 });
        assert_eq!(
            cut.iter().map(|path| (path.instructions.len(), path.end)).collect::<Vec<_>>(),
            [(2, End::Transfer)]
        );
        assert!(paths.review(|_| 1000).is_empty());
    }

    #[test]
    fn paths_of_changed_code_are_forgotten() {
        let mut paths = paths();
        paths.forget(&(HEAD - 8..HEAD));
        paths.forget(&(HEAD + 5..HEAD + 8));
        assert_eq!(paths.paths.len(), 1);
        paths.forget(&(HEAD + 3..HEAD + 4));
        assert!(paths.paths.is_empty());
    }
}

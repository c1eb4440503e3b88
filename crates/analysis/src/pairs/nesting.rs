//! In which iterations of which loops each thread is, by a stack of calls and loops.
//!
//! A loop is entered, or goes on to its next iteration, where its first instruction is about to run. It is left where the
//! thread does something at an instruction that is not in it, or returns; leaving several at once leaves all of them.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use trace::stream::Thread;

/// Tells the first instructions of the loops around an instruction, within its function, the outermost first.
pub type LoopsAround = Box<dyn FnMut(u64) -> Vec<u64> + Send>;

/// An iteration of a loop that a thread is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Iteration {
    /// The loop's first instruction.
    pub header: u64,
    /// Different for any two iterations of a run.
    pub serial: u64,
}

/// Whether two places of one thread are in the same iteration of every loop that both are in.
pub fn are_in_step(one: &[Iteration], other: &[Iteration]) -> bool {
    let common = one.iter().zip(other).take_while(|(one, other)| one.header == other.header);
    common.into_iter().all(|(one, other)| one.serial == other.serial)
}

#[derive(Default)]
struct Frame {
    /// Where the return address is.
    slot: u64,
    return_address: u64,
    iterations: Vec<Iteration>,
}

/// So many positions are told apart in a run; with what is kept of each, these are some 200 MB.
const MOST_POSITIONS: usize = 1 << 20;

/// The number of a position, in the order in which they were first needed.
pub(super) type PositionIdx = u32;

pub(super) struct Nesting {
    around: LoopsAround,
    known: FxHashMap<u64, Vec<u64>>,
    threads: FxHashMap<Thread, Vec<Frame>>,
    serial: u64,
    numbers: FxHashMap<Vec<Iteration>, PositionIdx>,
    pub positions: Vec<Vec<Iteration>>,
    context_numbers: FxHashMap<Vec<u64>, u64>,
    pub contexts: Vec<Vec<u64>>,
}

impl Nesting {
    pub fn new(around: LoopsAround) -> Nesting {
        Nesting {
            around,
            known: FxHashMap::default(),
            threads: FxHashMap::default(),
            serial: 0,
            numbers: FxHashMap::default(),
            positions: Vec::new(),
            context_numbers: FxHashMap::default(),
            contexts: Vec::new(),
        }
    }

    /// The thread's innermost call, with the loops left that the instruction is not in.
    fn frame_at(&mut self, thread: Thread, pc: u64) -> &mut Frame {
        let around = &mut self.around;
        let headers = self.known.entry(pc).or_insert_with(|| around(pc));
        let frames = self.threads.entry(thread).or_default();
        if frames.is_empty() {
            frames.push(Frame { slot: u64::MAX, ..Frame::default() });
        }
        let last = frames.len() - 1;
        frames[last].iterations.retain(|iteration| headers.contains(&iteration.header));
        &mut frames[last]
    }

    /// A loop's first instruction is about to run.
    pub fn header(&mut self, thread: Thread, pc: u64) {
        self.serial += 1;
        let serial = self.serial;
        let iterations = &mut self.frame_at(thread, pc).iterations;
        // Loops within this one have been left.
        if let Some(place) = iterations.iter().position(|iteration| iteration.header == pc) {
            iterations.truncate(place);
        }
        iterations.push(Iteration { header: pc, serial });
    }

    pub fn called(&mut self, thread: Thread, site: u64, slot: u64, return_address: u64) {
        let frames = self.threads.entry(thread).or_default();
        // Stacks grow down: what lies at or below the new return address has been left.
        while frames.last().is_some_and(|frame| frame.slot <= slot) {
            frames.pop();
        }
        self.frame_at(thread, site);
        let frames = self.threads.entry(thread).or_default();
        frames.push(Frame { slot, return_address, iterations: Vec::new() });
    }

    pub fn returned(&mut self, thread: Thread, target: u64) {
        let Some(frames) = self.threads.get_mut(&thread) else { return };
        let is_left = |frame: &Frame| frame.slot != u64::MAX && frame.return_address == target;
        if let Some(place) = frames.iter().rposition(is_left) {
            frames.truncate(place);
        }
    }

    /// The number of the innermost calls that a thread is in, by where they return to.
    pub fn context(&mut self, thread: Thread, most: usize) -> u64 {
        let frames = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        let called = frames.iter().rev().filter(|frame| frame.slot != u64::MAX);
        let callers: Vec<u64> = called.take(most).map(|frame| frame.return_address).collect();
        if let Some(number) = self.context_numbers.get(&callers) {
            return *number;
        }
        let number = self.contexts.len() as u64;
        self.context_numbers.insert(callers.clone(), number);
        self.contexts.push(callers);
        number
    }

    /// Where the thread is, at an instruction; nothing if there are too many positions already.
    pub fn position(&mut self, thread: Thread, pc: u64) -> Option<PositionIdx> {
        self.frame_at(thread, pc);
        let frames = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        let position: Vec<Iteration> = frames.iter().flat_map(|frame| frame.iterations.iter().copied()).collect();
        if let Some(number) = self.numbers.get(&position) {
            return Some(*number);
        }
        if self.positions.len() == MOST_POSITIONS {
            return None;
        }
        let number = self.positions.len() as PositionIdx;
        self.numbers.insert(position.clone(), number);
        self.positions.push(position);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop at 10 to 19 with one at 14 to 16 in it, in a function at 1 to 29.
    fn nesting() -> Nesting {
        Nesting::new(Box::new(|pc| match pc {
            14..=16 => vec![10, 14],
            10..=19 => vec![10],
            _ => Vec::new(),
        }))
    }

    fn headers(nesting: &mut Nesting, pc: u64) -> Vec<(u64, u64)> {
        let number = nesting.position(1, pc).expect("there is room");
        nesting.positions[number as usize].iter().map(|iteration| (iteration.header, iteration.serial)).collect()
    }

    #[test]
    fn loops_are_entered_and_left() {
        let mut nesting = nesting();
        assert_eq!(headers(&mut nesting, 5), []);
        nesting.header(1, 10);
        nesting.header(1, 14);
        assert_eq!(headers(&mut nesting, 15), [(10, 1), (14, 2)]);
        nesting.header(1, 14);
        assert_eq!(headers(&mut nesting, 16), [(10, 1), (14, 3)]);
        assert_eq!(headers(&mut nesting, 18), [(10, 1)]);
        nesting.header(1, 10);
        assert_eq!(headers(&mut nesting, 11), [(10, 4)]);
        nesting.header(1, 14);
        // Out of both at once.
        assert_eq!(headers(&mut nesting, 25), []);
    }

    #[test]
    fn calls_are_within_the_iterations_of_their_callers() {
        let mut nesting = nesting();
        nesting.header(1, 10);
        nesting.called(1, 12, 0x100, 13);
        assert_eq!(headers(&mut nesting, 99), [(10, 1)]);
        nesting.returned(1, 13);
        nesting.header(1, 10);
        assert_eq!(headers(&mut nesting, 12), [(10, 2)]);
        nesting.called(1, 22, 0x100, 23);
        assert_eq!(headers(&mut nesting, 99), []);
    }

    #[test]
    fn steps_are_compared_where_both_are_in_a_loop() {
        let iteration = |header, serial| Iteration { header, serial };
        let (one, next) = ([iteration(10, 1)], [iteration(10, 2)]);
        assert!(are_in_step(&one, &one) && !are_in_step(&one, &next));
        assert!(are_in_step(&one, &[]) && are_in_step(&one, &[iteration(30, 7)]));
        assert!(are_in_step(&one, &[iteration(10, 1), iteration(14, 5)]));
    }
}

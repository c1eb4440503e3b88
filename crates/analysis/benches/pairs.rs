//! How long the comparison of many large runs takes: `cargo bench -p analysis --bench pairs`.
//!
//! A hundred passing runs and a failing one, of 800,000 pairs each: most are common to all, some come and go. For each procedure
//! something is planted: two pairs of the failing run alone (I), one that only it lacks (II), two that come together only there,
//! by instruction or in the same iterations of loops (III). The promise for all procedures and levels together is 20 seconds and
//! 2 GB, the runs that are added one by one included. Time is the processor's; making the runs up does not count.

use analysis::pairs::{
    Apart, Collected, Deed, End, Iteration, Level, Moment, Occurrence, Placed, Procedure, Runs, SeenPair, coupled,
    coupled_by_loops, mixtures, rare, rings, suspects, turning_couples, turning_pairs,
};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

const RUNS: u64 = 100;
const PAIRS: u64 = 800_000;
/// Of these, each run has about half.
const FICKLE: u64 = 40_000;
const THREADS: u64 = 4;
/// Each makes several pairs.
const INSTRUCTIONS: u64 = 100_000;

/// Only the failing run has these.
const ALONE: [u64; 2] = [PAIRS + 10, PAIRS + 20];
/// Only the failing run lacks it.
const LACKING: u64 = FICKLE + 77;
/// A few passing runs have one, a few others the other.
const APART: [u64; 2] = [PAIRS + 110, PAIRS + 120];
/// Passing runs have both, but not in the same iterations.
const OUT_OF_STEP: [u64; 2] = [PAIRS + 210, PAIRS + 220];

const PROMISED: Duration = Duration::from_secs(20);
const PROMISED_KILOBYTES: u64 = 2 << 20;

fn main() {
    let mut clock = Clock::default();
    let failing = run(0);
    let mut runs = clock.times("adding the failing run", || Runs::new(&failing));
    drop(failing);
    let passing = (1..=RUNS).map(run);
    passing.for_each(|passing| clock.adds("adding 100 passing runs", || runs.add_passing(&passing)));
    clock.tell();
    let found = clock.times("procedure I", || suspects(&runs, Some(Procedure::I)));
    assert_eq!(found.len(), 1, "the two pairs of the failing run lead into a thread and back");
    let found = clock.times("procedure II", || suspects(&runs, Some(Procedure::II)));
    assert_eq!(found.len(), 1, "one pair is lacking");
    let found = clock.times("procedure III, by instruction", || coupled(&runs, Level::Pc));
    assert_eq!(found.len(), 1, "two pairs never come together");
    clock.times("procedure III, by threads", || coupled(&runs, Level::Tid));
    clock.times("procedure III, a third thread", || mixtures(&runs));
    clock.times("rare pairs", || rare(&runs));
    let wanted = clock.times("what to hear again with loops", || {
        let couples = turning_couples(&runs).into_iter().flat_map(|couple| [couple.first, couple.second]);
        let pairs: BTreeSet<u32> = couples.chain(turning_pairs(&runs)).collect();
        pairs.into_iter().map(|pair| runs.key(pair).head.pc).collect::<BTreeSet<u64>>()
    });
    let failing = looped(0, &wanted);
    let passing: Vec<Collected> = (1..=RUNS).map(|number| looped(number, &wanted)).collect();
    let found =
        clock.times("procedure III, by loops", || coupled_by_loops(&runs, &failing, &passing, Apart::Iterations, 0));
    assert!(!found.is_empty(), "two pairs never come in the same iterations");
    clock.times("procedure III, three pairs", || rings(&runs, &failing, &passing));
    clock.conclude();
}

/// Processor time by what it was spent on.
#[derive(Default)]
struct Clock {
    total: Duration,
    last: Option<(&'static str, Duration)>,
}

impl Clock {
    fn adds<T>(&mut self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let began = processor_time();
        let done = work();
        let spent = processor_time() - began;
        self.total += spent;
        let before = self.last.filter(|(last, _)| *last == what).map_or(Duration::ZERO, |(_, before)| before);
        self.last = Some((what, before + spent));
        done
    }

    fn times<T>(&mut self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let done = self.adds(what, work);
        self.tell();
        done
    }

    fn tell(&mut self) {
        if let Some((what, spent)) = self.last.take() {
            println!("{what:32}{:6.2} s", spent.as_secs_f64());
        }
    }

    fn conclude(&self) {
        let peak = kilobytes("VmHWM");
        println!("{:32}{:6.2} s, at most {} MB", "in all", self.total.as_secs_f64(), peak >> 10);
        assert!(self.total < PROMISED, "slower than promised");
        assert!(peak < PROMISED_KILOBYTES, "more memory than promised");
    }
}

/// How long this thread has been computing.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0))
}

fn kilobytes(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The pairs of one run; number 0 fails.
fn run(number: u64) -> Collected {
    // Seeds that follow each other begin alike.
    let mut random = fastrand::Rng::with_seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut pairs: Vec<SeenPair> = Vec::with_capacity(PAIRS as usize);
    for head in 0..PAIRS {
        if (head >= FICKLE || random.bool()) && (head != LACKING || number > 0) {
            pairs.push(common_pair(head));
        }
    }
    let fails = number == 0;
    let planted = ALONE.into_iter().filter(|_| fails);
    let planted = planted.chain(APART.into_iter().filter(|head| fails || (head + number) % 20 == 15));
    for (place, head) in planted.chain(OUT_OF_STEP).enumerate() {
        let direction = if head % 20 == 10 { (1, 2) } else { (2, 1) };
        pairs.push(pair(head, direction, PAIRS + if head < APART[0] { 0 } else { place as u64 }));
    }
    let executed = (0..INSTRUCTIONS).collect();
    Collected { pairs, accesses: PAIRS, executed, ..Collected::default() }
}

/// Most data goes from the first thread to the others; some among these.
fn common_pair(head: u64) -> SeenPair {
    let to = 1 + head % (THREADS - 1);
    let from = if head.is_multiple_of(1000) { 1 + (head + 1) % (THREADS - 1) } else { 0 };
    pair(head, (from as u32, to as u32), head / 4)
}

fn pair(head: u64, direction: (u32, u32), place: u64) -> SeenPair {
    let moment = |thread, order| Moment { thread, ordinal: order, order };
    let first =
        Occurrence { head: moment(direction.0, 2 * head), tail: moment(direction.1, 2 * head + 1), address: place * 8 };
    SeenPair {
        head: End::new(head, Deed::Write),
        tail: End::new(head + 10, Deed::Write),
        first,
        times: 1,
        directions: vec![direction],
        elsewhere: Vec::new(),
        places: vec![place * 8],
        occurrences: Vec::new(),
    }
}

/// The same run, heard with the iterations of these pairs: each comes in four of a loop. Those that are out of step are in the same
/// iterations in the failing run alone.
fn looped(number: u64, wanted: &BTreeSet<u64>) -> Collected {
    let mut run = run(number);
    run.pairs.retain(|pair| wanted.contains(&pair.head.pc));
    for pair in &mut run.pairs {
        let shift = if number > 0 && pair.head.pc == OUT_OF_STEP[1] { 4 } else { 0 };
        let placed =
            |iteration: u32| Placed { occurrence: pair.first, head: iteration + shift, tail: iteration + shift };
        pair.occurrences = (0..4).map(placed).collect();
    }
    run.keep_placed();
    run.positions = (0..8).map(|serial| vec![Iteration { header: 1, serial }]).collect();
    run
}

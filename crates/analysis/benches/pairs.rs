//! How long the comparison of many large runs takes: `cargo bench -p analysis --bench pairs`.
//!
//! A hundred passing runs and a failing one, of 800,000 pairs each: most are common to all, some come and go, and two are the
//! failing run's alone. The promise is 20 seconds and 2 GB.

use analysis::pairs::{Collected, Deed, End, Moment, Occurrence, Runs, SeenPair, suspects};
use std::time::{Duration, Instant};

const RUNS: u64 = 100;
const PAIRS: u64 = 800_000;
/// Of these, each run has about half.
const FICKLE: u64 = 40_000;

fn main() {
    let mut spent = Duration::ZERO;
    let mut timed = |work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        spent += began.elapsed();
    };
    let failing = run(0, true);
    let mut runs = None;
    timed(&mut || runs = Some(Runs::new(&failing)));
    let mut runs = runs.expect("a failing run");
    for number in 1..=RUNS {
        let passing = run(number, false);
        timed(&mut || runs.add_passing(&passing));
    }
    let adding = spent;
    let began = Instant::now();
    let found = suspects(&runs, None);
    let (one, all) = (began.elapsed(), adding + began.elapsed());
    assert_eq!(found.len(), 1, "the two pairs of the failing run lead into a thread and back");
    println!(
        "{RUNS} runs of {PAIRS} pairs: {:.1} s to add, {:.1} s to compare",
        adding.as_secs_f64(),
        one.as_secs_f64()
    );
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", peak.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("no peak"));
    assert!(all < Duration::from_secs(20), "slower than promised: {all:?}");
}

/// The pairs of one run; the failing one has two more.
fn run(seed: u64, fails: bool) -> Collected {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pairs: Vec<SeenPair> = (0..PAIRS).map(|number| pair(number, number + 1, (1, 2), number)).collect();
    pairs.retain(|pair| pair.head.pc >= FICKLE || random.bool());
    if fails {
        pairs.push(pair(PAIRS + 10, PAIRS + 20, (1, 2), PAIRS));
        pairs.push(pair(PAIRS + 20, PAIRS + 30, (2, 1), PAIRS));
    }
    Collected { pairs, accesses: PAIRS, executed: Vec::new(), positions: Vec::new(), contexts: Vec::new() }
}

fn pair(head: u64, tail: u64, direction: (u32, u32), place: u64) -> SeenPair {
    let moment = |thread, order| Moment { thread, ordinal: order, order };
    let first =
        Occurrence { head: moment(direction.0, 2 * head), tail: moment(direction.1, 2 * head + 1), address: place * 8 };
    SeenPair {
        head: End::new(head, Deed::Write),
        tail: End::new(tail, Deed::Write),
        first,
        times: 1,
        directions: vec![direction],
        elsewhere: Vec::new(),
        places: vec![place * 8],
        occurrences: Vec::new(),
    }
}

//! Programs without data races, on what Rust offers for synchronisation. The argument names one; without one, all are
//! listed.

mod parking;
mod queues;
mod standard;

use std::thread;

const THREADS: usize = 4;
const ROUNDS: usize = 100;

type Program = (&'static str, fn() -> usize);

/// Runs the work in several threads at once, each with its number.
fn in_threads(work: impl Fn(usize) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || work(number));
        }
    });
}

fn main() {
    let all = || standard::PROGRAMS.iter().chain(parking::PROGRAMS).chain(queues::PROGRAMS);
    match std::env::args().nth(1) {
        None => all().for_each(|(name, _)| println!("{name}")),
        Some(wanted) => match all().find(|(name, _)| *name == wanted) {
            Some((_, run)) => println!("{}", run()),
            None => std::process::exit(2),
        },
    }
}

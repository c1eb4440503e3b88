//! Random programs of which some instructions are told, and the first times what comes right behind them: they end as on the bare processor, and what is told
//! is as it would be if everything were.

use crate::code::cache::CodeCache;
use crate::code::observe::{Chosen, Wanted};
use crate::code::tests::home::{CODE_SIZE, new_cache};
use crate::code::tests::machine::Machine;
use crate::code::tests::programs::{LIMITS, Trial, trial};
use crate::code::tests::spared::{AT_ONCE, SHORT, Told, is_among, told_once};
use crate::context;
use crate::observation::{self, Room};
use std::collections::BTreeSet;

const PROGRAMS: u64 = 40;
/// Longer than the sequel of an instruction is told by itself. One that comes in the sequel of another has its own later.
const TIMES: usize = 70;

/// One in three of the instructions that access memory.
pub(super) fn some_of(all: &[Told]) -> BTreeSet<u64> {
    let instructions: BTreeSet<u64> = all.iter().map(|access| access.0).collect();
    instructions.into_iter().step_by(3).collect()
}

pub(super) fn observed_cache() -> CodeCache {
    let mut cache = new_cache(LIMITS[0]);
    cache.observe(Wanted::EVERYTHING);
    cache
}

/// What a program tells when it is run once more, beside what the chosen instructions do, which is told in any case.
fn others_told(
    machine: &mut Machine,
    cache: &mut CodeCache,
    trial: &Trial,
    quantum: i64,
    (all, chosen): (&[Told], &BTreeSet<u64>),
) -> usize {
    let some = told_once(machine, cache, trial, quantum, "a program with sequels");
    assert!(is_among(&some, all), "{some:x?}\nof {all:x?}\n{}", trial.listing);
    let is_chosen = |access: &&Told| chosen.contains(&access.0);
    let of_chosen = |told: &[Told]| told.iter().filter(is_chosen).copied().collect::<Vec<Told>>();
    assert_eq!(of_chosen(&some), of_chosen(all), "{}", trial.listing);
    some.len() - of_chosen(&some).len()
}

#[test]
fn what_comes_behind_chosen_instructions_is_told_the_first_times() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let (mut whole, mut cache) = (observed_cache(), observed_cache());
    let (mut first, mut last, mut renewed) = (0, 0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let quantum = if number % 2 == 0 { AT_ONCE } else { SHORT };
        let code = trial.home.code..trial.home.code + CODE_SIZE;
        whole.invalidate(code.clone());
        cache.invalidate(code);
        let all = told_once(&mut machine, &mut whole, &trial, quantum, "a program");
        let chosen = some_of(&all);
        let (instructions, sequels) = (chosen.clone(), chosen.clone());
        cache.set_chosen(Some(Chosen { instructions, sequels, ..Chosen::default() }));
        let mut others = || others_told(&mut machine, &mut cache, &trial, quantum, (&all, &chosen));
        let told: Vec<usize> = (0..TIMES * (chosen.len() + 1)).map(|_| others()).take_while(|told| *told > 0).collect();
        (first, last) = (first + told.first().unwrap_or(&0), last + others());
        cache.review_sequels(&trial.code, 1, Some(true));
        renewed += others_told(&mut machine, &mut cache, &trial, quantum, (&all, &chosen));
    }
    observation::close_buffer(context::of_this_thread());
    assert!(first > 10 * PROGRAMS as usize, "only {first} accesses were told behind others");
    assert_eq!(last, 0, "they go on being told");
    assert!(renewed > first / 2, "{first} were told at first, and {renewed} when the run had become longer");
}

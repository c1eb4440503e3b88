//! Random programs of which some instructions are told, and not for good: they end as on the bare processor, and each instruction is told whenever it comes, or not
//! at all.

use crate::code::cache::CodeCache;
use crate::code::observe::{Chosen, Patience};
use crate::code::tests::home::CODE_SIZE;
use crate::code::tests::machine::Machine;
use crate::code::tests::programs::{Trial, trial};
use crate::code::tests::sequels::{observed_cache, some_of};
use crate::code::tests::spared::{AT_ONCE, SHORT, Told, told_once};
use crate::context;
use crate::observation::{self, Room};
use std::collections::BTreeSet;

const PROGRAMS: u64 = 30;
/// By then even a program that tells one record at a time has told enough.
const MOST_TIMES: usize = 20_000;

/// A program, and all that it does.
struct Subject<'a> {
    trial: &'a Trial,
    quantum: i64,
    all: &'a [Told],
    chosen: &'a BTreeSet<u64>,
}

impl Subject<'_> {
    /// Runs the program once more. Nothing is told of hushed instructions, and everything of the others that are chosen. Gives how much that was.
    fn check(&self, machine: &mut Machine, cache: &mut CodeCache) -> usize {
        let hushed = cache.tellings.hushed().clone();
        let some = told_once(machine, cache, self.trial, self.quantum, "a program that is told for a while");
        let is_told = |access: &&Told| self.chosen.contains(&access.0) && !hushed.contains(&access.0);
        let expected: Vec<Told> = self.all.iter().filter(is_told).copied().collect();
        assert_eq!(some, expected, "without {hushed:x?}\n{}", self.trial.listing);
        some.len()
    }
}

#[test]
fn chosen_instructions_are_told_for_a_while_and_again_later() {
    let mut machine = Machine::take();
    observation::open_buffer(context::of_this_thread(), Room::Ample);
    let (mut whole, mut cache) = (observed_cache(), observed_cache());
    let (mut first, mut last, mut again) = (0, 0, 0);
    for number in 0..PROGRAMS {
        let trial = trial(&mut machine, number, false);
        let quantum = if number % 2 == 0 { AT_ONCE } else { SHORT };
        let code = trial.home.code..trial.home.code + CODE_SIZE;
        whole.invalidate(code.clone());
        cache.invalidate(code);
        let all = told_once(&mut machine, &mut whole, &trial, quantum, "a program");
        let chosen = some_of(&all);
        let steady: BTreeSet<u64> = chosen.first().copied().into_iter().collect();
        let patience = Some(Patience { first: 500, later: 50, steady: steady.clone() });
        cache.set_chosen(Some(Chosen { instructions: chosen.clone(), patience, ..Chosen::default() }));
        let subject = Subject { trial: &trial, quantum, all: &all, chosen: &chosen };
        first += subject.check(&mut machine, &mut cache);
        for _ in 0..MOST_TIMES {
            if chosen.is_subset(&steady) || !cache.tellings.hushed().is_empty() {
                break;
            }
            subject.check(&mut machine, &mut cache);
            cache.review_tellings(&trial.code, false);
        }
        last += subject.check(&mut machine, &mut cache);
        assert!(cache.tellings.hushed().is_disjoint(&steady));
        cache.review_tellings(&trial.code, true);
        assert!(cache.tellings.hushed().is_empty());
        again += subject.check(&mut machine, &mut cache);
    }
    observation::close_buffer(context::of_this_thread());
    assert_eq!(again, first);
    assert!(last < first / 2, "{first} accesses were told at first, and {last} in the end");
}

//! The test procedures on runs written by hand, among them the examples of the paper.
//!
//! A run is a line of accesses in the paper's notation, in the order in which they happen: `1:W3y` is a write of `y` by
//! statement 3 in thread 1.

use analysis::pairs::falcon::{Pattern, SeenPattern, Windows, ranked};
use analysis::pairs::{
    Apart, BugType, Collected, Collector, Couple, Deed, End, InStep, Level, PairKey, Procedure, Runs, Scope, SeenPair,
    Suspect, coupled, coupled_by_loops, missing_in_failure, mixtures, narrowing, only_in_failure, rare, rarest, rings,
    sharpen, suspects,
};
use trace::stream::{Access, AccessKind, Event, Listener, Site};

fn variable(name: &str) -> u64 {
    name.bytes().fold(0x1000, |address, letter| address + u64::from(letter) * 0x100)
}

fn heard(run: &str) -> Collected {
    heard_by(Collector::new(Scope::default()), run)
}

/// Statement 1 of the run, `1:L1`, begins an iteration of a loop around statements 1 to 4.
fn heard_with_loops(run: &str) -> Collected {
    let around = |pc| if (1..=4).contains(&pc) { vec![1] } else { Vec::new() };
    heard_by(Collector::new(Scope::default()).with_loops((0..20).collect(), Box::new(around)), run)
}

fn heard_by(mut collector: Collector, run: &str) -> Collected {
    tell(&mut collector, run);
    collector.into_collected()
}

fn patterns(run: &str) -> Vec<SeenPattern> {
    let mut windows = Windows::new(Scope::default());
    tell(&mut windows, run);
    windows.into_found()
}

fn tell(collector: &mut impl Listener, run: &str) {
    for number in 0..20 {
        collector.site(Site(number), u64::from(number));
    }
    for word in run.split_whitespace() {
        let (thread, access) = word.split_once(':').expect("a thread");
        if access == "L1" {
            collector.event(thread.parse().expect("a thread"), &Event::LoopHeader { pc: 1 });
            continue;
        }
        let kind = match &access[..1] {
            "R" => AccessKind::Read,
            "W" => AccessKind::Write,
            "U" => AccessKind::Update,
            other => panic!("no access: {other}"),
        };
        let digits = access[1..].bytes().take_while(u8::is_ascii_digit).count();
        let site = Site(access[1..=digits].parse().expect("a statement"));
        let access = Access { address: variable(&access[digits + 1..]), size: 4, site, kind };
        collector.accesses(thread.parse().expect("a thread"), &[access]);
    }
}

fn end(text: &str) -> End {
    let deed = if text.starts_with('R') { Deed::Read } else { Deed::Write };
    End::new(text[1..].parse().expect("a statement"), deed)
}

/// `W3-R2`
fn key(text: &str) -> PairKey {
    let (head, tail) = text.split_once('-').expect("two ends");
    PairKey { head: end(head), tail: end(tail) }
}

fn written(key: PairKey) -> String {
    let end = |end: End| format!("{}{}", if end.deed == Deed::Read { 'R' } else { 'W' }, end.pc);
    format!("{}-{}", end(key.head), end(key.tail))
}

fn pairs(run: &str) -> Vec<String> {
    heard(run).pairs.iter().map(|pair| written(PairKey { head: pair.head, tail: pair.tail })).collect()
}

fn runs(failing: &str, passing: &[&str]) -> Runs {
    let mut runs = Runs::new(&heard(failing));
    passing.iter().for_each(|run| runs.add_passing(&heard(run)));
    runs
}

fn first_procedure(failing: &str, passing: &[&str]) -> Vec<String> {
    let runs = runs(failing, passing);
    only_in_failure(&runs).into_iter().map(|id| written(runs.key(id))).collect()
}

fn second_procedure(failing: &str, passing: &[&str]) -> Vec<String> {
    missing_in_failure(&runs(failing, passing)).into_iter().map(|missing| written(missing.reversed)).collect()
}

fn third_procedure(failing: &str, passing: &[&str], level: Level) -> Vec<(String, String)> {
    let runs = runs(failing, passing);
    let text = |couple: Couple| (written(runs.key(couple.first)), written(runs.key(couple.second)));
    coupled(&runs, level).into_iter().map(text).collect()
}

const NOTHING: [String; 0] = [];
const NO_COUPLES: [(String, String); 0] = [];

#[test]
fn a_pair_is_an_immediate_dependence_of_two_threads() {
    assert_eq!(pairs("1:W1x 2:R2x"), ["W1-R2"]);
    assert_eq!(pairs("1:R1x 2:W2x"), ["R1-W2"]);
    assert_eq!(pairs("1:W1x 2:W2x"), ["W1-W2"]);
    assert_eq!(pairs("1:R1x 2:R2x"), NOTHING);
    assert_eq!(pairs("1:W1x 1:R2x"), NOTHING);
    assert_eq!(pairs("1:W1x 2:R2y"), NOTHING);
    // The nearest accesses only.
    assert_eq!(pairs("1:W1x 2:R2x 2:R3x 2:W4x"), ["W1-R2"]);
    assert_eq!(pairs("1:W1x 1:R2x 2:W3x"), ["R2-W3"]);
    assert_eq!(pairs("1:W1x 1:W2x 2:R3x"), ["W2-R3"]);
    // What a third thread reads in between changes nothing between two.
    assert_eq!(pairs("1:W1x 3:R2x 2:W3x"), ["W1-R2", "R2-W3", "W1-W3"]);
    assert_eq!(pairs("1:U1x 2:U2x"), ["W1-R2"]);
}

#[test]
fn a_lost_update_is_told_by_both_its_pairs() {
    let passing = ["1:R1x 1:W2x 2:R1x 2:W2x", "2:R1x 2:W2x 1:R1x 1:W2x"];
    assert_eq!(first_procedure("1:R1x 2:R1x 2:W2x 1:W2x", &passing), ["R1-W2", "W2-W2"]);
}

/// Figure 3: thread 1 uses `y` behind its write of `x`, thread 2 clears `y` before it reads `x`.
#[test]
fn a_pair_that_only_foretells_another_is_no_cause() {
    let passing = ["1:W1x 1:R2y 2:W3y 2:R4x"];
    assert_eq!(first_procedure("1:W1x 2:W3y 1:R2y 2:R4x", &passing), ["W3-R2"]);
    assert_eq!(first_procedure("2:W3y 2:R4x 1:W1x 1:R2y", &passing), ["W3-R2"]);
}

#[test]
fn what_comes_of_a_failure_comes_after_its_cause() {
    let failing = "1:R1x 2:W2x 1:R3x 1:W8z 2:R9z";
    assert_eq!(first_procedure(failing, &["1:R1x 1:R3x 2:W2x"]), ["R1-W2", "W2-R3", "W8-R9"]);
}

/// Figure 6: MySQL-2, two variables, and one pair that tells.
#[test]
fn one_pair_can_tell_a_bug_of_two_variables() {
    let passing = ["1:R2n 1:R3c 2:W8n 2:W9c", "2:W8n 2:W9c 1:R2n"];
    assert_eq!(first_procedure("1:R2n 2:W8n 2:W9c 1:R3c", &passing), ["W9-R3"]);
}

/// Figure 1: Transmission, where the failed assertion ends the run before the write.
#[test]
fn a_pair_that_is_missing_blames_its_reverse() {
    let passing = ["1:W1b 2:R2b", "1:W1b 2:R2b 1:W3z 2:R4z"];
    assert_eq!(first_procedure("2:R2b", &passing), NOTHING);
    assert_eq!(second_procedure("2:R2b", &passing), ["R2-W1"]);
}

/// Row 10 of table 1, its third case: `x` is the new one, and reading `y` ends the run.
#[test]
fn half_of_a_couple_is_missing() {
    let passing = ["1:W1x 1:W4y 2:R2x 2:R3y", "2:R2x 2:R3y 1:W1x 1:W4y"];
    let failing = "1:W1x 2:R2x 2:R3y";
    assert_eq!(first_procedure(failing, &passing), NOTHING);
    assert_eq!(second_procedure(failing, &passing), ["R3-W4"]);
}

/// Row 10 of table 1, its first case.
#[test]
fn two_known_pairs_never_came_together() {
    let passing = ["1:W1x 1:W4y 2:R2x 2:R3y", "2:R2x 2:R3y 1:W1x 1:W4y"];
    let failing = "1:W1x 2:R2x 2:R3y 1:W4y";
    assert_eq!(first_procedure(failing, &passing), NOTHING);
    let couple = ("W1-R2".to_owned(), "R3-W4".to_owned());
    assert_eq!(third_procedure(failing, &passing, Level::Pc), std::slice::from_ref(&couple));
    // By instructions alone, a passing run in which a third thread has one of the pairs knows the couple.
    let third = "1:W1x 1:W4y 2:R2x 2:R3y 3:W4y 3:W1x";
    let all = [passing[0], passing[1], third];
    assert_eq!(third_procedure(failing, &all, Level::Pc), NO_COUPLES);
    assert_eq!(third_procedure(failing, &all, Level::Tid), [couple]);
}

/// Figure 4: thread 1 writes `x` and `y` in a loop. Instructions and threads do not tell; iterations do.
#[test]
fn a_loop_hides_a_couple_from_instructions_and_threads() {
    let passing = [
        "1:L1 1:W2x 1:W3y 1:L1 1:W2x 1:W3y 2:R5x 2:R6y",
        "1:L1 1:W2x 1:W3y 2:R5x 2:R6y 1:L1 1:W2x 1:W3y",
        "2:R5x 2:R6y 1:L1 1:W2x 1:W3y 1:L1 1:W2x 1:W3y",
    ];
    let failing = "2:R5x 1:L1 1:W2x 1:W3y 2:R6y 1:L1 1:W2x 1:W3y";
    assert_eq!(first_procedure(failing, &passing), NOTHING);
    // A missing pair whose reverse has come is no sign of a run that ended too soon.
    assert_eq!(second_procedure(failing, &passing), NOTHING);
    assert_eq!(third_procedure(failing, &passing, Level::Pc), NO_COUPLES);
    assert_eq!(third_procedure(failing, &passing, Level::Tid), NO_COUPLES);
    let all = runs(failing, &passing);
    let again: Vec<Collected> = passing.iter().map(|run| heard_with_loops(run)).collect();
    let couples = coupled_by_loops(&all, &heard_with_loops(failing), &again, Apart::Iterations, 0);
    let texts: Vec<(String, String)> = couples
        .iter()
        .map(|found| (written(all.key(found.couple.first)), written(all.key(found.couple.second))))
        .collect();
    assert_eq!(texts, [("R5-W2".to_owned(), "W3-R6".to_owned())]);
    let lucky: Vec<Collected> = again.iter().cloned().chain([heard_with_loops(failing)]).collect();
    assert_eq!(coupled_by_loops(&all, &heard_with_loops(failing), &lucky, Apart::Iterations, 0), []);
    let tolerated = coupled_by_loops(&all, &heard_with_loops(failing), &lucky, Apart::Iterations, 1);
    let once: Vec<InStep> = couples.iter().map(|found| InStep { times: 1, ..*found }).collect();
    assert_eq!(tolerated, once);
    // What no passing run has is told alone, if nothing else decides.
    let mixed: Vec<Suspect> = tolerated.iter().chain(&couples).copied().map(Suspect::InStep).collect();
    assert_eq!(rarest(&mixed), couples.iter().copied().map(Suspect::InStep).collect::<Vec<_>>());
}

/// The same with another iteration in between: accesses of passing runs are that far apart as well, but come the other way round.
#[test]
fn a_couple_may_be_several_iterations_long() {
    let passing = ["1:L1 1:W2x 1:W3y 2:R5x 2:R6y 1:L1 1:W2x 1:W3y 1:L1 1:W2x 1:W3y"];
    let failing = "1:L1 1:W2x 1:W3y 2:R5x 1:L1 1:W2x 1:W3y 1:L1 1:W2x 1:W3y 2:R6y";
    let (all, again) = (runs(failing, &passing), [heard_with_loops(passing[0])]);
    let told_apart_by = |apart| coupled_by_loops(&all, &heard_with_loops(failing), &again, apart, 0);
    assert_eq!(told_apart_by(Apart::Iterations), []);
    let [InStep { couple, .. }] = told_apart_by(Apart::Order)[..] else { panic!("there is one couple") };
    assert_eq!([couple.first, couple.second].map(|pair| written(all.key(pair))), ["R5-W2", "W3-R6"]);
}

/// A calm run of two rounds of a loop, and one that fails with another second round.
fn ring_runs(rounds: [&str; 2], last: &str) -> (Runs, [Collected; 2]) {
    let (calm, failing) = (rounds.join(" "), format!("{} {last}", rounds[0]));
    (runs(&failing, &[&calm]), [heard_with_loops(&failing), heard_with_loops(&calm)])
}

/// Three threads each look at the next one's flag (statement 2) and then raise their own (3), in two rounds of a loop.
#[test]
fn three_pairs_lead_round_three_threads() {
    // Each direction has come in some round, but not all three in the same.
    let rounds =
        ["1:L1 1:R2b 1:W3a 2:L1 2:R2c 2:W3b 3:L1 3:R2a 3:W3c", "3:L1 3:R2A 3:W3C 1:L1 1:R2B 1:W3A 2:L1 2:R2C 2:W3B"];
    let (all, [failing, calm]) = ring_runs(rounds, "1:L1 2:L1 3:L1 1:R2B 2:R2C 3:R2A 1:W3A 2:W3B 3:W3C");
    assert_eq!(suspects(&all, None), []);
    let [found] = rings(&all, &failing, &[calm])[..] else { panic!("one ring, of one form") };
    assert_eq!(found.pairs.map(|pair| written(all.key(pair))), ["R2-W3"; 3].map(str::to_owned));
    let threads = found.occurrences.map(|occurrence| occurrence.direction());
    assert_eq!(threads, [(1, 2), (2, 3), (3, 1)]);
    assert_eq!(rings(&all, &failing, std::slice::from_ref(&failing)), []);
}

/// The same with code of each thread's own, the first thread's behind the others'.
#[test]
fn each_pair_of_a_ring_is_told_with_the_threads_that_it_led_between() {
    let rounds =
        ["1:L1 1:R8b 1:W9a 2:L1 2:R5c 2:W6b 3:L1 3:R2a 3:W3c", "3:L1 3:R2A 3:W3C 1:L1 1:R8B 1:W9A 2:L1 2:R5C 2:W6B"];
    let (all, [failing, calm]) = ring_runs(rounds, "1:L1 2:L1 3:L1 1:R8B 2:R5C 3:R2A 1:W9A 2:W6B 3:W3C");
    let [found] = rings(&all, &failing, &[calm])[..] else { panic!("one ring") };
    let pairs = found.pairs.map(|pair| written(all.key(pair)));
    assert_eq!(pairs, ["R2-W9", "R8-W6", "R5-W3"].map(str::to_owned));
    assert_eq!(found.occurrences.map(|occurrence| occurrence.direction()), [(3, 1), (1, 2), (2, 3)]);
}

/// Threads 1 and 2 write both variables, thread 3 reads them: `x` of one and `y` of the other.
#[test]
fn a_third_thread_reads_a_mixture() {
    let passing = ["1:W1x 1:W2y 2:W4y 2:W3x 3:R5x 3:R6y", "2:W4y 2:W3x 1:W1x 1:W2y 3:R5x 3:R6y"];
    let failing = "1:W1x 2:W4y 2:W3x 1:W2y 3:R5x 3:R6y";
    let all = runs(failing, &passing);
    let texts = mixtures(&all).into_iter().map(|couple| [couple.first, couple.second].map(|id| written(all.key(id))));
    assert_eq!(texts.collect::<Vec<_>>(), [["W3-R5".to_owned(), "W2-R6".to_owned()]]);
    let known = [passing[0], passing[1], failing];
    assert_eq!(mixtures(&runs(failing, &known)), []);
    // What it lacks could have come: that is told only if nothing else is.
    assert!(missing_in_failure(&all).iter().all(|missing| missing.has_come_to_both));
}

/// Statement 9 is in a function that is called from 20 and from 30.
#[test]
fn calls_tell_instructions_apart() {
    let heard = |callers: [u64; 2]| {
        let mut collector = Collector::new(Scope::default()).with_contexts();
        for (thread, caller) in (1..).zip(callers) {
            let call = Event::Called { site: caller, target: 9, return_address: caller + 1, stack: 0x1000 };
            collector.event(thread, &call);
            tell(&mut collector, &format!("{thread}:W9x"));
            collector.event(thread, &Event::Returned { target: caller + 1 });
        }
        let mut collected = collector.into_collected();
        collected.settle_contexts();
        collected
    };
    let mut all = Runs::new(&heard([20, 30]));
    all.add_passing(&heard([30, 20]));
    assert_eq!(only_in_failure(&all).len(), 1);
    all.add_passing(&heard([20, 30]));
    assert!(only_in_failure(&all).is_empty());
}

#[test]
fn what_other_failures_have_too_is_told_first() {
    let mut all = runs("1:W1x 2:R2x 1:W3y 2:R4y", &["2:R2x 1:W1x 2:R4y 1:W3y"]);
    let told = |runs: &Runs| {
        let mut found = suspects(runs, None);
        sharpen(runs, &mut found);
        let Suspect::Pair(first) = found[0] else { panic!("{found:?}") };
        written(runs.key(first))
    };
    assert_eq!(told(&all), "W1-R2");
    all.add_failing(&heard("2:R2x 1:W1x 1:W3y 2:R4y"));
    assert_eq!(told(&all), "W3-R4");
}

#[test]
fn code_that_no_passing_run_has_come_to_is_told_last() {
    let failing = "1:W1x 2:R9x 1:W3y 2:R4y";
    assert_eq!(first_procedure(failing, &["2:R4y 1:W3y 1:W1x"]), ["W3-R4", "W1-R9"]);
    assert_eq!(first_procedure(failing, &["2:R9x 2:R4y 1:W3y 1:W1x"]), ["W1-R9", "W3-R4"]);
}

#[test]
fn passing_runs_narrow_what_is_left() {
    let calm = "2:R2x 1:W1x 2:R4y 1:W3y";
    let mut all = runs("1:W1x 2:R2x 1:W3y 2:R4y", &[calm, calm, "1:W1x 2:R2x 2:R4y 1:W3y"]);
    assert_eq!(narrowing(&mut all, Some(Procedure::I)), [(1, 2), (2, 2), (3, 1)]);
    assert_eq!(all.n_passing(), 3);
}

#[test]
fn two_threads_have_pairs_that_a_third_hides() {
    let run = "1:R1x 2:W2x 3:W3x";
    let heard = heard_by(Collector::new(Scope::default()).two_by_two(), run);
    let texts: Vec<String> =
        heard.pairs.iter().map(|pair| written(PairKey { head: pair.head, tail: pair.tail })).collect();
    assert_eq!(texts, ["R1-W2", "R1-W3", "W2-W3"]);
    assert_eq!(pairs(run), ["R1-W2", "W2-W3"]);
}

#[test]
fn a_pair_that_a_run_had_by_luck_is_rare() {
    let calm = "1:R1x 1:W2x 2:R1x 2:W2x";
    let lucky = "1:R1x 2:R1x 2:W2x 1:W2x";
    let passing = [calm, calm, calm, calm, calm, calm, lucky];
    let all = runs(lucky, &passing);
    assert_eq!(suspects(&all, None), []);
    let [Suspect::Between { into, back }] = rare(&all)[..] else { panic!("{:?}", rare(&all)) };
    assert_eq!((written(all.key(into)), written(all.key(back))), ("R1-W2".to_owned(), "W2-W2".to_owned()));
}

#[test]
fn pairs_have_the_types_of_the_table() {
    let of = |text: &str| BugType::of_pair(key(text)).map(|row| row.0);
    assert_eq!(["W1-R2", "R1-W2", "W1-W2"].map(of), [Some(1), Some(2), Some(3)]);
    let triple = |one, two, three| BugType::of_triple(end(one), end(two), end(three)).map(|row| row.0);
    assert_eq!(triple("W1", "W2", "R3"), Some(4));
    assert_eq!(triple("R1", "W2", "W3"), Some(5));
    assert_eq!(triple("R1", "W2", "R3"), Some(6));
    assert_eq!(triple("W1", "R2", "W3"), Some(7));
    assert_eq!(triple("R1", "W2", "R3"), Some(6));
    // Rows 8 to 15 by the interleavings that the table shows.
    let couples = [
        "1:R1x 2:W2x 2:R3y 1:W4y",
        "1:R1x 2:R2y 2:W3x 1:W4y",
        "1:W1x 2:R2x 2:R3y 1:W4y",
        "1:W1x 2:W2x 2:R3y 1:W4y",
        "1:W1x 2:W2x 2:W3y 1:W4y",
        "1:W1x 2:R2y 2:R3x 1:W4y",
        "1:W1x 2:R2y 2:W3x 1:W4y",
        "1:W1x 2:W2y 2:W3x 1:W4y",
    ];
    for (row, run) in (8..).zip(couples) {
        let found = heard(run).pairs;
        let [one, other] = &found[..] else { panic!("{run}: {found:?}") };
        let member = |pair: &SeenPair| (PairKey { head: pair.head, tail: pair.tail }, pair.first);
        let ((one, first), (other, second)) = (member(one), member(other));
        assert_eq!(BugType::of_couple((one, &first), (other, &second)), Some(BugType(row)), "{run}");
    }
}

#[test]
fn releases_of_blocks_are_writes_of_what_was_used() {
    let mut collector = Collector::new(Scope::default());
    collector.site(Site(0), 7);
    collector.event(1, &Event::Allocated { address: 0x1000, size: 64, site: 1 });
    let access = Access { address: 0x1010, size: 8, site: Site(0), kind: AccessKind::Read };
    collector.accesses(2, &[access]);
    collector.event(1, &Event::Freed { address: 0x1000, site: 9 });
    collector.accesses(2, &[access]);
    let found = collector.into_collected();
    let keys: Vec<PairKey> = found.pairs.iter().map(|pair| PairKey { head: pair.head, tail: pair.tail }).collect();
    assert_eq!(keys, [key("R7-W9"), key("W9-R7")]);
}

#[test]
fn what_is_out_of_scope_makes_no_pairs() {
    let scope = Scope {
        ignored_code: vec![5..6, 8..9],
        ignored_memory: vec![0x9000..0xa000, 0xf000..0xf100],
        ..Scope::default()
    };
    let mut collector = Collector::new(scope);
    [4, 5].into_iter().enumerate().for_each(|(number, pc)| collector.site(Site(number as u32), pc));
    let accesses = [(0, 0x9000), (1, 0x2000)];
    for thread in [1, 2] {
        for (site, address) in accesses {
            let access = Access { address, size: 8, site: Site(site), kind: AccessKind::Write };
            collector.accesses(thread, &[access]);
        }
    }
    assert_eq!(collector.into_collected().pairs, []);
}

#[test]
fn falcon_ranks_patterns_by_how_rarely_runs_pass_with_them() {
    let calm = "1:R1x 1:W2x 2:R1x 2:W2x";
    let failing = patterns("1:R1x 2:R1x 2:W2x 1:W2x");
    let passing = [patterns(calm), patterns(calm)];
    let ranked = ranked(&failing, &passing);
    let texts: Vec<String> = ranked.iter().map(|ranked| pattern(&ranked.seen.pattern)).collect();
    assert_eq!(texts, ["W2-W2", "R1-W2-W2"]);
    assert!(ranked.iter().all(|ranked| ranked.in_passing == 0 && (ranked.score - 1.0).abs() < 1e-9));
}

#[test]
fn falcon_drops_a_read_behind_a_write_of_the_same_thread() {
    assert_eq!(
        patterns("1:W1x 1:R2x 2:W3x 1:R4x").iter().map(|seen| pattern(&seen.pattern)).collect::<Vec<_>>(),
        ["W1-W3", "W3-R4", "W1-W3-R4"]
    );
}

fn pattern(pattern: &Pattern) -> String {
    let end = |end: &End| format!("{}{}", if end.deed == Deed::Read { 'R' } else { 'W' }, end.pc);
    pattern.0.iter().map(end).collect::<Vec<_>>().join("-")
}

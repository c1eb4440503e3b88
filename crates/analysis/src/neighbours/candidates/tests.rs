//! Histories that are written by hand.

use super::*;
use crate::neighbours::Watched;
use crate::predict::{Deed, Place};
use std::collections::BTreeMap;

fn entry(number: u64, thread: u32, kind: &str) -> Entry {
    let place = Place::new(0x100 * u64::from(thread) + number, 1);
    let (before, locks, callers) = (Place::default(), Vec::new(), Vec::new());
    let deed = Deed { thread, pc: place.pc, place, before, locks, callers, value: None };
    let (reads, writes) = (kind == "R", kind == "W");
    Entry { deed, reads, writes, is_release: false, number, ordered: BTreeMap::new() }
}

/// As "1R 2W 1R": threads and what they did.
fn history(text: &str) -> History {
    let entries = text.split(' ').enumerate().map(|(number, word)| {
        let (thread, kind) = word.split_at(1);
        entry(number as u64, thread.parse().unwrap(), kind)
    });
    History { watched: Watched { address: 0x1000, size: 8 }, block: None, entries: entries.collect() }
}

/// The patterns around the last read of thread 1, with the numbers of first, interloper and last.
fn told(text: &str) -> Vec<(String, Option<u64>, u64, u64)> {
    let history = history(text);
    let read = history.entries.iter().rfind(|entry| entry.deed.thread == 1 && entry.reads).unwrap();
    let numbers = |candidate: &Candidate<'_>| {
        let first = candidate.first.map(|first| first.number);
        (candidate.pattern(), first, candidate.interloper().number, candidate.last.number)
    };
    candidates(&history, 1, read.deed.pc, 0).iter().map(numbers).collect()
}

#[test]
fn a_write_between_two_accesses_is_told() {
    assert_eq!(told("1R 2W 1R"), [("R1W2R1".to_owned(), Some(0), 1, 2)]);
    assert_eq!(told("1W 2R 2W 1R")[0], ("W1W2R1".to_owned(), Some(0), 2, 3));
}

#[test]
fn a_write_that_nothing_of_the_reader_precedes_is_a_matter_of_two() {
    assert_eq!(told("2W 1R"), [("W2R1".to_owned(), None, 0, 1)]);
}

#[test]
fn an_update_that_was_lost_before_the_read_is_told() {
    let found = told("1R 2R 2W 1W 1R");
    assert_eq!(found, [("R1W2W1".to_owned(), Some(0), 2, 3)]);
    let history = history("2R 1R 2W 1W 1R");
    let found = candidates(&history, 1, history.entries[4].deed.pc, 0);
    assert_eq!(found[0].began.map(|began| began.number), Some(0), "what the other update began with");
}

#[test]
fn what_comes_later_may_have_been_waited_for() {
    assert_eq!(told("1R 2W"), [("R2W1".to_owned(), None, 0, 1)]);
}

#[test]
fn reads_alone_are_no_matter_of_order() {
    assert_eq!(told("1W 2R 1R"), []);
    assert_eq!(patterns(&history("1R 2R 1R 2R")), []);
}

#[test]
fn patterns_that_are_not_serial_are_found_without_a_reader() {
    let history = history("1W 2R 1W");
    let found: Vec<String> = patterns(&history).iter().map(Candidate::pattern).collect();
    assert_eq!(found, ["W1R2W1"]);
}

#[test]
fn opposite_orders_of_two_variables_are_one_candidate() {
    let rows = history("2W 1W");
    let mut log = history("1W 2W");
    log.entries.iter_mut().for_each(|entry| entry.number += 10);
    let two = around(&rows.entries, 1).unwrap();
    let others = [log];
    let found = joined(&two, &others).unwrap();
    let between: Vec<u64> = found.between.iter().map(|entry| entry.number).collect();
    assert_eq!((found.first.map(|first| first.number), between, found.last.number), (Some(0), vec![1, 10], 11));
}

#[test]
fn what_synchronisation_forces_is_no_matter_of_order() {
    let mut history = history("2W 1R");
    history.entries[1].ordered = BTreeMap::from([(2, 0)]);
    assert_eq!(candidates(&history, 1, history.entries[1].deed.pc, 0), []);
}

#[test]
fn of_several_reads_the_one_with_the_value_counts() {
    let mut history = history("1R 2W 1R 2W");
    let pc = history.entries[2].deed.pc;
    for (number, value) in [(0, 5), (2, 6)] {
        history.entries[number].deed.pc = pc;
        history.entries[number].deed.value = Some(value);
    }
    let of = |value| candidates(&history, 1, pc, value)[0].last.number;
    assert_eq!((of(5), of(6)), (1, 2));
}

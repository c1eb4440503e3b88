//! Instructions of which not every execution is told.

use super::*;
use analysis::predict::Place;

/// Thread 2 uses a pointer twice, and thread 3 clears it. In between, the instructions of thread 2 are told anew.
fn late_places(since: Option<u64>) -> Vec<Place> {
    let usage = [(2, Read(1, POINTER, OBJECT)), (2, Read(2, OBJECT, 7))];
    let between = [(2, Does::Whole(since))];
    let clearing = [(3, Write(3, POINTER, OBJECT, 0))];
    let predicted = predicted(&[&usage[..], &between, &usage, &clearing].concat());
    predicted.pairs.iter().flatten().filter(|pair| pair.kind == Kind::Null).map(|pair| pair.late.place).collect()
}

#[test]
fn executions_are_counted_since_nothing_was_left_out() {
    assert_eq!(late_places(Some(40)), [Place { pc: 0x100, time: 1, since: 40 }]);
}

#[test]
fn nobody_is_held_where_executions_were_left_out() {
    assert_eq!(late_places(None), []);
}

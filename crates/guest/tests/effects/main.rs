//! What `guest::effects` says, held against the kernel: real calls, made over memory of a known pattern.
//!
//! Each case is carried out twice, over different patterns, so that a byte which the kernel writes is seen to change
//! at least once. Every changed byte must lie in a reported span, and every reported span in memory that the case has
//! set aside for the call.
#![expect(unsafe_code, reason = "makes real system calls")]

mod arena;
mod controls;
mod events;
mod failures;
mod files;
mod interprocess;
mod messages;
mod processes;
mod scene;
mod sockets;
mod system;
mod time;

use std::collections::BTreeSet;

use arena::Case;

const ALL: &[&[Case]] = &[
    controls::CASES,
    events::CASES,
    failures::CASES,
    files::CASES,
    interprocess::CASES,
    messages::CASES,
    processes::CASES,
    sockets::CASES,
    system::CASES,
    time::CASES,
];

/// Not counting what a kernel may lack or forbid.
#[test]
fn many_calls_are_held_against_the_kernel() {
    let cases = ALL.iter().copied().flatten().filter(|case| !case.may_be_refused());
    let names: BTreeSet<_> = cases.map(|case| case.name).collect();
    assert!(names.len() >= 140, "{} calls: {names:?}", names.len());
}

fn hold(cases: &[Case]) {
    for case in cases {
        case.run();
    }
}

#[test]
fn controls() {
    hold(controls::CASES);
}

#[test]
fn events() {
    hold(events::CASES);
}

#[test]
fn failures() {
    hold(failures::CASES);
}

#[test]
fn files() {
    hold(files::CASES);
}

#[test]
fn interprocess() {
    hold(interprocess::CASES);
}

#[test]
fn messages() {
    hold(messages::CASES);
}

#[test]
fn processes() {
    hold(processes::CASES);
}

#[test]
fn sockets() {
    hold(sockets::CASES);
}

#[test]
fn system() {
    hold(system::CASES);
}

#[test]
fn time() {
    hold(time::CASES);
}

//! Every program of `conformance/`: recorded it behaves as natively, and its recording runs again the same way.

use std::ffi::OsString;

use super::exceptions::{self, Fault, GUESTS};
use super::place::{Place, logs};
use crate::every_guest_program;
use crate::support::compare::{self, Named};
use crate::support::execute::{self, Outcome};
use crate::support::{build, spec};

/// Programs that show which features they find.
const ASKING: [(&str, &str); 2] = [("insn", "avx"), ("insn", "bits_crypto")];

fn recorded_and_replayed(group: &str, name: &str) {
    let found = match record_and_replay(group, name) {
        Ok(()) => None,
        Err((fault, problem)) => Some((fault, format!("{group}::{name}: {fault:?}\n{problem}"))),
    };
    match (exceptions::find(GUESTS, group, name), found) {
        (None | Some((Fault::MayShow, _)), None) => {}
        (Some((Fault::MayShow, _)), Some((Fault::Shows, _))) => {}
        (Some((expected, _)), Some((fault, _))) if expected == fault => {}
        (_, Some((_, problem))) => panic!("{problem}"),
        (Some((_, reason)), None) => {
            panic!("{group}::{name} is well now; take it from the exceptions, which say: {reason}")
        }
    }
}

fn record_and_replay(group: &str, name: &str) -> Result<(), (Fault, String)> {
    let shows = |problem| (Fault::Shows, problem);
    let diverges = |problem| (Fault::Diverges, problem);
    let spec = spec::find(group, name).map_err(shows)?;
    let built = build::build(&spec).map_err(shows)?;
    let place = Place::new(name);
    let recording = place.path("recording");
    let native = execute::natively(&spec, &built).map_err(shows)?;
    let cpu = if ASKING.contains(&(group, name)) { &["--cpu", "native"][..] } else { &[] };
    let cpu: Vec<OsString> = cpu.iter().map(OsString::from).collect();
    let recorded = execute::recorded(&spec, &built, &recording, &cpu).map_err(shows)?;
    same(("native", &native), ("recorded", &recorded)).map_err(shows)?;
    place.not_verified(&recording).map_or(Ok(()), Err).map_err(diverges)?;
    // What several processes write comes out of several replays.
    if logs(&recording) > 1 {
        return Ok(());
    }
    same(("recorded", &recorded), ("replayed", &place.replay(&recording))).map_err(diverges)
}

fn same(left: (&str, &Outcome), right: (&str, &Outcome)) -> Result<(), String> {
    compare::difference(Named(left.0, left.1), Named(right.0, right.1)).map_or(Ok(()), Err)
}

#[test]
fn exceptions_exist() {
    for (group, name, ..) in GUESTS {
        assert!(LISTED.contains(&(group, name)), "there is no {group}::{name} any more");
    }
}

every_guest_program! { super::recorded_and_replayed }

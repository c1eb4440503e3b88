//! Every program of `conformance/`: recorded it behaves as natively, and its recording runs again the same way.

use std::ffi::OsString;

use super::place::{Place, logs};
use crate::every_guest_program;
use crate::support::compare::{self, Named};
use crate::support::execute::{self, Outcome};
use crate::support::{build, spec};

/// Programs that show which features they find.
const ASKING: [(&str, &str); 2] = [("insn", "avx"), ("insn", "bits_crypto")];

fn recorded_and_replayed(group: &str, name: &str) {
    record_and_replay(group, name).unwrap_or_else(|problem| panic!("{group}::{name}\n{problem}"));
}

fn record_and_replay(group: &str, name: &str) -> Result<(), String> {
    let spec = spec::find(group, name)?;
    let built = build::build(&spec)?;
    let place = Place::new(name);
    let recording = place.path("recording");
    let native = execute::natively(&spec, &built)?;
    let cpu = if ASKING.contains(&(group, name)) { &["--cpu", "native"][..] } else { &[] };
    let cpu: Vec<OsString> = cpu.iter().map(OsString::from).collect();
    let recorded = execute::recorded(&spec, &built, &recording, &cpu)?;
    same(("native", &native), ("recorded", &recorded))?;
    place.not_verified(&recording).map_or(Ok(()), Err)?;
    // What several processes write comes out of several replays.
    if logs(&recording) > 1 {
        return Ok(());
    }
    same(("recorded", &recorded), ("replayed", &place.replay(&recording)))
}

fn same(left: (&str, &Outcome), right: (&str, &Outcome)) -> Result<(), String> {
    compare::difference(Named(left.0, left.1), Named(right.0, right.1)).map_or(Ok(()), Err)
}

every_guest_program! { super::recorded_and_replayed }

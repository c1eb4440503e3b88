//! Whatever instruction of a good program's own is left out, with all that depends on it: the program does not crash for that.

use super::place::Place;
use crate::debian;
use crate::diagnosed::Recorded;
use crate::exhibit::Level;
use crate::memory::{Build, MemoryExhibit};
use crate::support::build::build;
use serde_json::{Value, json};
use std::fs;

/// Of each program, moments are looked at until so many runs have left something out, but not more moments than this; at each,
/// so many instructions are left out, one a run.
const ENOUGH: usize = 5;
const MOST_MOMENTS: usize = 24;
const INSTRUCTIONS: usize = 3;
/// Instructions are chosen among what the moment depends on, from so many events of the clock before.
const WINDOW: u64 = 400;
/// Where the engine puts programs; libraries lie below. Nothing can stand in for what the loader does not set up.
const PROGRAM: u64 = 0x5500_6555_4000;
/// A run may go on for so many events.
const LIMIT: u64 = 50_000_000;

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) % limit
    }
}

fn plan(steps: &Value) -> Value {
    json!({ "schema": "whodunit/plan/1", "steps": steps, "limit": LIMIT })
}

fn is_own(definition: &Value) -> bool {
    let pc = definition["pc"].as_str().and_then(|pc| u64::from_str_radix(pc.trim_start_matches("0x"), 16).ok());
    pc.is_some_and(|pc| pc >= PROGRAM)
}

/// The recorded program does not crash, whatever is left out of it. Tells how many runs left something out.
fn bears_anything(name: &str, seed: u64, rerun: &dyn Fn(&Value) -> Value) -> usize {
    let mut random = Random(seed);
    // No program has an instruction there.
    let events = rerun(&plan(&json!([{ "suppress": { "at": "0x1" } }])))["clock"].as_u64().unwrap();
    let mut n_left_out = 0;
    for _ in 0..MOST_MOMENTS {
        if n_left_out >= ENOUGH {
            break;
        }
        // The first half of a small program is the loader's.
        let clock = events / 2 + random.below(events / 2);
        let origins = json!({ "origins": { "thread": 1, "clock": clock.saturating_sub(WINDOW) } });
        let moment = rerun(&plan(&json!([origins, { "stop": { "thread": 1, "clock": clock } }])));
        let definitions = moment["origins"]["definitions"].as_array().into_iter().flatten();
        let definitions: Vec<&Value> = definitions.filter(|definition| is_own(definition)).collect();
        for _ in 0..INSTRUCTIONS.min(definitions.len()) {
            let chosen = definitions[random.below(definitions.len() as u64) as usize];
            let [thread, at, clock, time] = ["thread", "pc", "clock", "time"].map(|key| &chosen[key]);
            let plan = plan(&json!([{ "suppress":
                { "thread": thread, "at": at, "clock": clock, "time": time, "dependents": true } }]));
            let outcome = rerun(&plan);
            assert_eq!(outcome["ending"]["killed"], Value::Null, "{name} without {plan}: {outcome:#}");
            n_left_out += usize::from(outcome["origins"]["suppressed"].as_u64() > Some(0));
        }
    }
    n_left_out
}

#[test]
fn repaired_programs_bear_to_have_any_instruction_left_out() {
    let mut n_left_out = 0;
    for (seed, name) in (1..).zip(["tar_directory", "prozilla_mirrors", "polymorph_name"]) {
        let exhibit = MemoryExhibit::read(name).unwrap();
        let level = if seed % 2 == 0 { Level::O0 } else { Level::O2 };
        let spec = exhibit.spec(&exhibit.inputs[0], Build::Repaired, level).unwrap();
        let recorded = Recorded::new(&spec, &build(&spec).unwrap()).unwrap();
        n_left_out += bears_anything(name, seed, &|plan| recorded.rerun(plan).unwrap());
    }
    assert!(n_left_out >= 3 * ENOUGH, "only {n_left_out} runs left something out");
}

#[test]
fn a_program_of_debian_bears_to_have_any_instruction_left_out() {
    debian::need(&["sed"]);
    let place = Place::empty("anywhere-sed");
    fs::write(place.folder.join("text"), "the quick brown fox jumps over the lazy dog\n".repeat(400)).unwrap();
    let recorded = place.record(&["/usr/bin/sed", "y/aeiou/AEIOU/", "text"]);
    assert!(recorded.status.success());
    let n_left_out = bears_anything("sed", 9, &|plan| {
        let output = place.whodunit(&["rerun", "latest", "--json", "--plan", &plan.to_string()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{plan}: {error}: {said}"))
    });
    assert!(n_left_out >= ENOUGH, "only {n_left_out} runs left something out");
}

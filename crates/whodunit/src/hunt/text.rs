//! What a hunt has found, for people.

use super::failure::Failure;
use super::search::{Found, Group, Plan};
use crate::recordings::text::{Ink, Paint, count, escaped};
use std::fmt::Write as _;

/// `names` are those of the recordings, one for each failure.
pub fn render(found: &Found, names: &[String], plan: &Plan, paint: Paint) -> String {
    let mut text = String::new();
    for ((Failure(signature), group), name) in found.groups.iter().zip(names) {
        let _ = writeln!(text, "{}", paint.paint(Ink::Alarm, &escaped(signature)));
        let _ = writeln!(text, "  {}", occurrence(group));
        let _ = writeln!(text, "  recorded as {}", escaped(name));
        text.push('\n');
    }
    let _ = writeln!(text, "{}", paint.paint(Ink::Strong, &summary(found, plan)));
    if found.given_up > 0 {
        let _ = writeln!(text, "Given up for taking too long: {}.", count(found.given_up as usize, "schedule"));
    }
    if let (Some(name), Some(group)) = (names.first(), found.groups.values().next()) {
        text += &next_commands(name, group, plan);
    } else if found.points == 0 {
        text += "No thread wrote to memory that another one accesses.\n";
    }
    text
}

fn occurrence(group: &Group) -> String {
    let Group { times, first, seed, policy, .. } = group;
    let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
    match first {
        0 => format!("{times}, first in the program's ordinary order: it needs no luck to fail"),
        _ => format!("{times}, first in schedule {first} (policy {policy}, seed {seed})"),
    }
}

fn summary(found: &Found, plan: &Plan) -> String {
    // The ordinary run is none that was asked for.
    let schedules = found.schedules.saturating_sub(1) as usize;
    let verdict = match found.groups.len() {
        0 if found.is_stopped => "Stopped; no failure so far".to_owned(),
        0 => "No failure".to_owned(),
        failures if plan.keep_going => format!("{} found", count(failures, "different failure")),
        _ => "Failure found".to_owned(),
    };
    let seconds = found.took.as_secs_f64();
    let rate = found.schedules as f64 / seconds.max(0.001);
    format!(
        "{verdict}: {} in {seconds:.1} s ({rate:.0} a second), {} different; {}, {} at shared memory",
        count(schedules, "schedule"),
        found.different.len(),
        count(found.threads as usize, "thread"),
        count(found.points, "instruction"),
    )
}

fn next_commands(name: &str, group: &Group, plan: &Plan) -> String {
    let name = escaped(name);
    let mut text = format!("Next:\n  whodunit show {name}\n  whodunit replay {name}\n  whodunit replay --gdb {name}\n");
    if group.first == 0 {
        text += "  whodunit record -- PROG ARGS   (it fails like this without a hunt)\n";
        if !plan.has_input {
            text += "  whodunit hunt --stdin FILE -- PROG ARGS   (if it wants to read something: there was nothing)\n";
        }
    }
    text
}

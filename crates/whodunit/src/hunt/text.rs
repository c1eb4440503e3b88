//! What a hunt has found, for people.

use super::ending::Kept;
use super::episodes;
use super::failure::Failure;
use super::search::{Found, Group, Plan};
use super::shrink::Shrunk;
use crate::recordings::text::{Ink, Paint, count, escaped};
use report::findings;
use report::look::Look;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trace::finding::{Finding, Findings, Preemption};

/// `findings` and `kept` have one each for every failure.
pub fn render(found: &Found, findings: &Findings, kept: &[Kept], plan: &Plan, paint: Paint) -> String {
    let mut text = String::new();
    for (((Failure(signature), group), finding), kept) in found.groups.iter().zip(&findings.findings).zip(kept) {
        let _ = writeln!(text, "{}", paint.paint(Ink::Alarm, &escaped(signature)));
        let _ = writeln!(text, "  {}", occurrence(group));
        if let Some(shrunk) = &kept.shrunk {
            text += &schedule(finding, shrunk);
        }
        let _ = writeln!(text, "  recorded as {}", escaped(&kept.name));
        text.push('\n');
    }
    let _ = writeln!(text, "{}", paint.paint(Ink::Strong, &summary(found, plan)));
    if found.given_up > 0 {
        let _ = writeln!(text, "Given up for taking too long: {}.", count(found.given_up as usize, "schedule"));
    }
    if let (Some(kept), Some(group)) = (kept.first(), found.groups.values().next()) {
        text += &next_commands(&kept.name, group, plan);
    } else if found.points == 0 {
        text += "No thread wrote to memory that another one accesses.\n";
    }
    text
}

/// What the schedule has to do, a line each.
fn schedule(finding: &Finding, shrunk: &Shrunk) -> String {
    let (before, runs) = (shrunk.before, count(shrunk.runs as usize, "run"));
    let mut text = match episodes::of(&shrunk.answer.choices).len() {
        0 => format!("  no forced switch is needed (there were {before}; {runs} to find out)\n"),
        1 => format!("  1 forced switch of {before} is enough ({runs} to find out):\n"),
        needed => format!("  {needed} forced switches of {before} are enough ({runs} to find out):\n"),
    };
    for preemption in &finding.schedule {
        let sentence = findings::preemption(finding, &without_folders(preemption), &Look::here(false));
        let _ = writeln!(text, "    {}", escaped(&sentence));
    }
    text
}

/// Lines are short here; `--explain` has the paths.
fn without_folders(preemption: &Preemption) -> Preemption {
    let mut short = preemption.clone();
    for place in [&mut short.after, &mut short.until.passes] {
        place.file = place.file.as_deref().and_then(Path::file_name).map(PathBuf::from);
    }
    short
}

fn occurrence(group: &Group) -> String {
    let Group { times, first, seed, policy, .. } = group;
    let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
    match first {
        0 => format!("{times}, first in the program's ordinary order: it needs no luck to fail"),
        _ => format!("{times}, first in schedule {first} (policy {policy}, seed {seed})"),
    }
}

pub fn summary(found: &Found, plan: &Plan) -> String {
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

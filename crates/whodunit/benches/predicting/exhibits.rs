//! The museum: bugs of the ConMem paper, and programs that only look as if they had some.

use crate::Arguments;
use crate::answers::{ask, concerns, reports};
use crate::exhibit::{self, Exhibit, Kind, Variant};
use crate::support::build;
use std::collections::BTreeSet;
use std::path::Path;

/// Some exhibits execute their guilty lines only in other runs than the usual one.
const RUNS: &str = "20";
/// Programs without a bug are looked at in so many runs.
const CALM_RUNS: &str = "3";

/// A published bug, the exhibit that has its shape, and which of ConMem, its Race and its Atom found it.
type Published = (&'static str, &'static str, &'static str);

const PUBLISHED: [Published; 15] = [
    ("MySQL-1, figure 3", "mysql_proc_info", "yes yes yes"),
    ("MySQL-2", "mysql_two_sections", "yes no yes"),
    ("PBZIP2-1", "pbzip2_queue", "yes yes yes"),
    ("Apache-1", "apache_cache_evict", "yes no no"),
    ("Mozilla, figure 7", "mozilla_property", "no no no"),
    ("PBZIP2-2, figure 9", "pbzip2_dangling", "yes no no"),
    ("Apache-2, figure 10", "apache_log_overflow", "yes yes yes"),
    ("Cherokee", "cherokee_buffer", "yes yes yes"),
    ("Transmission, fig. 8", "transmission_bandwidth", "yes no no"),
    ("FFT", "fft_end_time", "yes no yes"),
    ("two delays", "two_delays", "untriggered - -"),
    ("control flow", "trace_switched_on", "no - -"),
    ("closed descriptor", "closed_connection", "no - -"),
    ("object on a stack", "left_frame", "no - -"),
    ("figure 4, harmless", "mozilla_statistics", "silent yes yes"),
];

pub fn print_bugs(arguments: &Arguments, place: &Path) -> Result<(), String> {
    println!(
        "{:22}{:24}{:10}{:>13}{:>8}{:>6}{:>6}   the paper's",
        "bug", "exhibit", "predicted", "false alarms", "time", "race", "atom"
    );
    for (bug, name, paper) in PUBLISHED.iter().filter(|(_, name, _)| arguments.common.wants(name)) {
        let exhibit = Exhibit::read(name)?;
        let program = build::build(&exhibit.spec(Variant::Plain)?)?.program;
        let program = program.to_string_lossy();
        let words = ["-n", RUNS, "--", &program];
        let lines: BTreeSet<u64> = exhibit.marked_lines()?.into_values().flatten().map(u64::from).collect();
        let answer = ask(place, "fatal", &words)?;
        let n_right = answer.findings.iter().filter(|finding| concerns(finding, &lines)).count();
        let verdict = if n_right > 0 { "proved" } else { "no" };
        let n_wrong = answer.findings.len() - n_right;
        let (race, atom) = (reports(place, "race", &words), reports(place, "atom", &words));
        println!("{bug:22}{name:24}{verdict:10}{n_wrong:>13}{:>6.1} s{race:>6}{atom:>6}   {paper}", answer.run.cpu);
    }
    Ok(())
}

pub fn print_calm(arguments: &Arguments, place: &Path) -> Result<(), String> {
    println!("\n{:26}{:>8}{:>8}{:>6}{:>6}", "without a bug", "alarms", "time", "race", "atom");
    let is_calm = |exhibit: &Exhibit| matches!(exhibit.kind, Kind::Lookalike | Kind::Benign);
    let mut totals = (0, 0, 0.0);
    for exhibit in
        exhibit::all()?.into_iter().filter(|exhibit| is_calm(exhibit) && arguments.common.wants(&exhibit.name))
    {
        let program = build::build(&exhibit.spec(Variant::Plain)?)?.program;
        let program = program.to_string_lossy();
        let words = ["-n", CALM_RUNS, "--", &program];
        let answer = ask(place, "fatal", &words)?;
        let (race, atom) = (reports(place, "race", &words), reports(place, "atom", &words));
        let n_alarms = answer.findings.len();
        println!("{:26}{n_alarms:>8}{:>6.1} s{race:>6}{atom:>6}", exhibit.name, answer.run.cpu);
        totals = (totals.0 + 1, totals.1 + n_alarms, totals.2 + answer.run.cpu);
    }
    println!("{:26}{:>8}{:>6.1} s", format!("all {}", totals.0), totals.1, totals.2);
    Ok(())
}

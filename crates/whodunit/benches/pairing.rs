//! What `whodunit pairs` blames, beside the LOCON paper and Falcon: `cargo bench --bench pairing [-- FILTER… --seeds N --pairs N --falcon]`
//! prints the table; `--collecting N` another one, of what it costs to hear a run.
//!
//! The bugs of the paper's table 3 and its figures, and one exhibit for each type of its table 1. Each seed is one failing run
//! against at least 50 passing ones. A finding is right if two of the exhibit's guilty lines are among its places, or one
//! and a guilty variable: of functions that were inlined, only the caller's line may be known. Coupled pairs must have guilty lines of
//! two variables, if the exhibit has any. Pairs are counted as the paper does: each pair of procedures I and II, and each set of coupled pairs of procedure III.
//! Cost is user plus system time of all processes: the runs, their replays, the comparison and the trials. Seeds with which something is
//! not as it should be are told on standard error.

#[path = "support/alone.rs"]
mod alone;
#[path = "pairing/collecting.rs"]
mod collecting;
#[path = "support/common.rs"]
mod common;
#[path = "../tests/museum/exhibit.rs"]
mod exhibit;
#[path = "support/findings.rs"]
mod findings;
#[path = "pairing/published.rs"]
mod published;
#[path = "../tests/support/mod.rs"]
mod support;

use clap::Parser;
use common::Common;
use exhibit::{Exhibit, Variant};
use findings::ask;
use published::{PUBLISHED, Published};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::build;

/// Far enough from each other that no two share a schedule's seed.
const BETWEEN_SEEDS: u64 = 1000;

/// Measures what comparing runs blames.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// How many seeds each exhibit is looked at with.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Give exhibits that can have it a shared state of so many pairs more.
    #[arg(long)]
    pairs: Option<u32>,
    /// Ask Falcon, too.
    #[arg(long)]
    falcon: bool,
    /// Measure instead what it costs to hear a run, of so many passing ones at most.
    #[arg(long)]
    collecting: Option<u64>,
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse();
    if !arguments.common.measures("pairing") {
        return Ok(());
    }
    if let Some(runs) = arguments.collecting {
        collecting::print_head();
        for published in PUBLISHED.iter().filter(|published| arguments.common.wants(published.exhibit)) {
            collecting::print_row(published.exhibit, &Bench::new(published.exhibit, arguments.pairs)?, runs)?;
        }
        return Ok(());
    }
    let falcon = if arguments.falcon { "  Falcon, the paper's" } else { "" };
    println!(
        "{:24}{:12}{:>6}{:>6}{:>4}{:>8}{:>8}  {:28}{falcon}",
        "exhibit", "the paper's", "first", "pairs", "m", "proved", "time", "by"
    );
    for published in PUBLISHED.iter().filter(|published| arguments.common.wants(published.exhibit)) {
        print_row(published, &arguments)?;
    }
    Ok(())
}

fn print_row(published: &Published, arguments: &Arguments) -> Result<(), String> {
    let bench = Bench::new(published.exhibit, arguments.pairs)?;
    let mut row = Row::default();
    for number in 0..arguments.seeds {
        let seed = number * BETWEEN_SEEDS;
        let told = bench.pairs(seed)?;
        if let Some(shortfall) = told.shortfall(published.m) {
            eprintln!("{} --seed {seed}: {shortfall}; {}", published.exhibit, told.title);
        }
        row.add(told);
    }
    let falcon = if arguments.falcon { format!("  {}, {}", bench.falcon()?, published.falcon) } else { String::new() };
    let m = published.m.map_or_else(|| "-".to_owned(), |m| m.to_string());
    println!("{:24}{:12}{}{m:>4}{}{falcon}", published.exhibit, published.bug, row.found(), row.rest());
    Ok(())
}

/// What a comparison told.
struct Told {
    is_first: bool,
    is_proved: bool,
    pairs: usize,
    by: String,
    seconds: f64,
    /// Of the first finding.
    title: String,
}

impl Told {
    /// What it falls short in, if the paper tells so many pairs.
    fn shortfall(&self, m: Option<u32>) -> Option<String> {
        let too_many = format!("{} pairs", self.pairs);
        let faults = [
            (!self.is_first, "not first"),
            (!self.is_proved, "not proved"),
            (m.is_some_and(|m| self.pairs > m as usize), too_many.as_str()),
        ];
        let faults: Vec<&str> = faults.into_iter().filter(|(is_it, _)| *is_it).map(|(_, fault)| fault).collect();
        (!faults.is_empty()).then(|| format!("{}, by {}", faults.join(", "), self.by))
    }
}

/// All seeds of an exhibit.
#[derive(Default)]
struct Row {
    told: Vec<Told>,
}

impl Row {
    fn add(&mut self, told: Told) {
        self.told.push(told);
    }

    fn of_all(&self, number: usize) -> String {
        format!("{number}/{}", self.told.len())
    }

    /// How often the right one was told first, and how many pairs were told at most.
    fn found(&self) -> String {
        let first = self.of_all(self.told.iter().filter(|told| told.is_first).count());
        let pairs = self.told.iter().map(|told| told.pairs).max().unwrap_or(0);
        format!("{first:>6}{pairs:>6}")
    }

    fn rest(&self) -> String {
        let proved = self.of_all(self.told.iter().filter(|told| told.is_proved).count());
        let seconds = self.told.iter().map(|told| told.seconds).sum::<f64>() / self.told.len().max(1) as f64;
        let mut ways: BTreeMap<&str, usize> = BTreeMap::new();
        self.told.iter().for_each(|told| *ways.entry(&told.by).or_default() += 1);
        let ways: Vec<String> = ways.iter().map(|(way, times)| format!("{way} {times}")).collect();
        format!("{proved:>8}{seconds:>6.1} s  {:28}", ways.join(", "))
    }
}

/// An exhibit that has been built, in a folder of its own.
struct Bench {
    program: PathBuf,
    place: PathBuf,
    marks: Vec<Guilty>,
    /// The accesses of the guilty order, by variable: those that have two at least.
    order: Vec<Vec<Access>>,
}

/// A mark of the exhibit.
struct Guilty {
    lines: BTreeSet<u64>,
    variable: String,
}

/// Where an access of the guilty order is made.
struct Access {
    lines: BTreeSet<u64>,
    /// The lines that call the function which it is in: all that is known of it where that was inlined.
    calls: BTreeSet<u64>,
}

impl Access {
    fn new(lines: BTreeSet<u64>, source: &str) -> Access {
        let functions: Vec<&str> = lines.iter().filter_map(|line| function_around(source, *line)).collect();
        let is_call =
            |text: &str| functions.iter().any(|name| text.starts_with(' ') && text.contains(&format!("{name}(")));
        let numbered = source.lines().zip(1..);
        let calls = numbered.filter(|(text, _)| is_call(text)).map(|(_, line)| line).collect();
        Access { lines, calls }
    }

    fn is_in(&self, finding: &Value) -> bool {
        let mut causes = finding["causes"].as_array().into_iter().flatten().filter_map(|cause| cause["line"].as_u64());
        !self.lines.is_disjoint(&lines_of(finding)) || causes.any(|line| self.calls.contains(&line))
    }
}

/// The name of the C function that a line is in: definitions begin at the left edge.
fn function_around(source: &str, line: u64) -> Option<&str> {
    let above: Vec<&str> = source.lines().take(line as usize).collect();
    let head = above.into_iter().rev().find(|text| text.contains('(') && !text.starts_with([' ', '#', '/']))?;
    head.split('(').next()?.rsplit([' ', '*']).next()
}

impl Bench {
    fn new(name: &str, pairs: Option<u32>) -> Result<Bench, String> {
        let exhibit = Exhibit::read(name)?;
        let mut spec = exhibit.spec(Variant::Plain)?;
        spec.compiler_flags.extend(pairs.map(|pairs| format!("-DPAIRS={pairs}")));
        let program = build::build(&spec)?.program;
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pairing-bench-{name}"));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        std::fs::write(place.join("expected"), &exhibit.output).map_err(|error| error.to_string())?;
        let marked = exhibit.marked_lines()?.into_iter();
        let marked: BTreeMap<String, BTreeSet<u64>> =
            marked.map(|(name, lines)| (name, lines.into_iter().map(u64::from).collect())).collect();
        let mut order: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
        for name in &exhibit.order {
            order.entry(&exhibit.marks[name].of).or_default().insert(name);
        }
        let several = order.into_values().filter(|names| names.len() > 1);
        let source = std::fs::read_to_string(exhibit.source()).map_err(|error| error.to_string())?;
        let access = |name: &String| Access::new(marked[name].clone(), &source);
        let order = several.map(|names| names.into_iter().map(access).collect()).collect();
        let guilty = |(name, lines)| Guilty { lines, variable: exhibit.marks[&name].of.clone() };
        Ok(Bench { program, place, marks: marked.into_iter().map(guilty).collect(), order })
    }

    fn ask(&self, seed: u64, options: &[&str]) -> Result<findings::Answer, String> {
        let (seed, program) = (seed.to_string(), self.program.to_string_lossy());
        let fixed = ["--seed", &seed, "--expect-output", "expected"];
        ask(&self.place, "pairs", &[&fixed, options, &["--", &program]].concat())
    }

    fn pairs(&self, seed: u64) -> Result<Told, String> {
        let answer = self.ask(seed, &[])?;
        let first = answer.findings.first();
        Ok(Told {
            is_first: first.is_some_and(|finding| self.is_guilty(finding)),
            is_proved: first.is_some_and(|finding| finding["status"] == "proved"),
            pairs: answer.findings.iter().map(n_pairs).sum(),
            by: first.map_or_else(|| "nothing".to_owned(), |finding| way(finding, &answer.summary)),
            seconds: answer.run.cpu,
            title: first.map_or("", |finding| finding["title"].as_str().unwrap_or_default()).to_owned(),
        })
    }

    /// The place of the right pattern among those that Falcon suspects, and how many are as suspicious as the first. What half of the
    /// passing runs have is no suspicion.
    fn falcon(&self) -> Result<String, String> {
        let answer = self.ask(0, &["--method", "falcon"])?;
        let suspected: Vec<&Value> = answer.findings.iter().take_while(|finding| is_suspicious(finding)).collect();
        let place = suspected.iter().position(|finding| self.is_guilty_pattern(finding));
        let highest = suspected.first().map(|finding| ground(finding));
        let ties = suspected.iter().filter(|finding| Some(ground(finding)) == highest).count();
        Ok(place.map_or_else(|| "missed".to_owned(), |place| format!("rank {} of {ties} first", place + 1)))
    }

    /// Falcon knows single locations: its patterns must have all accesses that the guilty order makes to one variable. Of one that
    /// was inlined, the caller's line will do.
    fn is_guilty_pattern(&self, finding: &Value) -> bool {
        self.order.iter().any(|accesses| accesses.iter().all(|access| access.is_in(finding)))
    }

    fn is_guilty(&self, finding: &Value) -> bool {
        let lines = lines_of(finding);
        let blamed: Vec<&Guilty> = self.marks.iter().filter(|mark| !mark.lines.is_disjoint(&lines)).collect();
        let name = finding["variable"]["name"].as_str().unwrap_or_default();
        let is_of_variable = self.marks.iter().any(|mark| name.ends_with(&mark.variable));
        let has_lines = blamed.len() >= self.marks.len().min(2) || !blamed.is_empty() && is_of_variable;
        has_lines && (!is_coupled(finding) || variables(blamed) >= variables(&self.marks).min(2))
    }
}

/// How many variables marks are about.
fn variables<'a>(marks: impl IntoIterator<Item = &'a Guilty>) -> usize {
    marks.into_iter().map(|mark| &mark.variable).collect::<BTreeSet<_>>().len()
}

/// The lines of a finding: of its causes, and of the calls that led there.
fn lines_of(finding: &Value) -> BTreeSet<u64> {
    let causes = finding["causes"].as_array().into_iter().flatten();
    let sides = finding["sides"].as_array().into_iter().flatten();
    let frames = sides.flat_map(|side| side["stack"].as_array().into_iter().flatten());
    causes.chain(frames).filter_map(|place| place["line"].as_u64()).collect()
}

fn ground(finding: &Value) -> &str {
    finding["grounds"][0].as_str().unwrap_or_default()
}

/// Whether fewer than half of the passing runs have the pattern, as in `Falcon: suspicion 0.33; 2 of 50 passing runs have it`.
fn is_suspicious(finding: &Value) -> bool {
    let numbers = ground(finding).split([' ', ';']).filter_map(|word| word.parse::<u64>().ok());
    match numbers.collect::<Vec<u64>>()[..] {
        [times, all] => 2 * times < all,
        _ => false,
    }
}

fn n_pairs(finding: &Value) -> usize {
    let ends = finding["causes"].as_array().map_or(0, Vec::len);
    if is_coupled(finding) { 1 } else { ends.saturating_sub(1) }
}

/// Whether a finding is of several pairs that belong together.
fn is_coupled(finding: &Value) -> bool {
    ground(finding).starts_with("Procedure III")
}

/// By which procedure a finding was told, and at which level.
fn way(finding: &Value, summary: &str) -> String {
    let ground = ground(finding);
    let procedure = match ground.split_once(':') {
        Some((procedure, _)) if procedure.starts_with("Procedure") => procedure.trim_start_matches("Procedure "),
        _ => "rare",
    };
    let levels = [
        (ground.contains("from one thread to another and back"), ", tid"),
        (ground.contains("iterations of loops"), ", loops"),
        (summary.contains("by who called"), ", calls"),
        (summary.contains("Every two threads"), ", two by two"),
    ];
    let levels = levels.into_iter().filter(|(is_it, _)| *is_it).map(|(_, level)| level);
    [procedure].into_iter().chain(levels).collect()
}

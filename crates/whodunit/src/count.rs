//! `run --count`: what a program executed, by thread and by function.

use crate::scene::Scene;
use engine::{Counts, Tally};
use std::collections::BTreeMap;

/// Fields are added to this schema, never renamed.
const SCHEMA: &str = "whodunit/count/1";
/// A table is for reading; the JSON has every function.
const FUNCTIONS_SHOWN: usize = 25;

type Column = (&'static str, fn(&Tally) -> u64);

const COLUMNS: [Column; 7] = [
    ("instructions", |tally| tally.instructions),
    ("loads", |tally| tally.loads),
    ("stores", |tally| tally.stores),
    ("atomics", |tally| tally.atomics),
    ("branches", |tally| tally.jumps),
    ("calls", |tally| tally.calls),
    ("returns", |tally| tally.returns),
];

/// Counts by thread, and by thread and function.
pub struct Summary {
    threads: BTreeMap<u32, Tally>,
    functions: BTreeMap<(u32, String), Tally>,
}

impl Summary {
    pub fn new(counts: &Counts, scene: &mut Scene) -> Summary {
        let mut summary = Summary { threads: BTreeMap::new(), functions: BTreeMap::new() };
        for (&(thread, pc), tally) in counts {
            summary.threads.entry(thread.0).or_default().add(tally);
            summary.functions.entry((thread.0, scene.function_at(pc))).or_default().add(tally);
        }
        summary
    }

    fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.threads.values().for_each(|tally| total.add(tally));
        total
    }

    pub fn table(&self) -> String {
        let mut text = String::from("whodunit: what this run executed\n");
        text += &line("", COLUMNS.map(|(name, _)| name.to_owned()));
        text += &row("all threads", &self.total());
        if self.threads.len() > 1 {
            for (thread, tally) in &self.threads {
                text += &row(&format!("thread {thread}"), tally);
            }
        }
        let mut functions: BTreeMap<&str, Tally> = BTreeMap::new();
        for ((_, name), tally) in &self.functions {
            functions.entry(name).or_default().add(tally);
        }
        let mut busiest: Vec<(&str, Tally)> = functions.into_iter().collect();
        busiest.sort_by_key(|(name, tally)| (std::cmp::Reverse(tally.instructions), *name));
        for (name, tally) in busiest.iter().take(FUNCTIONS_SHOWN) {
            text += &row(name, tally);
        }
        let more = busiest.len().saturating_sub(FUNCTIONS_SHOWN);
        if more > 0 {
            text += &format!("  and {more} more functions; --count=FILE lists all\n");
        }
        text
    }

    pub fn json(&self) -> String {
        let threads: Vec<String> = self
            .threads
            .iter()
            .map(|(thread, tally)| format!("    {{\"thread\": {thread}, {}}}", fields(tally)))
            .collect();
        let functions: Vec<String> = self
            .functions
            .iter()
            .map(|((thread, name), tally)| {
                format!("    {{\"thread\": {thread}, \"function\": {}, {}}}", quoted(name), fields(tally))
            })
            .collect();
        format!(
            "{{\n  \"schema\": \"{SCHEMA}\",\n  \"total\": {{{}}},\n  \"threads\": [\n{}\n  ],\n  \"functions\": [\n{}\n  ]\n}}\n",
            fields(&self.total()),
            threads.join(",\n"),
            functions.join(",\n")
        )
    }
}

fn row(name: &str, tally: &Tally) -> String {
    line(name, COLUMNS.map(|(_, value)| value(tally).to_string()))
}

fn line(name: &str, values: [String; 7]) -> String {
    let columns: String = values.iter().map(|value| format!(" {value:>12}")).collect();
    format!("  {:<28}{columns}\n", shortened(name))
}

/// Long C++ and Rust names keep their end, which tells more.
fn shortened(name: &str) -> String {
    const WIDTH: usize = 28;
    let length = name.chars().count();
    if length <= WIDTH {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(length - WIDTH + 1).collect::<String>())
    }
}

fn fields(tally: &Tally) -> String {
    COLUMNS.map(|(name, value)| format!("\"{name}\": {}", value(tally))).join(", ")
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted += &format!("\\u{:04x}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_shortened() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&format!("{}::last_part", "x".repeat(40))).chars().count(), 28);
    }

    #[test]
    fn threads_and_totals_add_up() {
        let tally = |instructions| Tally { instructions, loads: 1, ..Tally::default() };
        let summary = Summary {
            threads: BTreeMap::from([(1, tally(5)), (2, tally(7))]),
            functions: BTreeMap::from([((1, "f".to_owned()), tally(5)), ((2, "f".to_owned()), tally(7))]),
        };
        assert_eq!(summary.total().instructions, 12);
        let table = summary.table();
        assert!(table.contains("thread 2"), "{table}");
        assert!(table.lines().any(|line| line.trim_start().starts_with("f ") && line.contains(" 12 ")), "{table}");
        assert!(summary.json().contains("\"function\": \"f\", \"instructions\": 7"), "{}", summary.json());
    }
}

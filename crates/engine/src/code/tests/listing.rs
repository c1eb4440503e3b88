//! What the translator emits, as text files: guest bytes in, host code and its steps out.
//!
//! A file in `files/` opens with the case: lines of hex bytes with a comment behind `;`, and directives (`at ADDRESS`,
//! `limits INSTRUCTIONS BRANCHES`, `translate OFFSET…`, `indirect OFFSET`, `observe addresses|everything`). What follows the line `---` is the
//! expectation, which `BLESS=1 cargo test -p engine` writes anew. Addresses of the cache and displacements of context
//! slots are shown by name, so that a listing changes only when the emitted code does.

use crate::code::cache::{CodeCache, Counting, Disturbance, Exit};
use crate::code::observe::Wanted;
use crate::code::path::{GuestCode, Limits, decode_at};
use crate::code::tests::home::{Bytes, new_cache};
use crate::code::tests::names::{Names, decode_host};
use crate::context::Layout;
use iced_x86::{Formatter, IntelFormatter};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const SEPARATOR: &str = "---\n";

/// What a file asks for.
struct Case {
    code: Bytes,
    limits: Limits,
    /// What units write down.
    observed: Option<Wanted>,
    /// Offsets to translate in order, and whether as targets of indirect branches.
    heads: Vec<(u64, bool)>,
}

/// Addresses and offsets are hexadecimal, as in the listings.
fn address(word: &str) -> u64 {
    let digits = word.trim_start_matches('+').trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("`{word}` is no address: {error}"))
}

fn count(word: &str) -> usize {
    word.parse().unwrap_or_else(|error| panic!("`{word}` is no count: {error}"))
}

fn parse(text: &str) -> Case {
    let mut case = Case {
        code: Bytes { start: 0x2fff_f000_0000, bytes: Vec::new() },
        limits: Limits { instructions: 64, branches: 8 },
        observed: None,
        heads: Vec::new(),
    };
    for line in text.lines().filter(|line| !line.starts_with(';')) {
        let words: Vec<&str> = line.split(';').next().unwrap_or("").split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["at", start] => case.code.start = address(start),
            ["limits", instructions, branches] => {
                case.limits = Limits { instructions: count(instructions), branches: count(branches) };
            }
            ["observe", "addresses"] => case.observed = Some(Wanted::ADDRESSES),
            ["observe", "everything"] => case.observed = Some(Wanted::EVERYTHING),
            ["translate", offsets @ ..] => case.heads.extend(offsets.iter().map(|offset| (address(offset), false))),
            ["indirect", offset] => case.heads.push((address(offset), true)),
            bytes => case.code.bytes.extend(bytes.iter().map(|byte| {
                u8::from_str_radix(byte, 16).unwrap_or_else(|error| panic!("`{byte}` is no byte: {error}"))
            })),
        }
    }
    if case.heads.is_empty() {
        case.heads.push((0, false));
    }
    case
}

/// Translates the case in an empty cache and describes what came out.
fn describe(cache: &mut CodeCache, case: &Case) -> String {
    cache.flush();
    if let Some(wanted) = case.observed {
        cache.observe(wanted);
    }
    let mut text = String::from("guest\n");
    guest_listing(&mut text, &case.code);
    for &(offset, is_indirect) in &case.heads {
        let from = cache.memory.hot.next().next_multiple_of(16);
        let warm = cache.memory.warm.next().next_multiple_of(16);
        let pc = case.code.start + offset;
        let host = match is_indirect {
            true => cache.host_for_indirect(&case.code, pc),
            false => cache.host_for(&case.code, pc),
        };
        let names = Names::new(cache, &case.code, from);
        let _ = writeln!(text, "host +{offset:x}, entry at {}", names.host(host));
        let mut listing = Listing { cache, names, exits: Vec::new(), text: &mut text };
        listing.code(from, cache.memory.hot.next());
        listing.code(warm, cache.memory.warm.next());
        listing.exits();
    }
    text
}

fn guest_listing(text: &mut String, code: &Bytes) {
    let mut formatter = IntelFormatter::new();
    let mut pc = code.start;
    while !code.fetch(pc).is_empty() {
        let Ok(instruction) = decode_at(code, pc) else {
            let _ = writeln!(text, "  +{:<4x} no instruction", pc - code.start);
            return;
        };
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        let _ = writeln!(text, "  +{:<4x} {line}", pc - code.start);
        pc = instruction.next_ip();
    }
}

struct Listing<'a> {
    cache: &'a CodeCache,
    names: Names<'a>,
    /// Cold code that the listed code jumps to.
    exits: Vec<u64>,
    text: &'a mut String,
}

impl Listing<'_> {
    fn code(&mut self, from: u64, to: u64) {
        let mut last_step = None;
        for instruction in decode_host(from, to) {
            let here = instruction.ip();
            if let Some(step) = self.cache.find(here).filter(|step| last_step != Some(step.host)) {
                last_step = Some(step.host);
                let place = self.names.guest(step.pc);
                let _ = writeln!(self.text, "        ; {place}{}", disturbance(step.disturbance));
                if step.host != here {
                    let _ = writeln!(self.text, "        ; from {} on", self.names.host(step.host));
                }
            }
            let _ = writeln!(self.text, "  {:<5} {}", self.names.host(here), self.names.format(&instruction));
            let target = instruction.near_branch_target();
            if self.names.is_cold(target) && !self.exits.contains(&target) {
                self.exits.push(target);
            }
        }
    }

    fn exits(&mut self) {
        for cold in std::mem::take(&mut self.exits) {
            let _ = writeln!(self.text, "{}", self.names.cold(cold));
            if let Some(exit) = self.names.exit_at(cold) {
                let exit = self.exit(exit);
                let _ = writeln!(self.text, "        {exit}");
            }
            for instruction in self.names.cold_code(cold) {
                let _ = writeln!(self.text, "        {}", self.names.format(&instruction));
            }
        }
    }

    fn exit(&self, exit: Exit) -> String {
        match exit {
            Exit::Direct { target, link } => {
                format!("direct to {}, link at {}", self.names.guest(target), self.names.host(link))
            }
            Exit::SystemCall { next } => format!("system call, next is {}", self.names.guest(next)),
            Exit::Budget { pc, .. } => format!("budget at {}", self.names.guest(pc)),
            Exit::Sequel { pc } => format!("sequel at {}", self.names.guest(pc)),
            Exit::Step { pc } => format!("step at {}", self.names.guest(pc)),
            Exit::Unfetchable { pc, address } => {
                format!("unfetchable {} because of {}", self.names.guest(pc), self.names.guest(address))
            }
            Exit::Trap { pc, kind } => format!("trap at {}: {kind:?}", self.names.guest(pc)),
            other => format!("{other:?}"),
        }
    }
}

fn disturbance(disturbance: Disturbance) -> String {
    let mut text = String::new();
    if disturbance.branching {
        text += ", branching";
    }
    if disturbance.ahead > 0 {
        text += ", counted";
    }
    if let Some(register) = disturbance.spilled {
        let _ = write!(text, ", register {register} spilled");
    }
    if disturbance.components {
        text += ", components spilled";
    }
    if let Some(observed) = disturbance.observed {
        let _ = write!(text, ", {} run, {} words", observed.executed, observed.words);
        if observed.capturing {
            text += ", capturing";
        }
        if observed.scratch.is_none() {
            text += ", complete";
        }
    }
    match disturbance.counting {
        Counting::No => {}
        Counting::Loaded => text += ", budget loaded",
        Counting::Taken => text += ", budget taken",
    }
    text
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/code/tests/files");
    let entries = std::fs::read_dir(directory).expect("the cases are beside the tests");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
    files.sort();
    files
}

#[test]
fn emitted_code_is_as_listed() {
    let files = files();
    assert!(files.len() >= 25, "cases are missing");
    let is_blessing = std::env::var_os("BLESS").is_some();
    let mut wrong = String::new();
    let mut caches: Vec<(Limits, bool, CodeCache)> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable case");
        let (input, expected) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
        let case = parse(input);
        let actual = describe(cache_with(&mut caches, &case), &case);
        if is_blessing {
            std::fs::write(&file, format!("{input}{SEPARATOR}{actual}")).expect("the case can be rewritten");
        } else if actual != expected {
            let _ = writeln!(wrong, "{}: {}", file.display(), first_difference(expected, &actual));
        }
    }
    assert!(wrong.is_empty(), "`BLESS=1` accepts the new code:\n{wrong}");
}

fn cache_with<'a>(caches: &'a mut Vec<(Limits, bool, CodeCache)>, case: &Case) -> &'a mut CodeCache {
    let key = |limits: Limits, is_observed: bool| (limits.instructions, limits.branches, is_observed);
    let wanted = key(case.limits, case.observed.is_some());
    let index = caches.iter().position(|&(limits, is_observed, _)| key(limits, is_observed) == wanted);
    let index = index.unwrap_or_else(|| {
        let mut cache = new_cache(case.limits);
        cache.layout = Layout::for_listing();
        caches.push((case.limits, case.observed.is_some(), cache));
        caches.len() - 1
    });
    &mut caches[index].2
}

fn first_difference(expected: &str, actual: &str) -> String {
    let mut lines = actual.lines();
    for (number, line) in expected.lines().enumerate() {
        let got = lines.next();
        if got != Some(line) {
            return format!(
                "line {} of the expectation is\n  {line}\nbut now\n  {}",
                number + 1,
                got.unwrap_or("the end")
            );
        }
    }
    format!("the expectation lacks\n  {}", lines.next().unwrap_or("the last line's end"))
}

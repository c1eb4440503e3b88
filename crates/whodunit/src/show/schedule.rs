//! `show --schedule`: who ran when, and why it stopped.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde_json::json;
use trace::event::Switch;
use trace::{Ending, Event, Log, State};

use super::image::command_of;
use crate::recordings::ends;
use crate::recordings::text::{WIDTH, count, keep_start, width};

const LONGEST_COMMAND: usize = 50;

/// A thread's time between two switches.
struct Turn {
    thread: u32,
    first_clock: u64,
    last_clock: u64,
    /// The event that ended it.
    event: u64,
    why: String,
}

/// Returns what comes after the last event.
pub fn write(log: &Log, is_live: bool, as_json: bool) -> io::Result<Ending> {
    let mut reader = Reader::default();
    let mut cursor = log.cursor();
    while let Some(record) = cursor.next() {
        reader.note(record.number, &record.event);
    }
    let ending = cursor.ending();
    reader.finish(ending, is_live);
    let mut out = BufWriter::new(io::stdout().lock());
    match as_json {
        true => write_json(&mut out, &reader.turns)?,
        false => write_table(&mut out, log.header().id.log, &reader)?,
    }
    out.flush()?;
    Ok(ending)
}

#[derive(Default)]
struct Reader {
    command: String,
    turns: Vec<Turn>,
    /// Of every thread, where it stopped last.
    clocks: BTreeMap<u32, u64>,
    /// Of every thread, the last clock heard of. The switch away from a thread that has ended tells none.
    heard: BTreeMap<u32, u64>,
    /// Who runs, and the last clock heard of.
    now: Option<(u32, u64)>,
    last_event: u64,
    state: Option<State>,
}

impl Reader {
    fn note(&mut self, number: u64, event: &Event<'_>) {
        self.last_event = number;
        self.state = Some(ends::state_after(event));
        if let Some((thread, clock)) = event.moment() {
            let heard = self.heard.entry(thread).or_default();
            *heard = clock.max(*heard);
        }
        match event {
            Event::Start(start) => self.command = command_of(start),
            Event::Switch(switch) => self.switch(number, switch),
            _ => self.now = event.moment().or(self.now),
        }
    }

    fn switch(&mut self, event: u64, switch: &Switch) {
        let why = ends::switch_words(switch.reason);
        let clock = self.heard.get(&switch.from).copied().unwrap_or(switch.clock);
        self.end_turn(switch.from, clock, event, why);
        self.now = Some((switch.to, self.clocks.get(&switch.to).copied().unwrap_or(0)));
    }

    fn end_turn(&mut self, thread: u32, last_clock: u64, event: u64, why: String) {
        let first_clock = self.clocks.insert(thread, last_clock).unwrap_or(0);
        self.turns.push(Turn { thread, first_clock, last_clock, event, why });
    }

    /// The last turn ends with the process, or with the recording.
    fn finish(&mut self, ending: Ending, is_live: bool) {
        let state = match self.state.take() {
            Some(State::Cut) if is_live => State::Live,
            Some(state) => ends::after_ending(state, ending),
            None => return,
        };
        let (thread, clock) = self.now.unwrap_or((1, 0));
        self.end_turn(thread, clock, self.last_event, ends::words(&state));
    }
}

fn write_json(out: &mut impl Write, turns: &[Turn]) -> io::Result<()> {
    for turn in turns {
        let Turn { thread, first_clock, last_clock, event, why } = turn;
        let value =
            json!({"thread": thread, "first_clock": first_clock, "last_clock": last_clock, "event": event, "why": why});
        writeln!(out, "{value}")?;
    }
    Ok(())
}

fn write_table(out: &mut impl Write, log: u32, reader: &Reader) -> io::Result<()> {
    let turns = &reader.turns;
    let columns = Columns::fitting(turns);
    let (turn_count, threads) = (count(turns.len(), "turn"), count(columns.widths.len(), "thread"));
    let command = keep_start(&reader.command, LONGEST_COMMAND);
    writeln!(out, "Process {log}, {command}: {turn_count}, {threads}")?;
    if turns.is_empty() {
        return Ok(());
    }
    writeln!(out, "  until event  {}why it stopped", columns.heading())?;
    for turn in turns {
        writeln!(out, "  {:>11}  {}{}", turn.event, columns.cells(turn), turn.why)?;
    }
    Ok(())
}

/// A column a thread, as long as that fits; else one column for all.
struct Columns {
    widths: BTreeMap<u32, usize>,
    are_apart: bool,
}

/// Before the columns of threads, and the longest reason.
const OTHER_COLUMNS: usize = 15 + 18;

impl Columns {
    fn fitting(turns: &[Turn]) -> Columns {
        let mut widths = BTreeMap::new();
        for turn in turns {
            let widest = widths.entry(turn.thread).or_insert_with(|| width(&thread_name(turn.thread)));
            *widest = width(&clocks(turn)).max(*widest);
        }
        let total: usize = widths.values().map(|width| width + 2).sum();
        Columns { are_apart: total + OTHER_COLUMNS <= WIDTH, widths }
    }

    fn heading(&self) -> String {
        match self.are_apart {
            true => self.widths.iter().map(|(&thread, &width)| format!("{:<width$}  ", thread_name(thread))).collect(),
            false => self.together("thread", "clock"),
        }
    }

    fn cells(&self, turn: &Turn) -> String {
        if !self.are_apart {
            return self.together(&thread_name(turn.thread), &clocks(turn));
        }
        let cell = |(&thread, &width): (&u32, &usize)| {
            let text = if thread == turn.thread { clocks(turn) } else { String::new() };
            format!("{text:<width$}  ")
        };
        self.widths.iter().map(cell).collect()
    }

    fn together(&self, thread: &str, clocks: &str) -> String {
        let widest = self.widths.values().copied().max().unwrap_or(0);
        format!("{thread:<8}  {clocks:<widest$}  ")
    }
}

fn thread_name(thread: u32) -> String {
    format!("T{thread}")
}

fn clocks(turn: &Turn) -> String {
    format!("{}..{}", turn.first_clock, turn.last_clock)
}

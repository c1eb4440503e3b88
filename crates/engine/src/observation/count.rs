//! Counting what a run executes, from records or one instruction after the other.

use super::{Batch, Observer};
use crate::code::observe::{AccessKind, Catalogue, RecordFacts, SiteKind, access_kind, site_kind};
use guest::instruction::{memory_used, repeats};
use iced_x86::{Instruction, InstructionInfoFactory};
use sched::ThreadId;
use std::collections::BTreeMap;

/// Executions of one instruction and what they did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub instructions: u64,
    pub loads: u64,
    pub stores: u64,
    pub atomics: u64,
    pub jumps: u64,
    pub calls: u64,
    pub returns: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.combine(other, u64::wrapping_add);
    }

    fn subtract(&mut self, other: &Tally) {
        self.combine(other, u64::wrapping_sub);
    }

    fn combine(&mut self, other: &Tally, with: fn(u64, u64) -> u64) {
        self.instructions = with(self.instructions, other.instructions);
        self.loads = with(self.loads, other.loads);
        self.stores = with(self.stores, other.stores);
        self.atomics = with(self.atomics, other.atomics);
        self.jumps = with(self.jumps, other.jumps);
        self.calls = with(self.calls, other.calls);
        self.returns = with(self.returns, other.returns);
    }

    fn access(&mut self, kind: AccessKind, times: u64) {
        match kind {
            AccessKind::Load => self.loads += times,
            AccessKind::Store => self.stores += times,
            AccessKind::Atomic => self.atomics += times,
            AccessKind::Update => {
                self.loads += times;
                self.stores += times;
            }
        }
    }

    fn site(&mut self, kind: SiteKind, times: u64) {
        self.instructions += times;
        match kind {
            SiteKind::Plain => {}
            SiteKind::Jump => self.jumps += times,
            SiteKind::Call => self.calls += times,
            SiteKind::Return => self.returns += times,
        }
    }
}

/// What a run executed, by thread and instruction.
pub type Counts = BTreeMap<(ThreadId, u64), Tally>;

/// Counts from records: how often each was written, and the elements of repeated instructions.
#[derive(Default)]
pub struct Counter {
    threads: BTreeMap<ThreadId, ThreadCounter>,
}

#[derive(Default)]
struct ThreadCounter {
    /// By record number.
    records: Vec<u64>,
    /// Elements moved by the repeated instruction at (unit, index).
    elements: BTreeMap<(u32, u16), u64>,
    /// Instructions that were written down but faulted.
    retracted: BTreeMap<(u32, u16), u64>,
    last: Option<RecordFacts>,
}

impl Observer for Counter {
    fn batch(&mut self, batch: &Batch<'_>) {
        let counter = self.threads.entry(batch.thread).or_default();
        counter.records.resize(batch.catalogue.records().len(), 0);
        for (number, facts, words) in batch.records() {
            counter.record(batch.catalogue, number, facts, words);
        }
    }
}

impl ThreadCounter {
    fn record(&mut self, catalogue: &Catalogue, number: u64, facts: RecordFacts, words: &[u64]) {
        if facts.retracts {
            if let Some(last) = self.last {
                *self.retracted.entry((last.unit, last.executed - 1)).or_default() += 1;
            }
            return;
        }
        self.records[number as usize] += 1;
        self.last = Some(facts);
        let unit = catalogue.unit(facts.unit);
        if !unit.repeats {
            return;
        }
        for (index, site) in unit.sites.iter().enumerate().take(usize::from(facts.executed)) {
            if let Some(repeat) = site.repeat {
                *self.elements.entry((facts.unit, index as u16)).or_default() += repeat.elements(words);
            }
        }
    }
}

impl Counter {
    /// Spreads the counts over the instructions.
    pub fn counts(&self, catalogue: &Catalogue) -> Counts {
        let mut counts = Counts::new();
        for (&thread, counter) in &self.threads {
            for (number, &times) in counter.records.iter().enumerate().filter(|&(_, &times)| times != 0) {
                let facts = catalogue.record(number as u64);
                for index in 0..facts.executed {
                    let (pc, tally) = once(catalogue, facts.unit, index, times);
                    counts.entry((thread, pc)).or_default().add(&tally);
                }
            }
            for (&(unit, index), &elements) in &counter.elements {
                let site = catalogue.unit(unit).sites[usize::from(index)];
                let mut tally = Tally::default();
                for access in catalogue.unit(unit).accesses.iter().filter(|access| access.instruction == index) {
                    tally.access(access.kind, elements);
                }
                counts.entry((thread, site.pc)).or_default().add(&tally);
            }
            for (&(unit, index), &times) in &counter.retracted {
                let (pc, tally) = once(catalogue, unit, index, times);
                counts.entry((thread, pc)).or_default().subtract(&tally);
            }
        }
        counts.retain(|_, tally| *tally != Tally::default());
        counts
    }
}

/// The tally of an instruction of a unit executed `times` times, without the elements of repeats.
fn once(catalogue: &Catalogue, unit: u32, index: u16, times: u64) -> (u64, Tally) {
    let unit = catalogue.unit(unit);
    let site = unit.sites[usize::from(index)];
    let mut tally = Tally::default();
    tally.site(site.kind, times);
    if site.repeat.is_none() {
        for access in unit.accesses.iter().filter(|access| access.instruction == index) {
            tally.access(access.kind, times);
        }
    }
    (site.pc, tally)
}

/// Counts one instruction after the other.
#[derive(Default)]
pub struct StepCounter {
    counts: Counts,
}

impl StepCounter {
    /// The instruction has run; `elements` is how far its repeat count went down.
    pub fn executed(&mut self, thread: ThreadId, instruction: &Instruction, elements: u64) {
        let tally = self.counts.entry((thread, instruction.ip())).or_default();
        tally.site(site_kind(instruction), 1);
        let times = if repeats(instruction) { elements } else { 1 };
        let mut factory = InstructionInfoFactory::new();
        for used in memory_used(factory.info(instruction), instruction) {
            tally.access(access_kind(instruction, used), times);
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }
}

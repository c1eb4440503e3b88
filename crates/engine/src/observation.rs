//! Observing a run: per-thread buffers that translated code fills, and who reads them.
#![allow(unsafe_code)]

use crate::code::observe::{AccessKind, Catalogue, RecordFacts, SiteKind, access_kind, site_kind};
use crate::context::Context;
use guest::instruction::{memory_used, repeats};
use iced_x86::{Instruction, InstructionInfoFactory};
use sched::ThreadId;
use std::collections::BTreeMap;

/// How much of a run is to be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Observation {
    #[default]
    Nothing,
    /// Everything is written down and thrown away: for measuring what observation costs.
    Discard,
    /// Executed instructions and accesses are counted.
    Count,
    /// The same, one instruction at a time: slow, and right by inspection.
    CountBySteps,
}

/// Records of one thread, in program order.
pub struct Batch<'a> {
    pub thread: ThreadId,
    pub words: &'a [u64],
    pub catalogue: &'a Catalogue,
}

impl Batch<'_> {
    /// Every record with its own words.
    pub fn records(&self) -> impl Iterator<Item = (u64, RecordFacts, &[u64])> {
        let mut rest = self.words;
        std::iter::from_fn(move || {
            let number = *rest.first()?;
            let facts = self.catalogue.record(number);
            let (record, after) = rest.split_at(usize::from(facts.words));
            rest = after;
            Some((number, facts, record))
        })
    }
}

/// Who reads batches. Called by the thread with the turn, before it gives the turn up.
pub trait Observer: Send {
    fn batch(&mut self, batch: &Batch<'_>);
}

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
            if let Some((before, after)) = site.repeat {
                let moved = words[usize::from(before)].wrapping_sub(words[usize::from(after)]);
                *self.elements.entry((facts.unit, index as u16)).or_default() += moved;
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
        for used in memory_used(&mut factory, instruction) {
            tally.access(access_kind(instruction, used), times);
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }
}

const BUFFER: u64 = 1 << 20;
/// Behind the buffer: more than any record, never accessible.
const GUARD: u64 = 64 << 10;

/// Gives the thread a buffer.
pub fn open_buffer(context: &mut Context) {
    // SAFETY: fresh mappings of our own; the last part is made inaccessible, so that running over the end faults.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let start = libc::mmap(std::ptr::null_mut(), (BUFFER + GUARD) as usize, protection, flags, -1, 0);
        assert!(start != libc::MAP_FAILED, "no memory is left for a trace buffer");
        libc::mprotect(start.add(BUFFER as usize), GUARD as usize, libc::PROT_NONE);
        context.trace_start = start as u64;
    }
    context.trace_next = context.trace_start;
}

pub fn close_buffer(context: &mut Context) {
    if context.trace_start != 0 {
        // SAFETY: mapped by `open_buffer`; the thread runs no guest code any more.
        unsafe { libc::munmap(context.trace_start as *mut libc::c_void, (BUFFER + GUARD) as usize) };
        context.trace_start = 0;
        context.trace_next = 0;
    }
}

/// Whether the address is where a record runs over the end of the thread's buffer.
pub fn is_overrun(context: &Context, address: u64) -> bool {
    let end = context.trace_start + BUFFER;
    context.trace_start != 0 && (end..end + GUARD).contains(&address)
}

/// The complete records in the thread's buffer.
pub fn take_words(context: &mut Context) -> &'static [u64] {
    let length = (context.trace_next - context.trace_start) / 8;
    context.trace_next = context.trace_start;
    // SAFETY: the words were written by this thread's translated code, which does not run until they have been read.
    unsafe { std::slice::from_raw_parts(context.trace_start as *const u64, length as usize) }
}

/// Moves what an unfinished record that begins at `pointer` has in the buffer to the buffer's start.
pub fn move_to_start(context: &Context, pointer: u64) {
    let length = (context.trace_start + BUFFER).saturating_sub(pointer);
    // SAFETY: both ranges lie in the thread's buffer; they may overlap.
    unsafe { std::ptr::copy(pointer as *const u8, context.trace_start as *mut u8, length as usize) };
}

/// Ends a record whose unit did not come to its end; there must be room for its first word.
pub fn end_record(context: &mut Context, number: u32, words: u16) {
    // SAFETY: the record's first word is where the unit would have written it itself.
    unsafe { (context.trace_next as *mut u64).write(u64::from(number)) };
    context.trace_next += 8 * u64::from(words);
}

/// Whether one more word fits.
pub fn has_room(context: &Context) -> bool {
    context.trace_next + 8 <= context.trace_start + BUFFER
}

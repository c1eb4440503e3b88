//! Which accesses around a read may have come in the wrong order.

use super::history::{Entry, History};
use crate::predict::Held;
use std::collections::{BTreeMap, BTreeSet};
use trace::stream::Thread;

/// Of each piece of memory, so many patterns are told.
const MOST_PATTERNS: usize = 3;

/// Accesses of one thread with accesses of another between or before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// What the first thread did before the other came.
    pub first: Option<&'a Entry>,
    /// What the other thread did then; at least one.
    pub between: Vec<&'a Entry>,
    /// What the first thread did after it.
    pub last: &'a Entry,
    /// The other thread's read that its deeds between began with, if it came before `first`.
    pub began: Option<&'a Entry>,
    /// Of two pieces of memory that belong together, the history of the second.
    pub joins: Option<&'a History>,
}

impl<'a> Candidate<'a> {
    /// The access between that the other two had to do without: the last write, the release of a block before all others.
    pub fn interloper(&self) -> &'a Entry {
        let writes = || self.between.iter().copied().rev().filter(|entry| entry.writes);
        let release = writes().find(|entry| entry.is_release);
        release.or_else(|| writes().next()).or(self.between.last().copied()).unwrap_or(self.last)
    }

    /// Whether synchronisation leaves the order of the interloper and one of the others open.
    pub fn is_race(&self) -> bool {
        let interloper = self.interloper();
        let races = self.first.is_some_and(|first| first.races_with(interloper)) || interloper.races_with(self.last);
        races && self.joins.is_none()
    }

    /// As R1W2R1; an access that reads and writes is a write.
    pub fn pattern(&self) -> String {
        let letter = |entry: &Entry| if entry.writes { 'W' } else { 'R' };
        let first = self.first.map_or_else(String::new, |first| format!("{}1", letter(first)));
        format!("{first}{}2{}1", letter(self.interloper()), letter(self.last))
    }

    /// Whether one thread's update is lost by another's, since it was made of what was read before: no program wants that.
    pub fn is_lost_update(&self, history: &History) -> bool {
        let (interloper, last) = (self.interloper(), self.last);
        let is_between = |entry: &&Entry| interloper.number < entry.number && entry.number < last.number;
        let since = history.entries.iter().filter(is_between).chain([last]);
        let is_read_again = since.into_iter().any(|entry| entry.deed.thread == last.deed.thread && entry.reads);
        let is_update = self.first.is_some_and(|first| first.reads) && interloper.writes && last.writes;
        is_update && self.joins.is_none() && !is_read_again
    }

    /// Whether a third thread has written in between, too: that stays there if what the other one did comes after the last.
    pub fn is_crowded(&self, history: &History) -> bool {
        let (last, other) = (self.last, self.interloper().deed.thread);
        self.first.is_some_and(|first| {
            let between =
                history.entries.iter().filter(|entry| first.number < entry.number && entry.number < last.number);
            between.into_iter().any(|entry| entry.writes && ![last.deed.thread, other].contains(&entry.deed.thread))
        })
    }

    /// The instructions that come in this order.
    pub fn instructions(&self) -> (Option<u64>, u64, u64) {
        (self.first.map(|first| first.deed.pc), self.interloper().deed.pc, self.last.deed.pc)
    }

    /// Whether the order may be the matter. It may not where synchronisation leaves no other one, and hardly where two threads
    /// ran the same statements one after the other, without loss.
    fn is_likely(&self, history: &History) -> bool {
        let interloper = self.interloper();
        let (one, other) = (&interloper.deed, &self.last.deed);
        let is_taken_alike = |held: &Held| other.locks.iter().any(|same| same.taken.pc == held.taken.pc);
        let is_same = one.pc == other.pc || one.barred_by(other).is_some_and(is_taken_alike);
        !interloper.is_before(self.last) && (self.is_race() || !is_same || self.is_lost_update(history))
    }
}

/// What may have come in the wrong order around the read of a thread at an instruction, the likeliest first. If it was read
/// several times, the last time with this value counts.
pub fn candidates(history: &History, thread: Thread, pc: u64, value: u64) -> Vec<Candidate<'_>> {
    let entries = &history.entries;
    let Some(read) = meant(entries, thread, pc, value) else { return Vec::new() };
    let written = entries[..read].iter().rposition(|entry| entry.writes);
    let mut found: Vec<Candidate<'_>> = Vec::new();
    let is_foreign = |write: usize| entries[write].deed.thread != thread;
    found.extend(around(entries, read).filter(|_| written.is_some_and(is_foreign)));
    // What the value was made of may have been old already.
    let matters =
        |candidate: &Candidate<'_>| candidate.interloper().writes || candidate.first.is_some_and(|first| first.writes);
    found.extend(written.and_then(|write| around(entries, write)).filter(matters));
    found.extend(outdated(entries, read));
    found.extend(too_soon(entries, read));
    found.retain(|candidate| candidate.is_likely(history));
    found
}

fn meant(entries: &[Entry], thread: Thread, pc: u64, value: u64) -> Option<usize> {
    let is_meant = |entry: &Entry| entry.deed.thread == thread && entry.reads && entry.deed.pc == pc;
    let with_value = entries.iter().rposition(|entry| is_meant(entry) && entry.deed.value == Some(value));
    with_value.or_else(|| entries.iter().rposition(is_meant))
}

/// The read of a thread at an instruction, if nobody has written before: the thread may have come too early. What libraries wrote
/// counts for nothing (an allocator clears a block), and neither does a read that an update begins with.
pub fn unwritten(history: &History, thread: Thread, pc: u64, value: u64) -> Option<&Entry> {
    let entries = &history.entries;
    let read = meant(entries, thread, pc, value)?;
    let is_own = |entry: &Entry| entry.deed.pc == entry.deed.place.pc;
    let is_written = entries[..read].iter().any(|entry| entry.writes && is_own(entry));
    let next = entries[read + 1..].iter().find(|entry| entry.deed.thread == thread);
    let is_updated = entries[read].writes || next.is_some_and(|next| next.writes);
    (!is_written && !is_updated && is_own(&entries[read])).then_some(&entries[read])
}

/// How many times the same instructions came in the order of a candidate, each time with another deed between.
pub fn times(history: &History, candidate: &Candidate<'_>) -> usize {
    let all = (0..history.entries.len()).filter_map(|last| around(&history.entries, last));
    let same = all.filter(|other| other.instructions() == candidate.instructions());
    same.map(|other| other.interloper().number).collect::<BTreeSet<u64>>().len()
}

/// Whether one of the accesses lacks a lock that most others to the same memory are made with.
pub fn is_careless(history: &History, candidate: &Candidate<'_>) -> bool {
    let mut holders: BTreeMap<u64, usize> = BTreeMap::new();
    for held in history.entries.iter().flat_map(|entry| &entry.deed.locks) {
        *holders.entry(held.object).or_default() += 1;
    }
    let usual = holders.into_iter().filter(|(_, count)| 2 * count > history.entries.len()).map(|(lock, _)| lock);
    let told = || candidate.first.into_iter().chain([candidate.interloper(), candidate.last]);
    let lacks = |lock: u64| told().any(|entry| !entry.deed.locks.iter().any(|held| held.object == lock));
    usual.into_iter().any(lacks)
}

/// Accesses of one thread between two of another that are not as if they had come before or after, the latest first. Of what the
/// other did afterwards, its first write counts, with which an update ends, or else the first read.
pub fn patterns(history: &History) -> Vec<Candidate<'_>> {
    let entries = &history.entries;
    let all = (0..entries.len()).filter_map(|last| around(entries, last));
    let is_broken = |candidate: &Candidate<'_>| {
        let writes = candidate.interloper().writes;
        candidate.first.is_some_and(|first| {
            if writes { !(first.writes && candidate.last.writes) } else { first.writes && candidate.last.writes }
        })
    };
    let mut found: BTreeMap<(u64, Option<u64>), Candidate<'_>> = BTreeMap::new();
    for candidate in all.filter(|candidate| is_broken(candidate) && candidate.is_likely(history)) {
        let key = (candidate.interloper().number, candidate.first.map(|first| first.number));
        let is_better = |known: &Candidate<'_>| candidate.last.writes && !known.last.writes;
        if found.get(&key).is_none_or(is_better) {
            found.insert(key, candidate);
        }
    }
    found.into_values().rev().take(MOST_PATTERNS).collect()
}

/// A value that another thread changed before the reader had stored what it made of it, without a lock that both hold.
fn outdated(entries: &[Entry], read: usize) -> Option<Candidate<'_>> {
    let thread = entries[read].deed.thread;
    let next = entries[read + 1..].iter().position(|entry| entry.deed.thread == thread)?;
    let found = around(entries, read + 1 + next)?;
    let is_outdated = found.first == Some(&entries[read]) && found.interloper().writes && found.last.writes;
    (is_outdated && found.is_race()).then_some(found)
}

/// A value that another thread wrote only after the read, which waited for it then.
fn too_soon(entries: &[Entry], read: usize) -> Option<Candidate<'_>> {
    let thread = entries[read].deed.thread;
    let last = entries[read..].iter().find(|entry| entry.deed.thread != thread && entry.writes)?;
    Some(Candidate { first: None, between: vec![&entries[read]], last, began: None, joins: None })
}

/// The deeds of one other thread right before an access, and what came before them.
fn around(entries: &[Entry], last: usize) -> Option<Candidate<'_>> {
    let thread = entries[last].deed.thread;
    let is_foreign = |entry: &Entry| entry.deed.thread != thread && (entry.writes || entries[last].writes);
    let end = entries[..last].iter().rposition(is_foreign)?;
    let other = entries[end].deed.thread;
    let first = entries[..end].iter().rposition(|entry| entry.deed.thread == thread);
    let region = first.map_or(0, |first| first + 1);
    let stranger = entries[region..=end].iter().rposition(|entry| entry.deed.thread != other);
    let begin = stranger.map_or(region, |position| region + position + 1);
    let before = entries[..begin].iter().rev().find(|entry| entry.deed.thread == other);
    let began = before.filter(|entry| entry.reads && !entry.writes);
    let between = entries[begin..=end].iter().collect();
    Some(Candidate { first: first.map(|first| &entries[first]), between, last: &entries[last], began, joins: None })
}

/// Two pieces of memory that two threads came to in different orders: what the second thread did to both lies between what the
/// first one did to each.
pub fn joined<'a>(candidate: &Candidate<'a>, others: &'a [History]) -> Option<Candidate<'a>> {
    let (first, second) = (candidate.interloper(), candidate.last);
    // What libraries do is not what people think of as belonging together.
    let is_own = |entry: &&Entry| entry.number > second.number && entry.deed.pc == entry.deed.place.pc;
    others.iter().find_map(|other| {
        let of = |thread| other.entries.iter().filter(is_own).filter(move |entry| entry.deed.thread == thread);
        let middle = of(second.deed.thread).next()?;
        let mut later = of(first.deed.thread).filter(|entry| entry.number > middle.number);
        let last = later.find(|last| last.writes || middle.writes)?;
        let end = of(second.deed.thread).take_while(|entry| entry.number < last.number).last()?;
        Some(Candidate { first: Some(first), between: vec![second, end], last, began: None, joins: Some(other) })
    })
}

#[cfg(test)]
mod tests;

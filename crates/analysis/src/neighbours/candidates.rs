//! Which accesses around a read may have come in the wrong order.

use super::history::{Entry, History};
use trace::stream::Thread;

/// Accesses of one thread with accesses of another between or before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// What the first thread did before the other came.
    pub first: Option<&'a Entry>,
    /// What the other thread did then, without a pause by the first; at least one.
    pub between: &'a [Entry],
    /// What the first thread did after it.
    pub last: &'a Entry,
    /// The other thread's read that its deeds between began with, if it came before `first`.
    pub began: Option<&'a Entry>,
}

impl<'a> Candidate<'a> {
    /// The access between that the other two had to do without: the last write, the release of a block before all others.
    pub fn interloper(&self) -> &'a Entry {
        let writes = || self.between.iter().rev().filter(|entry| entry.writes);
        let release = writes().find(|entry| entry.is_release);
        release.or_else(|| writes().next()).or(self.between.last()).unwrap_or(self.last)
    }

    /// Whether synchronisation leaves the order of the interloper and one of the others open.
    pub fn is_race(&self) -> bool {
        let interloper = self.interloper();
        self.first.is_some_and(|first| first.races_with(interloper)) || interloper.races_with(self.last)
    }

    /// As R1W2R1; an access that reads and writes is a write.
    pub fn pattern(&self) -> String {
        let letter = |entry: &Entry| if entry.writes { 'W' } else { 'R' };
        let first = self.first.map_or_else(String::new, |first| format!("{}1", letter(first)));
        format!("{first}{}2{}1", letter(self.interloper()), letter(self.last))
    }
}

/// What may have come in the wrong order around the read of a thread at an instruction, the likeliest first.
pub fn candidates<'a>(history: &'a History, thread: Thread, pc: u64) -> Vec<Candidate<'a>> {
    let entries = &history.entries;
    let is_meant = |entry: &Entry| entry.deed.thread == thread && entry.reads && entry.deed.pc == pc;
    let Some(read) = entries.iter().rposition(is_meant) else { return Vec::new() };
    let Some(write) = entries[..read].iter().rposition(|entry| entry.writes) else { return Vec::new() };
    let mut found: Vec<Candidate<'a>> = Vec::new();
    found.extend(around(entries, read).filter(|candidate| candidate.interloper().writes));
    // What the value was made of may have been old already.
    let read_too =
        |candidate: &Candidate<'_>| candidate.interloper().writes || candidate.first.is_some_and(|first| first.writes);
    found.extend(around(entries, write).filter(read_too));
    found
}

/// The deeds of one other thread right before an access, and what came before them.
fn around(entries: &[Entry], last: usize) -> Option<Candidate<'_>> {
    let thread = entries[last].deed.thread;
    let end =
        entries[..last].iter().rposition(|entry| entry.deed.thread != thread && is_conflict(entry, &entries[last]))?;
    let other = entries[end].deed.thread;
    let first = entries[..end].iter().rposition(|entry| entry.deed.thread == thread);
    let region = first.map_or(0, |first| first + 1);
    let begin = entries[region..=end]
        .iter()
        .rposition(|entry| entry.deed.thread != other)
        .map_or(region, |position| region + position + 1);
    let before = entries[..begin].iter().rev().find(|entry| entry.deed.thread == other);
    let began = before.filter(|entry| entry.reads && !entry.writes);
    Some(Candidate {
        first: first.map(|first| &entries[first]),
        between: &entries[begin..=end],
        last: &entries[last],
        began,
    })
}

fn is_conflict(one: &Entry, other: &Entry) -> bool {
    one.writes || other.writes
}

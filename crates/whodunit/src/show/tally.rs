//! How many events of each kind there are, and of each system call.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use trace::Event;

use super::calls;

#[derive(Clone, Copy, Default)]
pub struct Count {
    pub events: u64,
    /// Bytes of memory, of files and of output that came with them, before compression.
    pub data: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.events += other.events;
        self.data = self.data.saturating_add(other.data);
    }
}

#[derive(Clone, Default)]
pub struct Tally {
    pub kinds: BTreeMap<&'static str, Count>,
    /// By number.
    pub calls: BTreeMap<u32, Count>,
}

impl Tally {
    pub fn add(&mut self, event: &Event<'_>) {
        let one = Count { events: 1, data: data(event) };
        self.kinds.entry(kind(event)).or_default().add(one);
        if let Event::Call(call) = event {
            self.calls.entry(call.number).or_default().add(one);
        }
    }

    pub fn merge(&mut self, other: &Tally) {
        for (kind, count) in &other.kinds {
            self.kinds.entry(kind).or_default().add(*count);
        }
        for (number, count) in &other.calls {
            self.calls.entry(*number).or_default().add(*count);
        }
    }

    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.kinds.values().for_each(|count| total.add(*count));
        total
    }

    /// The most frequent first.
    pub fn kinds_by_count(&self) -> Vec<(&'static str, Count)> {
        let mut kinds: Vec<_> = self.kinds.iter().map(|(kind, count)| (*kind, *count)).collect();
        kinds.sort_by_key(|(kind, count)| (Reverse(count.events), *kind));
        kinds
    }

    /// By name, the most frequent first.
    pub fn calls_by_count(&self) -> Vec<(String, Count)> {
        let mut calls: Vec<_> = self.calls.iter().map(|(number, count)| (calls::name(*number), *count)).collect();
        calls.sort_by(|(a, left), (b, right)| (Reverse(left.events), a).cmp(&(Reverse(right.events), b)));
        calls
    }
}

pub fn kind(event: &Event<'_>) -> &'static str {
    match event {
        Event::Start(_) => "start",
        Event::File(_) => "file",
        Event::Map(_) => "map",
        Event::Memory(_) => "memory",
        Event::Call(_) => "call",
        Event::Switch(_) => "switch",
        Event::Signal(_) => "signal",
        Event::Instruction(_) => "instruction",
        Event::Thread(_) => "thread",
        Event::ThreadEnd(_) => "thread-end",
        Event::Fork(_) => "fork",
        Event::Exec(_) => "exec",
        Event::Output(_) => "output",
        Event::Hash(_) => "hash",
        Event::Note(_) => "note",
        Event::End(_) => "end",
        Event::Registers(_) => "registers",
        Event::Stream(_) => "stream",
        Event::Change(_) => "change",
        Event::Points(_) => "points",
        Event::Time(_) => "time",
        Event::Unknown { .. } => "unknown",
    }
}

fn data(event: &Event<'_>) -> u64 {
    let bytes = match event {
        Event::Map(map) => map.content.map_or(0, <[u8]>::len),
        Event::Memory(memory) => memory.bytes.len(),
        Event::Call(call) => call.effects.iter().map(|effect| effect.bytes.len()).sum(),
        Event::Output(output) => output.bytes.len(),
        Event::Change(change) => change.bytes.len(),
        _ => 0,
    };
    bytes as u64
}

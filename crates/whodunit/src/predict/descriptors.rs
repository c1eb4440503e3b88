//! Whether threads share descriptors at all: the recording tells without a replay.

use std::collections::{BTreeMap, BTreeSet};
use trace::Recording;
use trace::event::{Call, Event};

/// The number of `close`.
const CLOSE: u32 = 3;

/// Whether a thread has closed what another one has used.
pub fn are_shared(recording: &Recording, log: u32) -> bool {
    let Ok(log) = recording.log(log) else { return false };
    let mut users = Users::default();
    let mut cursor = log.cursor();
    while let Some(record) = cursor.next() {
        if let Event::Call(call) = record.event
            && users.meets(&call)
        {
            return true;
        }
    }
    false
}

#[derive(Default)]
struct Users {
    /// The threads that have used a descriptor since it was opened.
    threads: BTreeMap<u64, BTreeSet<u32>>,
}

impl Users {
    /// Whether a call closes what another thread has used.
    fn meets(&mut self, call: &Call<'_>) -> bool {
        let Some(arguments) = call.arguments.filter(|_| call.result >= 0) else { return false };
        let descriptor = arguments[0] & 0xffff_ffff;
        if call.number == CLOSE {
            let users = self.threads.remove(&descriptor).unwrap_or_default();
            return users.iter().any(|user| *user != call.thread);
        }
        if engine::uses_descriptor(u64::from(call.number)) {
            self.threads.entry(descriptor).or_default().insert(call.thread);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_thread_has_used_counts() {
        const READ: u32 = 0;
        let call = |thread: u32, number: u32, descriptor: u64| Call {
            thread,
            clock: 0,
            number,
            result: 0,
            arguments: Some([descriptor, 0, 0, 0, 0, 0]),
            effects: trace::List::EMPTY,
        };
        let mut users = Users::default();
        let calls = [(1, READ, 3), (1, CLOSE, 3), (2, CLOSE, 3), (2, READ, 4), (1, READ, 4)];
        assert!(!calls.iter().any(|(thread, number, descriptor)| users.meets(&call(*thread, *number, *descriptor))));
        assert!(users.meets(&call(1, CLOSE, 4)));
    }
}

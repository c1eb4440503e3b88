//! How threads came to where they are, in terms that plans know: by which calls, and with which locks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::{Event, Thread};

/// Which arrival of a thread at an instruction, counted from 1; 0 if nobody has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    pub pc: u64,
    pub time: u64,
}

/// A lock that a thread holds, and the call by which it took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenLock {
    pub object: u64,
    pub call: Arrival,
}

/// A call, and the locks that the thread held when it came there, the first taken first: what is called may let them go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub at: Arrival,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<TakenLock>,
}

#[derive(Default)]
pub struct Entrances {
    /// Each thread's last call with a return address.
    calls: BTreeMap<(Thread, u64), Call>,
    locks: BTreeMap<Thread, Vec<TakenLock>>,
}

impl Entrances {
    pub fn hear(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Called { site, return_address, .. } => {
                let locks = self.locks(thread);
                let call = self.calls.entry((thread, return_address)).or_default();
                *call = Call { at: Arrival { pc: site, time: call.at.time + 1 }, locks };
            }
            Event::Locked { object, site, .. } => {
                let call = self.call(thread, site).at;
                self.locks.entry(thread).or_default().push(TakenLock { object, call });
            }
            Event::Unlocked { object, .. } => {
                let locks = self.locks.entry(thread).or_default();
                if let Some(place) = locks.iter().rposition(|lock| lock.object == object) {
                    locks.remove(place);
                }
            }
            _ => {}
        }
    }

    /// The call that a thread returns from to this address.
    pub fn call(&self, thread: Thread, return_address: u64) -> Call {
        self.calls.get(&(thread, return_address)).cloned().unwrap_or_default()
    }

    /// The locks that a thread holds, the first taken first.
    pub fn locks(&self, thread: Thread) -> Vec<TakenLock> {
        self.locks.get(&thread).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::LockMode;

    #[test]
    fn locks_are_known_by_the_calls_that_took_them() {
        let mut entrances = Entrances::default();
        let call = Event::Called { site: 0x10, target: 0x99, return_address: 0x15, stack: 0x1000 };
        for _ in 0..2 {
            entrances.hear(1, &call);
            entrances.hear(1, &Event::Locked { object: 0x50, mode: LockMode::Exclusive, site: 0x15 });
            assert_eq!(entrances.locks(1).len(), 1);
            entrances.hear(1, &Event::Unlocked { object: 0x50, site: 0x20 });
        }
        entrances.hear(1, &Event::Locked { object: 0x50, mode: LockMode::Exclusive, site: 0x15 });
        let call = Arrival { pc: 0x10, time: 2 };
        assert_eq!(entrances.locks(1), [TakenLock { object: 0x50, call }]);
        assert_eq!((entrances.call(1, 0x15).at, entrances.call(2, 0x15).at), (call, Arrival::default()));
    }

    #[test]
    fn a_lock_that_is_let_go_within_a_call_was_held_at_the_call() {
        let mut entrances = Entrances::default();
        entrances.hear(1, &Event::Locked { object: 0x50, mode: LockMode::Exclusive, site: 0x15 });
        entrances.hear(1, &Event::Called { site: 0x20, target: 0x99, return_address: 0x25, stack: 0x1000 });
        entrances.hear(1, &Event::Unlocked { object: 0x50, site: 0x9a });
        assert_eq!(entrances.locks(1), []);
        assert_eq!(entrances.call(1, 0x25).locks.iter().map(|lock| lock.object).collect::<Vec<_>>(), [0x50]);
    }
}

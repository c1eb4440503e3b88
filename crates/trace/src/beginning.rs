//! What a log holds before the process has a second thread. Runs that were copied from one process begin alike, and can be
//! followed together that far.

use crate::checksum::{Digest, Hasher};
use crate::clocks::Clocks;
use crate::event::{Event, Identity, Start};
use crate::log::Log;
use crate::wire::Output;

/// The beginning of a log. Two that are equal tell the same, but for when and as which process it happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Beginning {
    /// How many events it has: all up to the last system call before the one that makes the thread.
    pub events: u64,
    digest: Digest,
}

impl Beginning {
    /// None if there is never a second thread, or if the process begins as a copy of another.
    pub fn of(log: &Log) -> Option<Beginning> {
        let mut cursor = log.cursor();
        let (mut hasher, mut bytes) = (Hasher::new(), Vec::new());
        let mut beginning = None;
        while let Some(record) = cursor.next() {
            match record.event {
                Event::Start(Start { parent: Some(_), .. }) => return None,
                Event::Thread(_) => return beginning,
                event => put(&event, &mut bytes),
            }
            if let Event::Call(_) = record.event {
                hasher.add(&bytes);
                bytes.clear();
                beginning = Some(Beginning { events: record.number + 1, digest: hasher.digest() });
            }
        }
        None
    }
}

/// Each event with its clock as it is, wherever chunks begin.
fn put(event: &Event<'_>, bytes: &mut Vec<u8>) {
    let event = match *event {
        Event::Start(start) => Event::Start(without_circumstances(start)),
        event => event,
    };
    event.encode(&mut Output::new(bytes, &Clocks::new()));
}

/// What the guest was not told, or could not be told without a call.
fn without_circumstances(start: Start<'_>) -> Start<'_> {
    let identity = Identity { pid: 0, tid: 0, parent_pid: 0, ..start.identity };
    Start { identity, seed: 0, policy: "", wall_time: 0, ..start }
}

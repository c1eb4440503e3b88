//! The schedule that a recording holds.

use sched::{Handover, ThreadId};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use trace::event::{Switch, SwitchReason};
use trace::{Event, Recording};

/// The points and all switches of the first process; none if they cannot be read.
pub fn schedule(folder: &Path) -> Option<(BTreeSet<u64>, VecDeque<Handover>)> {
    let recording = Recording::open(folder).ok()?;
    let log = recording.log(*recording.logs().first()?).ok()?;
    let (mut points, mut switches) = (BTreeSet::new(), VecDeque::new());
    let mut cursor = log.cursor();
    while let Some(record) = cursor.next() {
        match &record.event {
            Event::Points(told) => points.extend(told.addresses.iter()),
            Event::Switch(switch) => switches.push_back(handover(switch)),
            _ => {}
        }
    }
    Some((points, switches))
}

fn handover(switch: &Switch) -> Handover {
    Handover {
        from: ThreadId(switch.from),
        clock: switch.clock,
        to: ThreadId(switch.to),
        is_stop: matches!(switch.reason, SwitchReason::Waiting | SwitchReason::Ended),
        is_at_event: switch.reason == SwitchReason::QuantumOver,
    }
}

//! The circumstances of single accesses, each named by its instruction and by how often the thread had come to it since
//! there were several threads.

use super::Student;
use super::races::Circumstance;
use crate::inquiry::Reply;
use crate::naming::Blocks;
use crate::stacks::Stacks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub thread: Thread,
    pub pc: u64,
    /// Counted from one.
    pub time: u64,
}

/// How often a thread has come to an instruction, and at which times it matters.
#[derive(Default)]
struct Visits {
    count: u64,
    /// Times to places in what is told.
    wanted: BTreeMap<u64, usize>,
}

/// Looks at the wanted accesses when they come.
pub struct Steps {
    /// By thread and instruction.
    visits: BTreeMap<(Thread, u64), Visits>,
    pcs: Vec<u64>,
    stacks: Stacks,
    blocks: Blocks,
    /// There is one thread only.
    is_alone: bool,
    /// In the order in which they were asked for; none for those that never came.
    told: Vec<Option<Circumstance>>,
}

impl Steps {
    pub fn new(wanted: &[Wanted]) -> Steps {
        let mut visits: BTreeMap<(Thread, u64), Visits> = BTreeMap::new();
        for (number, wanted) in wanted.iter().enumerate() {
            visits.entry((wanted.thread, wanted.pc)).or_default().wanted.insert(wanted.time, number);
        }
        let told = vec![None; wanted.len()];
        Steps { visits, pcs: Vec::new(), stacks: Stacks::default(), blocks: Blocks::default(), is_alone: true, told }
    }
}

impl Listener for Steps {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.valued(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let pc = self.pcs.get(access.site.0 as usize).copied().unwrap_or(0);
        if self.is_alone {
            return;
        }
        let Some(visits) = self.visits.get_mut(&(thread, pc)) else { return };
        visits.count += 1;
        let time = visits.count;
        let Some(&number) = visits.wanted.get(&time) else { return };
        self.told[number] = Some(Circumstance {
            callers: self.stacks.callers(thread),
            before: values.before.map(<[u8]>::to_vec),
            after: values.after.map(<[u8]>::to_vec),
            address: access.address,
            block: self.blocks.at(access.address).copied(),
            time,
            ..Circumstance::default()
        });
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Called { return_address, stack, .. } => self.stacks.called(thread, stack, return_address),
            Event::Returned { target } => self.stacks.returned(thread, target),
            Event::Created { .. } => self.is_alone = false,
            _ => {}
        }
        self.blocks.hear(event);
    }

    fn site(&mut self, _site: Site, pc: u64) {
        self.pcs.push(pc);
    }
}

impl Student for Steps {
    fn report(&mut self) -> Reply {
        Reply::of(&self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::AccessKind;

    #[test]
    fn the_wanted_time_of_the_wanted_thread_is_told() {
        let wanted = |thread, time| Wanted { thread, pc: 0x40, time };
        let mut steps = Steps::new(&[wanted(2, 2), wanted(1, 1), wanted(1, 9)]);
        steps.site(Site(0), 0x40);
        steps.event(2, &Event::Called { site: 0x30, target: 0x38, return_address: 0x35, stack: 0x900 });
        let access = |address| Access { address, size: 4, site: Site(0), kind: AccessKind::Write };
        steps.accesses(1, &[access(0x100)]);
        steps.event(1, &Event::Created { child: 2 });
        steps.accesses(2, &[access(0x100), access(0x104)]);
        steps.accesses(1, &[access(0x108)]);
        let told: Vec<Option<Circumstance>> = steps.report().read().unwrap();
        let [Some(first), Some(second), None] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((first.address, first.callers.as_slice()), (0x104, &[0x35][..]));
        assert_eq!((second.address, second.callers.len()), (0x108, 0));
    }
}

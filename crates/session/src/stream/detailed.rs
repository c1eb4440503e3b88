//! A stream with calls, returns and values: everything that records tell, one by one.

use super::Teller;
use super::calls::Inside;
use engine::{Batch, EventKind, Flat};
use trace::stream::{Access, AccessKind, Event, Listener, Values};

pub fn read<L: Listener>(batch: &Batch<'_>, teller: &mut Teller<L>) {
    let thread = batch.thread.0;
    // Where the last push went, and which instruction did it.
    let mut pushed = (0, 0);
    for event in batch.events() {
        let pc = event.pc;
        match event.kind {
            EventKind::Access(access) if access.is_push_or_pop => pushed = (pc, access.address),
            EventKind::Access(seen) => {
                let site = teller.site(pc);
                let size = seen.size.min(u64::from(u32::MAX)) as u32;
                let access = Access { address: seen.address, size, site, kind: AccessKind::from(seen.kind) };
                let bytes = |value: Option<engine::Value<'_>>| value.map(|value| value.bytes().collect::<Vec<u8>>());
                let (before, after) = (bytes(seen.before), bytes(seen.after));
                teller.valued(thread, &access, Values { before: before.as_deref(), after: after.as_deref() });
            }
            EventKind::Marked { mark, words } => teller.marked(pc, mark, words),
            EventKind::Call { target, return_address } => {
                let stack = if pushed.0 == pc { pushed.1 } else { 0 };
                teller.listener.event(thread, &Event::Called { site: pc, target, return_address, stack });
            }
            EventKind::Return { target } => teller.listener.event(thread, &Event::Returned { target }),
            EventKind::Entry { .. } | EventKind::Branch { .. } => {}
        }
    }
}

impl<L: Listener> Teller<L> {
    fn valued(&mut self, thread: u32, access: &Access, values: Values<'_>) {
        let is_told = match self.calls.inside(thread) {
            Inside::Program => true,
            Inside::Synchronisation => access.kind == AccessKind::Atomic,
            Inside::Allocator => false,
        };
        if is_told {
            self.listener.valued(thread, access, values);
        }
    }
}

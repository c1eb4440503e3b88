//! A stream with calls, returns and values: everything that records tell, one by one.

use super::Teller;
use super::calls::Inside;
use engine::{Batch, EventKind, Flat};
use trace::stream::{Access, AccessKind, Event, Listener, Values};

/// Values up to this size, which is that of nearly all of them, need no memory of their own.
const SHORT: usize = 64;

pub fn read<L: Listener>(batch: &Batch<'_>, teller: &mut Teller<L>) {
    batch.events().for_each(|event| teller.told(&event));
}

impl<L: Listener> Teller<L> {
    pub fn told(&mut self, event: &engine::Event<'_>) {
        let (pc, thread) = (event.pc, self.thread);
        match event.kind {
            EventKind::Access(access) if access.is_push_or_pop => self.pushed = (pc, access.address),
            EventKind::Access(seen) => {
                let kind = AccessKind::from(seen.kind);
                // Sites are numbered whether they are told or not.
                let site = self.site(pc);
                let is_told = match self.calls.inside(thread) {
                    Inside::Program => true,
                    Inside::Synchronisation => kind == AccessKind::Atomic,
                    Inside::Allocator => false,
                };
                if is_told {
                    let size = seen.size.min(u64::from(u32::MAX)) as u32;
                    self.valued(thread, &Access { address: seen.address, size, site, kind }, &seen);
                }
            }
            EventKind::Marked { mark, words } => self.marked(pc, mark, words),
            EventKind::Call { target, return_address } => {
                let stack = if self.pushed.0 == pc { self.pushed.1 } else { 0 };
                self.listener.event(thread, &Event::Called { site: pc, target, return_address, stack });
            }
            EventKind::Return { target } => self.listener.event(thread, &Event::Returned { target }),
            EventKind::Entry { .. } | EventKind::Branch { .. } => {}
        }
    }

    fn valued(&mut self, thread: u32, access: &Access, seen: &engine::Access<'_>) {
        let (mut before, mut after) = (Bytes::default(), Bytes::default());
        let values = Values { before: before.fill(seen.before), after: after.fill(seen.after) };
        self.listener.valued(thread, access, values);
    }
}

/// The bytes of a value, in one piece.
struct Bytes {
    short: [u8; SHORT],
    long: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes { short: [0; SHORT], long: Vec::new() }
    }
}

impl Bytes {
    fn fill(&mut self, value: Option<engine::Value<'_>>) -> Option<&[u8]> {
        let value = value?;
        if let Some(number) = value.number() {
            self.short[..8].copy_from_slice(&number.to_le_bytes());
            return Some(&self.short[..value.size() as usize]);
        }
        if value.size() as usize > SHORT {
            self.long.extend(value.bytes());
            return Some(&self.long);
        }
        self.short.iter_mut().zip(value.bytes()).for_each(|(to, from)| *to = from);
        Some(&self.short[..value.size() as usize])
    }
}

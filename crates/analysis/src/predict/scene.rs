//! What an access means after all that happened to its memory before.

use super::deeds::{Happening, excludes_any};
use super::found::{Collected, Kind, Suspicion};
use super::locations::{Location, Null, Touch};
use super::order::{LastWrite, Order};
use super::parts::{POINTER_SIZE, Part};
use super::uses::is_pointer;
use crate::races::Flags;
use rustc_hash::FxHashMap;
use trace::stream::Thread;

/// What a piece of memory's history is judged by.
pub struct Scene<'a> {
    pub order: &'a mut Order,
    pub collected: &'a mut Collected,
    pub released: &'a FxHashMap<u64, Thread>,
    pub flags: &'a Flags,
}

impl Scene<'_> {
    pub fn read(&mut self, location: &Location, part: &Part, read: &Happening) {
        let is_something = part.before.is_some_and(|value| value != 0);
        if is_something {
            self.uninitialised(location, part, read);
            self.renewed_null(location, part, read);
        } else {
            self.double_free(location, part, read);
        }
        let Some(write) = location.last_write.as_ref().filter(|write| write.thread != read.thread) else { return };
        // Numbers under a lock are read for many reasons; a pointer is read for what it points to.
        if part.before.is_some_and(is_pointer) || self.is_awaited(write, read) {
            self.order.depend(read.slot, read.locks(), write);
        }
    }

    /// Whether the reader would have waited for a flag, if it had not been written.
    fn is_awaited(&self, write: &LastWrite, read: &Happening) -> bool {
        self.flags.readers.contains(&read.pc) && self.flags.writers.contains(&write.pc)
    }

    /// Only another thread has initialised what is read, and nothing makes the reader wait for that.
    fn uninitialised(&mut self, location: &Location, part: &Part, read: &Happening) {
        let Some(first) = location.first.as_deref().filter(|first| first.thread != read.thread) else { return };
        let has_written = location.own(read.thread).is_some_and(|own| own.has_written);
        let is_seen = |touch: &Touch| touch.has_written && self.order.is_before(&touch.last, read.slot);
        if has_written || self.order.is_before(first, read.slot) || location.touches.iter().any(is_seen) {
            return;
        }
        self.suspect(Kind::Uninitialised, (location, part), read, first, None);
    }

    /// The pointer was NULL for a while, and the reader came when it had been renewed.
    fn renewed_null(&mut self, location: &Location, part: &Part, read: &Happening) {
        let Some(Null { write: null, renewal: Some(renewal), .. }) = location.null.as_deref() else { return };
        let is_possible = part.size == POINTER_SIZE
            && null.thread != read.thread
            && !self.order.is_before(renewal, read.slot)
            && !null.is_joined_against(renewal, read)
            && !read.is_shielded_from(null);
        if is_possible {
            self.suspect(Kind::Null, (location, part), null, read, Some(renewal));
        }
    }

    /// The pointer was cleared after its block had been given back, and nothing makes the reader wait for that.
    fn double_free(&mut self, location: &Location, part: &Part, read: &Happening) {
        let Some(Null { write: null, renewal: None, follows_release: true }) = location.null.as_deref() else { return };
        let is_possible =
            null.thread != read.thread && !self.order.is_before(null, read.slot) && !null.is_shielded_from(read);
        if is_possible {
            self.suspect(Kind::DoubleFree, (location, part), read, null, None);
        }
    }

    pub fn write(&mut self, location: &mut Location, part: &Part, write: &Happening) {
        if self.collected.is_open() {
            self.collected.renewed(part.address, write);
        }
        let is_null = part.after == Some(0);
        if location.is_worth_a_look() || is_null {
            self.after_reads(location, part, write);
        }
        if let Some(Null { write: null, renewal: renewal @ None, .. }) = location.null.as_deref_mut()
            && null.thread == write.thread
        {
            *renewal = Some(write.clone());
        }
        if is_null && part.size == POINTER_SIZE {
            let released = part.before.and_then(|pointer| self.released.get(&pointer));
            let follows_release = released == Some(&write.thread);
            location.null = Some(Box::new(Null { write: write.clone(), renewal: None, follows_release }));
        }
        if !is_null && !location.was_set && location.first.is_none() {
            location.first = Some(Box::new(write.clone()));
        }
        self.order.written(&mut location.last_write, write);
    }

    /// What others have read would have been something else after the write.
    fn after_reads(&mut self, location: &Location, part: &Part, write: &Happening) {
        let is_null = part.after == Some(0);
        for read in location.others(write.thread).flat_map(|touch| &touch.reads) {
            if self.order.is_before(read, write.slot) {
                continue;
            }
            if is_null && part.size == POINTER_SIZE && !read.is_shielded_from(write) {
                self.suspect(Kind::Null, (location, part), write, read, None);
            }
            if is_null || part.before == part.after {
                continue;
            }
            if !excludes_any(read.locks(), write.locks()) {
                self.suspect(Kind::Overflow, (location, part), write, read, None);
            }
            if !read.is_shielded_from(write) {
                self.suspect(Kind::Inconsistent, (location, part), write, read, None);
            }
        }
    }

    fn suspect(
        &mut self,
        kind: Kind,
        (location, part): (&Location, &Part),
        early: &Happening,
        late: &Happening,
        renewal: Option<&Happening>,
    ) {
        let (address, size, block) = (part.address, part.size, location.block);
        self.collected.add(&Suspicion { kind, address, size, block, early, late, renewal });
    }
}

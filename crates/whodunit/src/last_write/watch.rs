//! What happened to a few bytes of memory during a replay, in order.
//!
//! Guest code's writes come from the observer, on its thread; what comes from outside (system calls, mappings) comes from
//! the replay, on the guest's. Each of the latter says how many batches of the former it follows, so that both fall into
//! one order.
//!
//! May miss: writes of other processes to shared memory. Masked stores count as writes of their whole operand.

use crate::stacks::Stacks;
use engine::{Access, AccessKind, Batch, Event, EventKind, Observer};
use session::Interleaved;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Where in the recording something happened: before or in this event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub event: u64,
    /// The event is one of a parent's, before the process was forked.
    pub inherited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// An instruction of the guest's; the moment's event comes next.
    Instruction,
    /// The kernel, in the system call of that number.
    Call(u32),
    /// The kernel otherwise: signal frames, the first stack.
    Kernel,
    /// Memory was mapped or unmapped there; tells the file that it shows.
    Mapping(Option<String>),
}

/// The bytes got other contents, or the same once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub by: By,
    pub moment: Moment,
    pub thread: u32,
    /// The instruction, or what comes after a system call.
    pub pc: u64,
    /// The part that was written, from the first watched byte.
    pub part: Range<usize>,
    /// All watched bytes; none if they are not mapped, or not known.
    pub old: Option<Vec<u8>>,
    pub new: Option<Vec<u8>>,
    /// Return addresses, the innermost first.
    pub callers: Vec<u64>,
}

/// What comes from outside.
pub enum Outside {
    /// The replay has come past an event.
    Passed(Moment),
    Wrote {
        by: By,
        moment: Moment,
        thread: u32,
        pc: u64,
        address: u64,
        bytes: Vec<u8>,
    },
    /// What a new mapping shows.
    Mapped {
        file: Option<String>,
        moment: Moment,
        thread: u32,
        pc: u64,
        bytes: Option<Vec<u8>>,
    },
}

/// The bytes, and their history.
pub struct Watch {
    range: Range<u64>,
    /// What outside events do from this one on is not asked for.
    until: Option<u64>,
    /// How many changes are kept.
    limit: usize,
    now: Option<Vec<u8>>,
    /// The event that guest code is on its way to.
    coming: Moment,
    /// What is asked for has been seen.
    is_over: bool,
    pub changes: VecDeque<Change>,
    /// Changes that were not kept, because there are too many.
    pub left_out: u64,
    pub stacks: Stacks,
    /// The last store of the thread that has the turn: instruction and address.
    last_store: (u64, u64),
}

impl Watch {
    pub fn new(range: Range<u64>, until: Option<u64>, limit: usize) -> Watch {
        Watch {
            range,
            until,
            limit: limit.max(1),
            now: None,
            coming: Moment::default(),
            is_over: false,
            changes: VecDeque::new(),
            left_out: 0,
            stacks: Stacks::default(),
            last_store: (0, 0),
        }
    }

    /// What the bytes are, as far as the changes tell.
    pub fn now(&self) -> Option<&[u8]> {
        self.now.as_deref()
    }

    pub fn see(&mut self, event: &Event<'_>) {
        let thread = event.thread.0;
        match event.kind {
            EventKind::Access(access) if access.kind != AccessKind::Load => {
                self.last_store = (event.pc, access.address);
                if let Some(part) = self.part(access.address, access.size) {
                    self.store(thread, event.pc, &access, part);
                }
            }
            EventKind::Call { return_address, .. } => {
                let slot = if self.last_store.0 == event.pc { self.last_store.1 } else { 0 };
                self.stacks.called(thread, slot, return_address);
            }
            EventKind::Return { target } => self.stacks.returned(thread, target),
            _ => {}
        }
    }

    fn store(&mut self, thread: u32, pc: u64, access: &Access<'_>, part: Range<usize>) {
        let skipped = self.range.start.saturating_sub(access.address) as usize;
        let bytes: Option<Vec<u8>> = access.after.map(|after| after.bytes().skip(skipped).take(part.len()).collect());
        let new = self.with(&part, bytes.as_deref());
        // An exchange that fails writes what was there.
        if access.kind != AccessKind::Store && new.is_some() && new == self.now {
            return;
        }
        self.change(By::Instruction, self.coming, thread, pc, part, new);
    }

    pub fn apply(&mut self, outside: Outside) {
        if let Outside::Wrote { moment, .. } | Outside::Mapped { moment, .. } = &outside {
            self.is_over |= !moment.inherited && self.until.is_some_and(|until| moment.event >= until);
        }
        match outside {
            Outside::Passed(moment) => self.coming = Moment { event: moment.event + 1, ..moment },
            Outside::Wrote { by, moment, thread, pc, address, bytes } => {
                let Some(part) = self.part(address, bytes.len() as u64) else { return };
                let skipped = self.range.start.saturating_sub(address) as usize;
                let new = self.with(&part, bytes.get(skipped..skipped + part.len()));
                self.change(by, moment, thread, pc, part, new);
            }
            Outside::Mapped { file, moment, thread, pc, bytes } => {
                if bytes != self.now {
                    let whole = 0..(self.range.end - self.range.start) as usize;
                    self.forget_mapping();
                    self.change(By::Mapping(file), moment, thread, pc, whole, bytes);
                }
            }
        }
    }

    /// Of mappings that nothing was written to before the next, only the last matters.
    fn forget_mapping(&mut self) {
        if !self.is_over && self.changes.back().is_some_and(|change| matches!(change.by, By::Mapping(_))) {
            let forgotten = self.changes.pop_back();
            self.now = forgotten.and_then(|change| change.old);
        }
    }

    fn change(&mut self, by: By, moment: Moment, thread: u32, pc: u64, part: Range<usize>, new: Option<Vec<u8>>) {
        let old = std::mem::replace(&mut self.now, new.clone());
        if self.is_over {
            return;
        }
        if self.changes.len() == self.limit {
            self.changes.pop_front();
            self.left_out += 1;
        }
        let callers = self.stacks.callers(thread);
        self.changes.push_back(Change { by, moment, thread, pc, part, old, new, callers });
    }

    /// All watched bytes with a part of them new.
    fn with(&self, part: &Range<usize>, bytes: Option<&[u8]>) -> Option<Vec<u8>> {
        let bytes = bytes.filter(|bytes| bytes.len() == part.len())?;
        if part.len() as u64 == self.range.end - self.range.start {
            return Some(bytes.to_vec());
        }
        let mut all = self.now.clone()?;
        all[part.clone()].copy_from_slice(bytes);
        Some(all)
    }

    /// The watched part of a piece of memory.
    fn part(&self, address: u64, size: u64) -> Option<Range<usize>> {
        let start = address.max(self.range.start);
        let end = address.saturating_add(size).min(self.range.end);
        (start < end).then(|| (start - self.range.start) as usize..(end - self.range.start) as usize)
    }
}

/// What both sides know of.
pub struct Shared {
    watch: Mutex<Watch>,
    outside: Interleaved<Outside>,
}

impl Shared {
    pub fn new(watch: Watch) -> Arc<Shared> {
        Arc::new(Shared { watch: Mutex::new(watch), outside: Interleaved::default() })
    }

    /// Something happens outside, after so many batches.
    pub fn push(&self, batches: u64, outside: Outside) {
        match outside {
            // Of events that nothing happens between, the last tells all.
            Outside::Passed(_) => {
                self.outside.push_instead(batches, outside, |last| matches!(last, Outside::Passed(_)));
            }
            _ => self.outside.push(batches, outside),
        }
    }

    /// The history so far, with everything from outside that follows at most so many batches.
    pub fn catch_up(&self, batches: u64) -> MutexGuard<'_, Watch> {
        let mut watch = self.watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.outside.up_to(batches).for_each(|outside| watch.apply(outside));
        watch
    }
}

/// Sees what guest code does.
pub struct Eyes {
    shared: Arc<Shared>,
    batches: u64,
}

impl Eyes {
    pub fn new(shared: Arc<Shared>) -> Eyes {
        Eyes { shared, batches: 0 }
    }
}

impl Observer for Eyes {
    fn batch(&mut self, batch: &Batch<'_>) {
        let mut watch = self.shared.catch_up(self.batches);
        self.batches += 1;
        for event in batch.events() {
            watch.see(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrote(event: u64, address: u64, bytes: &[u8]) -> Outside {
        let moment = Moment { event, inherited: false };
        Outside::Wrote { by: By::Call(0), moment, thread: 1, pc: 0x10, address, bytes: bytes.to_vec() }
    }

    fn mapped(event: u64, bytes: &[u8]) -> Outside {
        let moment = Moment { event, inherited: false };
        Outside::Mapped { file: None, moment, thread: 1, pc: 0, bytes: Some(bytes.to_vec()) }
    }

    type Bytes = Option<Vec<u8>>;

    fn values(watch: &Watch) -> Vec<(u64, Bytes, Bytes)> {
        watch.changes.iter().map(|change| (change.moment.event, change.old.clone(), change.new.clone())).collect()
    }

    #[test]
    fn parts_of_writes_count() {
        let mut watch = Watch::new(100..104, None, 10);
        watch.apply(mapped(1, &[0; 4]));
        watch.apply(wrote(2, 98, &[1, 2, 3]));
        watch.apply(wrote(3, 103, &[9; 50]));
        watch.apply(wrote(4, 104, &[7]));
        watch.apply(wrote(5, 99, &[7]));
        let expected = [
            (1, None, Some(vec![0; 4])),
            (2, Some(vec![0; 4]), Some(vec![3, 0, 0, 0])),
            (3, Some(vec![3, 0, 0, 0]), Some(vec![3, 0, 0, 9])),
        ];
        assert_eq!(values(&watch), expected);
        assert_eq!(watch.changes[2].part, 3..4);
    }

    #[test]
    fn of_mappings_in_a_row_the_last_counts() {
        let mut watch = Watch::new(100..101, None, 10);
        watch.apply(mapped(1, &[1]));
        watch.apply(mapped(2, &[2]));
        watch.apply(wrote(3, 100, &[3]));
        watch.apply(mapped(4, &[0]));
        let expected = [(2, None, Some(vec![2])), (3, Some(vec![2]), Some(vec![3])), (4, Some(vec![3]), Some(vec![0]))];
        assert_eq!(values(&watch), expected);
    }

    #[test]
    fn only_so_many_are_kept_and_the_rest_is_counted() {
        let mut watch = Watch::new(100..101, None, 2);
        (1..=5).for_each(|event| watch.apply(wrote(event, 100, &[event as u8])));
        assert_eq!(values(&watch).iter().map(|value| value.0).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(watch.left_out, 3);
    }

    #[test]
    fn an_event_that_is_asked_about_is_not_part_of_the_answer() {
        let mut watch = Watch::new(100..101, Some(2), 10);
        watch.apply(wrote(1, 100, &[1]));
        watch.apply(wrote(2, 100, &[2]));
        assert_eq!(values(&watch), [(1, None, Some(vec![1]))]);
        assert_eq!(watch.now(), Some(&[2][..]));
    }

    #[test]
    fn what_comes_from_outside_waits_for_its_batch() {
        let shared = Shared::new(Watch::new(100..101, None, 10));
        shared.push(0, mapped(1, &[0]));
        shared.push(3, wrote(2, 100, &[5]));
        assert_eq!(shared.catch_up(2).changes.len(), 1);
        assert_eq!(shared.catch_up(3).changes.len(), 2);
    }
}

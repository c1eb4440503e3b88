//! From records to events: what a thread did, in program order.
//!
//! May miss: accesses of system calls; in a run without values, the elements of a repeated instruction before it faulted.
//! Masked accesses are told with their whole operand.

use crate::code::observe::{
    AccessFacts, AccessKind, Catalogue, Held, Mark, RecordFacts, Site, SiteKind, Target, UnitFacts,
};
use crate::observation::step::{STEPPED, Stepped};
use sched::ThreadId;

/// One thing that a thread did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    pub thread: ThreadId,
    /// The instruction.
    pub pc: u64,
    pub kind: EventKind<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind<'a> {
    /// A straight piece of translated code was entered, of which so many instructions ran. Where code is cut is the
    /// engine's choice.
    Entry {
        instructions: u16,
    },
    /// A marked instruction is about to run; see [`Mark`] for the words.
    Marked {
        mark: Mark,
        words: &'a [u64],
    },
    Access(Access<'a>),
    /// A jump, or a conditional branch that may have been taken.
    Branch {
        target: u64,
        taken: bool,
    },
    Call {
        target: u64,
        return_address: u64,
    },
    Return {
        target: u64,
    },
}

/// One access to memory, or all accesses of a repeated instruction through one of its pointers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access<'a> {
    /// The lowest.
    pub address: u64,
    /// Of all elements together.
    pub size: u64,
    pub kind: AccessKind,
    /// A push or pop, also of a call or return. Not told where the engine goes by steps.
    pub is_push_or_pop: bool,
    pub elements: Elements,
    /// What was there before, which is what a load read; of repeated moves, what each element read.
    pub before: Option<Value<'a>>,
    /// What a store left there.
    pub after: Option<Value<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elements {
    One,
    Upward(u64),
    Downward(u64),
}

impl Elements {
    pub fn count(self) -> u64 {
        match self {
            Elements::One => 1,
            Elements::Upward(count) | Elements::Downward(count) => count,
        }
    }
}

/// Bytes of memory, lowest address first.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    first: u64,
    rest: &'a [u64],
    size: u64,
}

impl<'a> Value<'a> {
    pub(super) fn new(words: &'a [u64], size: u64) -> Value<'a> {
        Value {
            first: words.first().copied().unwrap_or(0),
            rest: words.get(1..size.div_ceil(8) as usize).unwrap_or(&[]),
            size,
        }
    }

    fn constant(value: u64, size: u64) -> Value<'a> {
        Value { first: value, rest: &[], size }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Up to eight bytes as a number.
    pub fn number(&self) -> Option<u64> {
        (self.size <= 8).then(|| if self.size == 8 { self.first } else { self.first & ((1 << (8 * self.size)) - 1) })
    }

    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        let words = std::iter::once(&self.first).chain(self.rest);
        words.flat_map(|word| word.to_le_bytes()).take(self.size as usize)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.size == other.size && self.bytes().eq(other.bytes())
    }
}

impl Eq for Value<'_> {}

/// The events of one batch.
pub struct Events<'a> {
    thread: ThreadId,
    catalogue: &'a Catalogue,
    /// Records not begun yet.
    rest: &'a [u64],
    fs_base: u64,
    current: Current<'a>,
}

enum Current<'a> {
    Nothing,
    Record(Record<'a>),
    Stepped(Stepped<'a>),
}

/// A record under way.
struct Record<'a> {
    unit: &'a UnitFacts,
    facts: RecordFacts,
    words: &'a [u64],
    /// Instructions that ran.
    executed: u16,
    /// The next of the telling instructions, and access, to be told of; the entry comes before all.
    is_entered: bool,
    telling: usize,
    access: usize,
    /// The site's mark has been told of.
    is_marked: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(thread: ThreadId, words: &'a [u64], catalogue: &'a Catalogue, fs_base: u64) -> Events<'a> {
        Events { thread, catalogue, rest: words, fs_base, current: Current::Nothing }
    }

    /// What the FS base is after what has been told.
    pub(super) fn fs_base(&self) -> u64 {
        self.fs_base
    }

    fn begin_record(&mut self) -> Option<()> {
        let number = *self.rest.first()?;
        if number == STEPPED {
            let stepped;
            (stepped, self.rest) = Stepped::split(self.rest);
            self.current = Current::Stepped(stepped);
            return Some(());
        }
        let facts = self.catalogue.record(number);
        let (words, rest) = self.rest.split_at(usize::from(facts.words));
        self.rest = rest;
        let retracted = rest.first().is_some_and(|&next| next != STEPPED && self.catalogue.record(next).retracts);
        let executed = if facts.retracts { 0 } else { facts.executed - u16::from(retracted) };
        let unit = self.catalogue.unit(facts.unit);
        let record =
            Record { unit, facts, words, executed, is_entered: false, telling: 0, access: 0, is_marked: false };
        self.current = Current::Record(record);
        Some(())
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            let told = match &mut self.current {
                Current::Nothing => None,
                Current::Record(record) => record.next(self.catalogue, &mut self.fs_base),
                Current::Stepped(stepped) => stepped.next(),
            };
            if let Some((pc, kind)) = told {
                return Some(Event { thread: self.thread, pc, kind });
            }
            self.begin_record()?;
        }
    }
}

impl<'a> Record<'a> {
    fn next(&mut self, catalogue: &Catalogue, fs_base: &mut u64) -> Option<(u64, EventKind<'a>)> {
        if !std::mem::replace(&mut self.is_entered, true) && self.executed > 0 {
            return Some((self.unit.sites[0].pc, EventKind::Entry { instructions: self.executed }));
        }
        while let Some(&index) = self.unit.telling.get(self.telling).filter(|&&index| index < self.executed) {
            let site = &self.unit.sites[usize::from(index)];
            if let Some((mark, first)) = site.mark
                && !std::mem::replace(&mut self.is_marked, true)
            {
                let words = &self.words[usize::from(first)..][..mark.words()];
                return Some((site.pc, EventKind::Marked { mark, words }));
            }
            while let Some(facts) = self.unit.accesses.get(self.access).filter(|facts| facts.instruction == index) {
                self.access += 1;
                let access = self.access(site, facts, *fs_base).filter(|_| catalogue.wanted.any_address());
                if let Some(access) = access {
                    return Some((site.pc, EventKind::Access(access)));
                }
            }
            if let Some(word) = site.fs_base {
                *fs_base = self.words[usize::from(word)];
            }
            self.telling += 1;
            self.is_marked = false;
            if let Some(kind) = self.transfer(site, index + 1) {
                return Some((site.pc, kind));
            }
        }
        None
    }

    fn access(&self, site: &Site, facts: &AccessFacts, fs_base: u64) -> Option<Access<'a>> {
        let base = if facts.word == 0 { 0 } else { self.words[usize::from(facts.word)] };
        let segment = if facts.through_fs { fs_base } else { 0 };
        let address = base.wrapping_add_signed(facts.offset).wrapping_add(segment);
        let size = u64::from(facts.size);
        let AccessFacts { kind, is_push_or_pop, .. } = *facts;
        let Some(repeat) = site.repeat else {
            let (before, after) = (self.value(facts.before, size), self.value(facts.after, size));
            return Some(Access { address, size, kind, is_push_or_pop, elements: Elements::One, before, after });
        };
        let count = repeat.elements(self.words);
        let is_backward = repeat.is_backward(self.words);
        let (address, elements) = span(address, size, count, is_backward)?;
        Some(Access { address, size: size * count, kind, is_push_or_pop, elements, before: None, after: None })
    }

    fn value(&self, held: Held, size: u64) -> Option<Value<'a>> {
        match held {
            Held::Nowhere => None,
            Held::Word(word) => Some(Value::new(&self.words[usize::from(word)..], size)),
            Held::Constant(value) => Some(Value::constant(value, size)),
        }
    }

    /// What the instruction just passed did to the flow of control; `ahead` is the index of the next one.
    fn transfer(&self, site: &Site, ahead: u16) -> Option<EventKind<'a>> {
        let went = match self.unit.sites.get(usize::from(ahead)).filter(|_| ahead < self.facts.executed) {
            Some(next) => next.pc,
            None => self.facts.next,
        };
        let (target, taken) = match (site.target, site.kind) {
            (Target::Unknown, _) => return None,
            (Target::Constant(target), SiteKind::Jump) => (went, went == target),
            (Target::Constant(target), _) => (target, true),
            (Target::Word(word), _) => (self.words[usize::from(word)], true),
        };
        Some(match site.kind {
            SiteKind::Plain => return None,
            SiteKind::Jump => EventKind::Branch { target, taken },
            SiteKind::Call => EventKind::Call { target, return_address: site.next },
            SiteKind::Return => EventKind::Return { target },
        })
    }
}

/// The lowest address that `count` elements touch, the first of which is at `address`.
pub(super) fn span(address: u64, size: u64, count: u64, is_backward: bool) -> Option<(u64, Elements)> {
    match (count, is_backward) {
        (0, _) => None,
        (_, false) => Some((address, Elements::Upward(count))),
        (_, true) => Some((address.wrapping_sub((count - 1).wrapping_mul(size)), Elements::Downward(count))),
    }
}

//! The memory check of the instants at which something was stored or read: whose memory an access was meant for, and whose
//! it was.
//!
//! An access is meant for the object that its address was made of: a block of the heap as it was then, a global variable,
//! a variable of a frame where debug information tells, or else the frame. May miss: overruns from one part of a variable or a
//! block to the next, and what the pointer was made of if that is older than all that is known.

use super::chain::number;
use super::sites::{Area, Sites, is_library};
use super::slice::{Base, Local, Slice};
use crate::inquiry::{self, Subject, Task};
use crate::rerun::carry_out;
use crate::study::Study;
use crate::study::blocks::{Judged, Question, Spot};
use crate::study::overruns::{self, Answer, Store};
use session::rerun::{Accessed, Definition, Ending, Outcome, Plan, Point, Step};
use std::path::Path;
use trace::finding::Class;

/// Data are followed over so many events of the thread's clock before a point that is looked at.
const WINDOW: u64 = 20_000;

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// None if the access does what it may.
    pub class: Option<Class>,
    /// Where the memory lies, as the end of a sentence.
    pub text: Option<String>,
    /// The variable that the access was meant for.
    pub name: Option<String>,
    /// The block that it went beyond.
    pub beyond: Option<Made>,
    /// Where what it went beyond ends, if it wrote behind that.
    pub end: Option<u64>,
}

/// A block as it was made: where the allocator returned to, for the how many-th time, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    pub site: u64,
    pub nth: u64,
    pub size: u64,
}

/// Checks accesses to memory of the process image in `log`.
pub struct Checks<'a> {
    pub sites: &'a Sites,
    pub folder: &'a Path,
    pub log: u32,
}

/// The first and the last byte of an access.
fn bytes(memory: &Accessed) -> (u64, u64) {
    let first = number(&memory.address);
    (first, first + u64::from(memory.size.max(1)) - 1)
}

impl Checks<'_> {
    /// Checks each store for whether it is in bounds of what its pointer was meant for.
    pub fn stores(&self, stores: &[&Definition], slice: &Slice<'_>) -> Vec<Check> {
        let bases: Vec<Option<Base>> = stores.iter().map(|store| slice.base_of(store)).collect();
        let locals: Vec<Option<Check>> = stores.iter().map(|store| in_frame(store, slice)).collect();
        let mut questions = Vec::new();
        for ((store, base), local) in stores.iter().zip(&bases).zip(&locals) {
            let Some(memory) = &store.memory else { continue };
            let is_told = local.is_some() || is_beyond_frame(memory, *base);
            if self.sites.area(bytes(memory).0) == Area::Heap && !is_told {
                questions.push(Question {
                    pc: number(&store.pc),
                    address: bytes(memory).1,
                    base: base.map(|base| base.value),
                    since: base.and_then(|base| base.stored),
                });
            }
        }
        let mut judged = self.ask(questions).into_iter();
        let check = |((store, base), local): ((&&Definition, &Option<Base>), Option<Check>)| {
            let Some(memory) = &store.memory else { return Check::default() };
            match (local, self.sites.area(bytes(memory).0)) {
                (Some(local), _) => local,
                _ if is_beyond_frame(memory, *base) => beyond_frame(memory),
                (None, Area::Heap) => self.on_heap(&judged.next().unwrap_or_default(), memory),
                (None, Area::Global) => self.global(memory, *base),
                (None, Area::Stack) => Check { text: Some("on the stack".to_owned()), ..Check::default() },
                (None, Area::Nowhere) => Check::default(),
            }
        };
        // A heap's answer is taken for every access there, in order.
        stores.iter().zip(&bases).zip(locals).map(check).collect()
    }

    /// Which of some reads find what was left by an earlier block in the same memory; each with who wrote that.
    pub fn are_unset(&self, reads: &[(&Definition, &Definition)]) -> Vec<bool> {
        let question = |(read, written): &(&Definition, &Definition)| {
            let address = read.memory.as_ref().map_or(0, |memory| number(&memory.address));
            let since = Some(Spot { pc: number(&written.pc), address });
            Question { pc: number(&read.pc), address, base: None, since }
        };
        self.ask(reads.iter().map(question).collect()).iter().map(|judged| judged.is_newer).collect()
    }

    /// The stores of the same statement, or function of a library, that go on where a store went beyond `end`; and what else its
    /// function had stored before through pointers.
    pub fn overruns(&self, store: &Definition, end: u64) -> Answer {
        let Some(memory) = &store.memory else { return Answer::default() };
        let pc = number(&store.pc);
        let asked = Store { pc, time: 0, order: 0, address: number(&memory.address), size: memory.size };
        let code = self.sites.function_around(pc).unwrap_or(pc..pc + 1);
        let question = overruns::Question { thread: store.thread, store: asked, code, end };
        let subject = Subject { folder: self.folder, log: self.log, until: None };
        let task = Task::Study { study: Study::Overruns(question), players: None };
        let Answer { mut overruns, mut before } = inquiry::ask(&subject, &task).unwrap_or_default();
        overruns.retain(|other| self.sites.same_statement(pc, other.pc));
        let is_library = self.sites.is_in_c_library(pc);
        before.retain(|other| !is_library && self.sites.stores_through_pointer(other.pc));
        Answer { overruns, before }
    }

    /// The run as it was recorded up to a point, with its data followed from some time before `origins` on; none if it does not
    /// come there.
    pub fn stopped(&self, at: Point, origins: Option<(u32, u64)>) -> Option<Outcome> {
        let origins =
            origins.map(|(thread, clock)| Step::Origins { thread, clock: clock.saturating_sub(WINDOW), until: None });
        let plan = Plan::new(origins.into_iter().chain([Step::Stop(at)]).collect());
        let outcome = carry_out(self.folder, self.log, &plan).ok()?;
        matches!(outcome.ending, Ending::Stopped {}).then_some(outcome)
    }

    /// A replay that cannot answer leaves the class open.
    fn ask(&self, questions: Vec<Question>) -> Vec<Judged> {
        let n_questions = questions.len();
        if n_questions == 0 {
            return Vec::new();
        }
        let subject = Subject { folder: self.folder, log: self.log, until: None };
        let task = Task::Study { study: Study::BlocksAt(questions), players: None };
        let judged: Option<Vec<Judged>> = inquiry::ask(&subject, &task).ok();
        judged.filter(|judged| judged.len() == n_questions).unwrap_or_else(|| vec![Judged::default(); n_questions])
    }

    /// What a block tells, and where it was allocated: its size may be the mistake.
    fn on_heap(&self, judged: &Judged, memory: &Accessed) -> Check {
        let check = heap(judged, memory);
        let meant = judged.meant.filter(|_| check.class == Some(Class::HeapOverflow));
        let frames = meant.map(|meant| self.sites.frames(meant.site.saturating_sub(1)));
        let line = frames.as_ref().and_then(|frames| frames.first()).and_then(|frame| {
            let file = frame.file.as_ref()?.file_name()?.to_string_lossy();
            Some(format!("{file}:{}", frame.line?))
        });
        let allocated = line.map_or_else(String::new, |line| format!(" that was allocated at {line}"));
        let beyond = meant.map(|meant| Made { site: meant.site, nth: judged.nth, size: meant.size });
        let end = meant.map(|meant| meant.address + meant.size).filter(|end| bytes(memory).1 >= *end);
        Check { text: check.text.map(|text| text + &allocated), beyond, end, ..check }
    }

    fn global(&self, memory: &Accessed, base: Option<Base>) -> Check {
        let (first, last) = bytes(memory);
        let base = base.map(|base| base.value);
        // Beyond what is known of variables, neighbours tell nothing.
        let meant = base.and_then(|base| self.sites.symbol(base));
        let meant = meant.filter(|meant| meant.offset < meant.size && !is_library(&meant.module));
        let Some((meant, base)) = meant.zip(base) else {
            return Check { text: Some(self.among_globals(first)), ..Check::default() };
        };
        let range = base - meant.offset..base - meant.offset + meant.size;
        // A pointer to the end of the variable before looks like one to the next.
        let is_end = meant.offset == 0 && last < base;
        if is_end || range.contains(&first) && range.contains(&last) {
            let text = Some(self.among_globals(first));
            return Check { text, name: Some(meant.name), ..Check::default() };
        }
        let reached = self.among_globals(if range.contains(&first) { last } else { first });
        let text = Some(format!("{reached}, beyond `{}`", meant.name));
        let end = Some(range.end).filter(|end| last >= *end);
        Check { class: Some(Class::GlobalOverflow), text, name: Some(meant.name), end, ..Check::default() }
    }

    fn among_globals(&self, address: u64) -> String {
        let symbol = self.sites.symbol(address);
        symbol.map_or_else(|| "among global variables".to_owned(), |symbol| symbol.to_string())
    }
}

/// What is known of a store that was meant for a variable of a frame.
fn in_frame(store: &Definition, slice: &Slice<'_>) -> Option<Check> {
    let (first, last) = bytes(store.memory.as_ref()?);
    let Local { name, range } = slice.local_of(store)?;
    if range.contains(&first) && range.contains(&last) {
        return Some(Check { text: Some("on the stack".to_owned()), name, ..Check::default() });
    }
    let size = range.end - range.start;
    let place = match first.checked_sub(range.end) {
        Some(distance) => format!("{distance} bytes past the end"),
        None if last >= range.end => "across the end".to_owned(),
        None => format!("{} bytes before the beginning", range.start - first),
    };
    let text = Some(format!("on the stack, {place} of a variable of {size} bytes"));
    let end = Some(range.end).filter(|end| last >= *end);
    Some(Check { class: Some(Class::StackOverflow), text, name, end, ..Check::default() })
}

/// Whether a return address lies between what a store was meant for and what it wrote to.
fn is_beyond_frame(memory: &Accessed, base: Option<Base>) -> bool {
    let return_address = memory.return_below.as_deref().map(number);
    let last = bytes(memory).1;
    base.zip(return_address).is_some_and(|(base, slot)| base.value <= slot && slot <= last)
}

fn beyond_frame(memory: &Accessed) -> Check {
    let text = "on the stack, beyond the frame of the variable that the pointer was made of";
    let end = memory.return_below.as_deref().map(number);
    Check { class: Some(Class::StackOverflow), text: Some(text.to_owned()), end, ..Check::default() }
}

fn heap(judged: &Judged, memory: &Accessed) -> Check {
    let (first, last) = bytes(memory);
    let (class, text) = match judged {
        Judged { block: None, freed: Some(block), .. } => {
            let text = format!("in a block of {} bytes that had been given back", block.size);
            (Some(Class::UseAfterFree), text)
        }
        Judged { is_newer: true, block: Some(block), .. } => {
            let text = format!("in a block of {} bytes that took the place of another", block.size);
            (Some(Class::UseAfterFree), text)
        }
        Judged { meant: Some(meant), .. } if last >= meant.address + meant.size => {
            let distance = first.saturating_sub(meant.address + meant.size);
            (Some(Class::HeapOverflow), format!("{distance} bytes past the end of a block of {} bytes", meant.size))
        }
        Judged { meant: Some(meant), .. } if first < meant.address => {
            let distance = meant.address - first;
            (Some(Class::HeapOverflow), format!("{distance} bytes before a block of {} bytes", meant.size))
        }
        Judged { block: Some(block), .. } => {
            (None, format!("{} bytes into a block of {} bytes", last.saturating_sub(block.address), block.size))
        }
        _ => (None, "on the heap".to_owned()),
    };
    Check { class, text: Some(text), ..Check::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::Block;

    fn written(address: u64, size: u32, return_below: Option<u64>) -> Accessed {
        let return_below = return_below.map(|slot| format!("{slot:#x}"));
        Accessed { address: format!("{address:#x}"), size, writes: true, from: None, overwrites: None, return_below }
    }

    #[test]
    fn a_return_address_between_a_pointer_and_its_store_is_crossed() {
        let base = |value| Some(Base { value, stored: None });
        assert!(is_beyond_frame(&written(0x1000, 8, Some(0x1000)), base(0xf00)));
        assert!(is_beyond_frame(&written(0xff0, 32, Some(0x1000)), base(0xf00)), "with its last bytes");
        assert!(!is_beyond_frame(&written(0x1010, 8, Some(0x1000)), base(0x1008)), "a variable of the caller");
        assert!(!is_beyond_frame(&written(0xff0, 8, None), base(0xf00)));
    }

    #[test]
    fn blocks_tell_what_a_store_was_meant_for() {
        let block = |address, size| Some(Block { address, size, site: 0 });
        let class = |judged: Judged, address| heap(&judged, &written(address, 4, None)).class;
        let meant = Judged { meant: block(0x100, 16), block: block(0x120, 16), ..Judged::default() };
        assert_eq!(class(meant.clone(), 0x120), Some(Class::HeapOverflow));
        assert_eq!(class(meant.clone(), 0x10c), None);
        assert_eq!(class(meant, 0x10d), Some(Class::HeapOverflow), "the last byte counts");
        let freed = Judged { freed: block(0x100, 16), ..Judged::default() };
        assert_eq!(class(freed, 0x104), Some(Class::UseAfterFree));
        let retaken = Judged { block: block(0x100, 16), is_newer: true, ..Judged::default() };
        assert_eq!(class(retaken, 0x104), Some(Class::UseAfterFree));
        assert_eq!(class(Judged::default(), 0x104), None);
    }
}

//! Which memory belongs to which thread: its stack, and what is local to it.

use super::Memory;
use crate::show::Mappings;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::Log;
use trace::event::{Call, Event};

mod number {
    pub const CLONE: u32 = 56;
    pub const ARCH_PRCTL: u32 = 158;
    pub const SET_FS: u64 = 0x1002;
}

/// Among the values of registers.
const STACK_POINTER: usize = 4;
/// The first thread's stack grows; it is not larger than this unless somebody asks for it.
const USUAL_STACK: u64 = 8 << 20;

/// What is known of a thread's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Life {
    thread: u32,
    /// The event that made it.
    since: u64,
    /// The mapping that the stack is in.
    stack: Range<u64>,
    /// Where the stack pointer was at first: what lies above, in the same mapping, is the thread's description of itself.
    top: u64,
    /// The FS base.
    pointer: Option<u64>,
}

/// All threads of a process image.
#[derive(Default)]
pub struct Threads {
    lives: Vec<Life>,
}

impl Threads {
    /// What the log of a process image tells. Of a forked process, what it took over from its parent is not known.
    pub fn read(log: &Log) -> Threads {
        let mut reader = Reader::default();
        let mut cursor = log.cursor();
        while let Some(record) = cursor.next() {
            reader.note(record.number, &record.event);
        }
        reader.threads
    }

    /// The threads' FS bases, that of `first` before all others.
    pub fn pointers(&self, first: u32) -> impl Iterator<Item = (u32, u64)> {
        let own = self.lives.iter().filter(move |life| life.thread == first);
        let others = self.lives.iter().filter(move |life| life.thread != first);
        own.chain(others).filter_map(|life| Some((life.thread, life.pointer?)))
    }

    /// The thread on whose stack an address is. Stacks are used again: whoever accesses it is asked first, then the last
    /// thread that was made before.
    pub fn owner(&self, memory: &Memory<'_>) -> Option<u32> {
        let here = || self.lives.iter().filter(|life| life.stack.contains(&memory.address));
        let before = |life: &&Life| memory.event.is_none_or(|event| life.since <= event);
        let own = here().find(|life| life.thread == memory.thread);
        own.or_else(|| here().rfind(before)).or_else(|| here().next()).map(|life| life.thread)
    }

    /// Whether an address lies above the stack of the thread that has it.
    pub fn is_descriptor(&self, memory: &Memory<'_>, thread: u32) -> bool {
        let life = self.lives.iter().find(|life| life.thread == thread);
        life.is_some_and(|life| life.thread != 1 && memory.address >= life.top)
    }
}

#[derive(Default)]
struct Reader {
    threads: Threads,
    mappings: Mappings,
    /// Threads that have been made, by who made them, up to the call that tells the rest of them.
    fresh: BTreeMap<u32, (u32, u64)>,
}

impl Reader {
    fn note(&mut self, number: u64, event: &Event<'_>) {
        self.mappings.apply(event);
        match event {
            Event::Registers(registers) if self.threads.lives.is_empty() => {
                if let Some(pointer) = registers.values.iter().nth(STACK_POINTER) {
                    self.add(registers.thread, number, pointer, None);
                }
            }
            Event::Thread(thread) => {
                self.fresh.insert(thread.parent, (thread.child, number));
            }
            Event::Call(call) => self.call(call),
            _ => {}
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        let arguments = call.arguments.unwrap_or_default();
        if let Some((child, since)) = self.fresh.remove(&call.thread).filter(|_| call.number == number::CLONE) {
            self.add(child, since, arguments[1], Some(arguments[4]).filter(|pointer| *pointer != 0));
        }
        if call.number == number::ARCH_PRCTL
            && arguments[0] == number::SET_FS
            && let Some(life) = self.threads.lives.iter_mut().find(|life| life.thread == call.thread)
        {
            life.pointer = Some(arguments[1]);
        }
    }

    fn add(&mut self, thread: u32, since: u64, top: u64, pointer: Option<u64>) {
        let mapping = self.mappings.region_at(top.saturating_sub(1)).map(|region| region.start..region.end);
        let stack = mapping.unwrap_or(top.saturating_sub(USUAL_STACK)..top);
        self.threads.lives.push(Life { thread, since, stack, top, pointer });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(thread: u32, since: u64, stack: Range<u64>) -> Life {
        Life { thread, since, top: stack.end - 0x10, stack, pointer: Some(u64::from(thread) * 0x1000) }
    }

    #[test]
    fn stacks_that_are_used_again_belong_to_the_thread_of_the_moment() {
        let lives = vec![life(1, 1, 0x9000..0xa000), life(2, 10, 0x100..0x200), life(3, 20, 0x100..0x200)];
        let threads = Threads { lives };
        let owner =
            |address, thread, event| threads.owner(&Memory { address, size: 8, thread, event, ..Memory::default() });
        assert_eq!(owner(0x180, 2, Some(30)), Some(2));
        assert_eq!(owner(0x180, 1, Some(15)), Some(2));
        assert_eq!(owner(0x180, 1, Some(25)), Some(3));
        assert_eq!(owner(0x180, 1, None), Some(3));
        assert_eq!(owner(0x300, 1, None), None);
        assert!(threads.is_descriptor(&Memory { address: 0x1f8, ..Memory::default() }, 2));
        assert_eq!(threads.pointers(2).map(|(thread, _)| thread).collect::<Vec<_>>(), [2, 1, 3]);
    }
}

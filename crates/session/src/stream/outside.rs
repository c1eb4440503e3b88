//! What the recording tells of a run: system calls, threads, mappings.

use super::Told;
use engine::Passed;
use std::collections::BTreeMap;
use trace::event::{self, Call};
use trace::stream::{Event, Thread};

mod number {
    pub const CLOSE: u32 = 3;
    pub const MUNMAP: u32 = 11;
    pub const MREMAP: u32 = 25;
    pub const CLONE: u32 = 56;
    pub const FUTEX: u32 = 202;
}

/// Of `clone`: the word of its fourth argument is cleared when the thread ends, and who waits there is woken.
const CHILD_CLEARS_WORD: u64 = 0x20_0000;

/// Errors are the last numbers below zero.
const LAST_ERROR: i64 = -4095;

#[derive(Default)]
pub struct Outside {
    /// Threads that have been made, up to the call that tells the rest of them.
    fresh: BTreeMap<Thread, Thread>,
    /// Where the kernel wrote last for a thread outside of any call: the end of a thread clears a word.
    written: BTreeMap<Thread, u64>,
}

impl Outside {
    pub fn tell(&mut self, passed: &Passed<'_>) -> Vec<Told> {
        let pc = passed.pc;
        match passed.event {
            event::Event::Call(call) => self.call(call, pc),
            event::Event::Memory(memory) => {
                self.written.insert(memory.thread, memory.address);
                let (thread, address, size) = (memory.thread, memory.address, memory.bytes.len() as u64);
                vec![Told::Wrote { thread, pc, address, size }]
            }
            event::Event::Map(map) => {
                vec![Told::Event(map.thread, Event::Mapped { address: map.address, size: map.length })]
            }
            event::Event::Thread(thread) => {
                self.fresh.insert(thread.parent, thread.child);
                Vec::new()
            }
            event::Event::ThreadEnd(end) => self.end(end.thread),
            _ => Vec::new(),
        }
    }

    fn call(&mut self, call: &Call<'_>, pc: u64) -> Vec<Told> {
        let thread = call.thread;
        let arguments = call.arguments.unwrap_or_default();
        let mut told = Vec::new();
        if let Some(child) = self.fresh.remove(&thread) {
            let pointer = if call.number == number::CLONE { arguments[4] } else { 0 };
            told.push(Told::Created { thread, child, pointer });
            if call.number == number::CLONE && arguments[0] & CHILD_CLEARS_WORD != 0 {
                told.push(Told::Event(thread, Event::FutexWord { address: arguments[3] }));
            }
        }
        for effect in call.effects.iter() {
            told.push(Told::Wrote { thread, pc, address: effect.address, size: effect.bytes.len() as u64 });
        }
        let [address, size, ..] = arguments;
        match call.number {
            number::FUTEX => told.push(Told::Event(thread, Event::FutexWord { address })),
            number::MUNMAP | number::MREMAP if call.result >= 0 || call.result < LAST_ERROR => {
                told.push(Told::Event(thread, Event::Mapped { address, size }));
            }
            _ => {}
        }
        told.push(Told::Event(
            thread,
            Event::SystemCall { number: u64::from(call.number), result: call.result.cast_unsigned() },
        ));
        let descriptor = arguments[0] & 0xffff_ffff;
        if call.number == number::CLOSE && call.result == 0 {
            told.push(Told::Event(thread, Event::Closed { descriptor }));
        } else if call.result >= 0 && engine::uses_descriptor(u64::from(call.number)) {
            told.push(Told::Event(thread, Event::Used { descriptor }));
        }
        told
    }

    /// The word that the kernel clears is what others wait for.
    fn end(&mut self, thread: Thread) -> Vec<Told> {
        let mut told = Vec::new();
        if let Some(address) = self.written.remove(&thread) {
            told.push(Told::Event(thread, Event::FutexWord { address }));
            told.push(Told::Event(thread, Event::Released { object: address, site: 0 }));
        }
        told.push(Told::Event(thread, Event::Ended));
        told
    }
}

//! The guest's threads: one has the turn, the others are put aside.

use super::machine::{Machine, Pending};
use crate::context::{Context, RAX, RSP};
use crate::debug::ThreadRegisters;
use crate::engine::{Engine, ThreadFacts};
use crate::signals::frame::{self, XState};
use sched::ThreadId;

/// A thread's state while another one runs.
pub struct Aside {
    gpr: [u64; 16],
    rflags: u64,
    pc: u64,
    fs: u64,
    gs: u64,
    state: Vec<u8>,
    clock: u64,
    pending: Option<Pending>,
}

impl Aside {
    pub fn stack_pointer(&self) -> u64 {
        self.gpr[RSP]
    }

    pub fn pending(&self) -> Option<Pending> {
        self.pending
    }

    /// The call is taken care of elsewhere.
    pub fn forget_pending(&mut self) {
        self.pending = None;
    }
}

impl Machine {
    pub fn put_aside(&mut self, engine: &Engine, context: &mut Context) -> Aside {
        Aside {
            gpr: context.gpr,
            rflags: context.rflags,
            pc: context.pc,
            fs: context.guest_fs(),
            gs: context.guest_gs,
            state: frame::state_area(context, engine.xstate()).to_vec(),
            clock: context.clock(),
            pending: self.pending.take(),
        }
    }

    pub fn take_up(&mut self, engine: &Engine, context: &mut Context, thread: u32, aside: Aside) {
        context.gpr = aside.gpr;
        context.rflags = aside.rflags;
        context.pc = aside.pc;
        context.set_guest_fs(aside.fs);
        context.guest_gs = aside.gs;
        frame::state_area(context, engine.xstate()).copy_from_slice(&aside.state);
        context.set_clock(aside.clock);
        context.thread = thread;
        self.pending = aside.pending;
        self.current = thread;
    }

    /// A thread as `clone` makes it from the caller, whose call is pending.
    pub fn new_thread(&mut self, engine: &Engine, context: &mut Context, child: u32) {
        let arguments = self.pending.map_or([0; 6], |pending| pending.arguments);
        let [flags, stack, _, _, thread_pointer, _] = arguments;
        let mut gpr = context.gpr;
        gpr[RAX] = 0;
        if stack != 0 {
            gpr[RSP] = stack;
        }
        let set_tls = flags & libc::CLONE_SETTLS as u64 != 0;
        let aside = Aside {
            gpr,
            rflags: context.rflags,
            pc: context.pc,
            fs: if set_tls { thread_pointer } else { context.guest_fs() },
            gs: context.guest_gs,
            state: frame::state_area(context, engine.xstate()).to_vec(),
            clock: 0,
            pending: None,
        };
        self.threads.insert(child, aside);
    }

    /// The kernel's number of a thread, when it was recorded.
    pub fn tid_of(&self, thread: u32) -> i32 {
        self.tids.get(&thread).copied().unwrap_or(0)
    }

    pub fn facts(&self, context: &Context) -> Vec<ThreadFacts> {
        let mut facts: Vec<ThreadFacts> = self
            .threads
            .iter()
            .map(|(&id, aside)| ThreadFacts {
                id: ThreadId(id),
                tid: self.tid_of(id),
                registers: aside.gpr,
                pc: aside.pc,
                rflags: aside.rflags,
                state: aside.pending.map_or("runnable".to_owned(), |_| "in a system call".to_owned()),
            })
            .collect();
        facts.push(facts_of(context, self.tid_of(self.current)));
        facts.sort_by_key(|facts| facts.id);
        facts
    }
}

impl Aside {
    pub fn registers(&self, thread: u32, tid: i32, xstate: XState) -> ThreadRegisters {
        ThreadRegisters {
            thread,
            tid,
            general: self.gpr,
            pc: self.pc,
            rflags: self.rflags,
            fs_base: self.fs,
            gs_base: self.gs,
            legacy: frame::shown_state(&self.state, xstate),
            in_call: self.pending.is_some(),
        }
    }
}

pub fn facts_of(context: &Context, tid: i32) -> ThreadFacts {
    ThreadFacts {
        id: ThreadId(context.thread),
        tid,
        registers: context.gpr,
        pc: context.pc,
        rflags: context.rflags,
        state: "running".to_owned(),
    }
}

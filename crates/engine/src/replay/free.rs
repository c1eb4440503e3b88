//! A run that has left its recording: the same threads and memory, scheduled by the plan and by its policy.
//!
//! Time is the run's own: it passes with the clocks of the threads, and to the next deadline when nobody can run.

use super::awaited::Awaited;
use super::course::{Course, Due};
use super::futexes::Futexes;
use super::kept::Kept;
use super::layout::Laid;
use super::machine::{Machine, Pending};
use super::outcome::{Changed, Ending, Leaving, Rerun, Turn};
use super::overlay::Overlay;
use super::retelling::Retelling;
use super::scrutiny::Scrutiny;
use super::whatif::other_way;
use crate::context::{Context, Fault, RAX};
use crate::engine::Engine;
use crate::kernel;
use crate::signals::bit;
use sched::{Reason, Rng};
use std::collections::BTreeMap;

/// What a system call or a stop at a place counts for, in events: about as long as it takes.
const CALL: u64 = 100;

/// What a thread of a free run does.
#[derive(Clone, Copy, Debug)]
pub enum Status {
    /// `result` is what the call that it waited in gives.
    Runnable {
        result: Option<i64>,
    },
    Futex {
        address: u64,
        deadline: Option<u64>,
    },
    Sleeping {
        until: u64,
    },
    /// For descriptors; it makes its call again when that can end.
    Events {
        deadline: Option<u64>,
    },
    Held {
        hold: usize,
        since: u64,
    },
}

/// What becomes of a thread that has made a call.
pub enum Reply {
    Result(i64),
    Waits(Status),
    Yields,
    /// Its registers are what they are to be.
    Jumped,
    Ended,
}

pub struct Free {
    pub statuses: BTreeMap<u32, Status>,
    pub futexes: Futexes,
    /// What has come for threads and was not delivered yet, the oldest first.
    pub signals: BTreeMap<u32, Vec<i32>>,
    /// When waits for descriptors end that have begun, by thread.
    pub deadlines: BTreeMap<u32, Option<u64>>,
    /// How often everybody has slept since input was last taken.
    pub n_idle: u32,
    /// How many waits for descriptors have lasted for as long as they may since then.
    pub n_late: u32,
    /// Nanoseconds since the recording was left.
    pub time: u64,
    pub overlay: Overlay,
    pub random: Rng,
    pub(super) leaving: Leaving,
    pub(super) turns: Vec<Turn>,
    pub(super) spent: u64,
    /// The current thread's clock when its time was last charged.
    pub(super) mark: u64,
    /// Gets the turn next if it can run.
    pub(super) favoured: Option<u32>,
    /// The last instruction that may have stored to what is watched, and its thread's clock.
    pub(super) standing: (u64, u64),
    /// Memory that held threads wait for.
    pub(super) awaited: Vec<Awaited>,
    /// Who has changed it.
    pub(super) changed: Vec<Changed>,
    remarks: Vec<String>,
}

impl Free {
    pub fn new(leaving: Leaving, first_descriptor: u64) -> Free {
        let mark = leaving.clock;
        Free {
            statuses: BTreeMap::new(),
            futexes: Futexes::default(),
            signals: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            n_idle: 0,
            n_late: 0,
            time: 0,
            overlay: Overlay::new(first_descriptor),
            random: Rng::new(leaving.event),
            leaving,
            turns: Vec::new(),
            spent: 0,
            mark,
            favoured: None,
            standing: (0, 0),
            awaited: Vec::new(),
            changed: Vec::new(),
            remarks: Vec::new(),
        }
    }
}

/// A free run while one of its threads is looked after.
pub struct Run<'a> {
    pub engine: &'a Engine,
    pub context: &'a mut Context,
    pub machine: &'a mut Machine,
    pub course: &'a mut Course,
    pub kept: &'a mut Kept,
    pub free: &'a mut Free,
    pub scrutiny: &'a mut Scrutiny,
    pub laid: Option<&'a mut Laid>,
    pub(super) retelling: Option<&'a mut Retelling>,
}

impl Run<'_> {
    /// Takes over all threads as they stand.
    pub fn begin(&mut self) {
        let current = self.machine.current;
        self.kept.thread(current).give(self.context);
        if !self.machine.ended {
            self.free.statuses.insert(current, Status::Runnable { result: None });
        }
        let others: Vec<u32> = self.machine.threads.keys().copied().collect();
        for thread in others {
            let status = self.status_of_waiting(thread);
            self.free.statuses.insert(thread, status);
        }
        if self.course.go_on() {
            self.conclude(Ending::Stopped);
        }
    }

    /// A thread in a call makes it again when it has the turn; one that waits for a futex goes on waiting, unless the
    /// word is another by now.
    fn status_of_waiting(&mut self, thread: u32) -> Status {
        let pending = self.machine.threads.get(&thread).and_then(|aside| aside.pending());
        let wait = pending.and_then(|pending| Some((pending, self.futex_wait(&pending)?)));
        let Some((pending, wait)) = wait else { return Status::Runnable { result: None } };
        self.tell_wait(thread, pending);
        if let Some(aside) = self.machine.threads.get_mut(&thread) {
            aside.forget_pending();
        }
        match wait {
            Ok((address, bitset, deadline)) => {
                self.free.futexes.wait(address, thread, bitset);
                Status::Futex { address, deadline }
            }
            Err(_) => Status::Runnable { result: Some(0) },
        }
    }

    /// Lets somebody run: the thread that the plan wants, or the one that is there.
    pub fn set_off(&mut self) {
        let wanted = self.course.wanted().is_some_and(|wanted| wanted != self.machine.current);
        let reason = match () {
            () if self.machine.ended => Some(Reason::Stopped),
            () if self.machine.faulted.is_some() => None,
            () if wanted || self.machine.at_stop => Some(Reason::QuantumOver),
            () => self.make_pending_call(),
        };
        match reason {
            Some(reason) => self.choose(reason),
            None => {
                self.take_signals();
                self.grant();
            }
        }
    }

    /// Lets the thread that is there run on, to its next event if the plan wants another one.
    pub fn set_off_soon(&mut self) {
        self.grant();
        if self.course.wanted().is_some_and(|wanted| wanted != self.machine.current) {
            self.context.set_quantum(1);
        }
    }

    /// The thread makes a system call.
    pub fn call(&mut self) {
        self.charge(CALL);
        match self.make_pending_call() {
            Some(reason) => self.choose(reason),
            None => self.take_signals(),
        }
    }

    pub(super) fn make_pending_call(&mut self) -> Option<Reason> {
        let pending = self.machine.pending.take()?;
        let before = self.before_telling(&pending);
        let reply = self.carry_out(pending);
        let current = self.machine.current;
        match reply {
            Reply::Result(result) => {
                self.free.deadlines.remove(&current);
                self.tell_call(pending, result, &before);
                self.context.gpr[RAX] = result as u64;
                self.scrutiny.called(current, pending.number, pending.arguments, result);
            }
            Reply::Jumped => {}
            Reply::Yields => {
                self.tell_wait(current, pending);
                self.free.statuses.insert(current, Status::Runnable { result: Some(0) });
                return Some(Reason::Yielded);
            }
            Reply::Waits(status) => {
                self.tell_wait(current, pending);
                self.free.statuses.insert(current, status);
                self.interrupt(current);
                return Some(Reason::Stopped);
            }
            Reply::Ended => {
                self.free.statuses.remove(&current);
                self.machine.ended = true;
                if self.course.ended(current) {
                    self.remark(format!("thread {current} ended before it came to where it was to run"));
                    self.end_run();
                }
                return Some(Reason::Stopped);
            }
        }
        None
    }

    /// The thread's time is over.
    pub fn stop(&mut self) {
        self.charge(0);
        match self.course.due_at_clock(self.machine.current, self.context.clock()) {
            Some(Due::Stop) => self.conclude(Ending::Stopped),
            Some(_) => self.end_run(),
            None => {}
        }
        self.choose(Reason::QuantumOver);
    }

    /// An instruction faulted. False if the guest has a handler, which is to run.
    pub fn fault(&mut self, fault: Fault) -> bool {
        self.charge(1);
        let blocked = self.context.signal_mask & bit(fault.signal) != 0;
        let has_handler = self.engine.world().actions(self.context).get(fault.signal).has_handler();
        if has_handler && !blocked {
            self.stop_telling();
            return false;
        }
        if let Some(retelling) = &mut self.retelling {
            retelling.code = fault.code;
        }
        let address = matches!(fault.signal, libc::SIGSEGV | libc::SIGBUS).then_some(fault.address);
        self.conclude(Ending::Killed { signal: fault.signal, address })
    }

    /// The thread stands at an instruction of the plan's. Tells whether it may run it.
    pub fn place(&mut self) -> bool {
        self.charge(CALL);
        loop {
            let Some(due) = self.due_here() else { return true };
            if due == Due::RunOver {
                self.end_run();
                if self.course.wanted().is_some_and(|wanted| wanted != self.machine.current) {
                    self.choose(Reason::QuantumOver);
                    return false;
                }
            } else if due != Due::Release {
                return self.act(due);
            } else if self.release() {
                return false;
            }
        }
    }

    fn due_here(&mut self) -> Option<Due> {
        self.course.due_at_place(self.machine.current, self.context.pc, self.context.clock())
    }

    /// Does what is due where the thread stands. Tells whether it may run the instruction all the same.
    pub fn act(&mut self, due: Due) -> bool {
        let (thread, pc) = (self.machine.current, self.context.pc);
        match due {
            Due::Hold(hold) => {
                let since = self.free.spent;
                self.free.statuses.insert(thread, Status::Held { hold, since });
                self.choose(Reason::Stopped);
                return false;
            }
            Due::Flip | Due::Suppress => {
                let Some(next) = other_way(self.engine, self.context, due) else {
                    self.remark(format!("there is no conditional branch at {pc:#x}: nothing was flipped"));
                    return true;
                };
                self.context.pc = next;
                if !self.passed(thread) {
                    self.grant();
                }
                return false;
            }
            Due::SuppressAll => {
                self.scrutiny.suppress(self.engine, self.context);
                if !self.passed(thread) {
                    self.grant();
                }
                return false;
            }
            Due::Stop => self.conclude(Ending::Stopped),
            Due::Leave | Due::RunOver | Due::Release => {}
        }
        true
    }

    /// A thread has run the instruction that it stood at. Tells whether the turn changed hands for that.
    pub fn passed(&mut self, thread: u32) -> bool {
        let has_passed = self.course.passed(thread);
        let is_changed = !self.free.changed.is_empty();
        (has_passed || is_changed) && self.release()
    }

    /// Gives the turn to a thread whose hold is over: what it does matters most right after what it waited for. False
    /// if there is none.
    fn release(&mut self) -> bool {
        let holds = &self.course.holds;
        let is_free = |status: &Status| matches!(*status, Status::Held { hold, .. } if holds[hold].over);
        let released = self.free.statuses.iter_mut().filter(|(_, status)| is_free(status));
        let mut favoured = None;
        for (&thread, status) in released {
            *status = Status::Runnable { result: None };
            favoured = favoured.or(Some(thread));
        }
        self.free.favoured = favoured.or(self.free.favoured);
        if favoured.is_some() {
            self.charge(0);
            if !self.can_tell_stop() {
                // It waits for the next event of this thread's clock.
                self.context.set_quantum(0);
                return false;
            }
            self.choose(Reason::QuantumOver);
        }
        favoured.is_some()
    }

    pub(super) fn end_run(&mut self) {
        self.course.end_run();
        if self.course.go_on() {
            self.conclude(Ending::Stopped);
        }
    }

    pub fn remark(&mut self, text: String) {
        if !self.free.remarks.contains(&text) {
            self.free.remarks.push(text);
        }
    }

    /// The call cannot be answered.
    pub fn needs(&mut self, pending: Pending) -> ! {
        let call = super::words::describe_call(pending.number, Some(pending.arguments), None);
        self.conclude(Ending::Needs(call))
    }

    /// Ends the run.
    pub fn conclude(&mut self, ending: Ending) -> ! {
        if let Some(retelling) = &mut self.retelling {
            retelling.end(self.engine, self.context, self.machine, &ending);
        }
        let mut threads = self.machine.facts(self.context);
        threads.retain(|facts| self.free.statuses.contains_key(&facts.id.0));
        for facts in &mut threads {
            match self.free.statuses.get(&facts.id.0) {
                Some(Status::Futex { address, .. }) => facts.state = format!("waiting for the futex at {address:#x}"),
                Some(Status::Sleeping { .. }) => facts.state = "sleeping".to_owned(),
                Some(Status::Events { .. }) => facts.state = "waiting for input".to_owned(),
                Some(Status::Held { .. }) => facts.state = "held by the plan".to_owned(),
                _ => {}
            }
        }
        let rerun = Rerun {
            ending,
            thread: self.machine.current,
            clock: self.context.clock(),
            threads,
            events: self.machine.figures.events,
            left: Some(self.free.leaving.clone()),
            output: std::mem::take(&mut self.kept.output),
            turns: std::mem::take(&mut self.free.turns),
            spent: self.free.spent,
            origins: self.scrutiny.told(self.machine.current),
            relaid: self.laid.as_mut().and_then(|laid| laid.told()),
            changed: std::mem::take(&mut self.free.changed),
            remarks: [std::mem::take(&mut self.free.remarks), self.scrutiny.take_remarks()].concat(),
        };
        end(self.engine, &rerun)
    }
}

/// Tells of the run and ends the process, without any effect of the guest's.
pub fn end(engine: &Engine, rerun: &Rerun) -> ! {
    engine.settle_observer();
    engine.reran(rerun);
    kernel::call(libc::SYS_exit_group as u64, [0; 6]);
    unreachable!("exit_group does not return")
}

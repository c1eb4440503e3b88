//! System calls of a free run: from the recording while they match, else carried out on the run's own memory, threads,
//! clock and files. Nothing reaches the outside; a call that would have to ends the run.

use super::answers::{Answer, is_about_names, subject};
use super::free::{Reply, Run, Status};
use super::kept::{MOST_MOVED, new_mask, sent, set_action};
use super::machine::Pending;
use super::outcome::Ending;
use crate::kernel;
use crate::space::PAGE;
use crate::syscalls::{self, error};
use guest::syscall::uses_descriptor;
use trace::event::Map;

impl Run<'_> {
    /// Carries out the current thread's call.
    pub fn carry_out(&mut self, pending: Pending) -> Reply {
        let Pending { number, arguments } = pending;
        let [first, second, third, ..] = arguments;
        match number as i64 {
            libc::SYS_mmap if arguments[3] & libc::MAP_ANONYMOUS as u64 != 0 => {
                let place = syscalls::map_memory(self.engine, self.context, arguments);
                self.tell_anonymous(place, arguments);
                Reply::Result(place)
            }
            libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_mremap
            | libc::SYS_brk
            | libc::SYS_madvise => Reply::Result(syscalls::redo_mapping(self.engine, number, arguments)),
            libc::SYS_futex => self.futex(pending),
            libc::SYS_sched_yield => Reply::Yields,
            libc::SYS_nanosleep => self.sleep(self.deadline(0, first, false)),
            libc::SYS_clock_nanosleep => {
                self.sleep(self.deadline(first, third, second & libc::TIMER_ABSTIME as u64 != 0))
            }
            libc::SYS_poll if second == 0 && (third as i32) >= 0 => {
                Reply::Waits(Status::Sleeping { until: self.free.time + (third & 0xffff_ffff) * 1_000_000 })
            }
            libc::SYS_clone => self.clone_thread(pending),
            libc::SYS_clone3 | libc::SYS_rseq => Reply::Result(error(libc::ENOSYS)),
            libc::SYS_exit => self.exit_thread(first),
            libc::SYS_exit_group => self.conclude(Ending::Exited(first as i32 & 0xff)),
            libc::SYS_tgkill | libc::SYS_tkill | libc::SYS_kill => self.send(pending),
            libc::SYS_rt_sigreturn => self.return_from_handler(),
            _ => match self.on_channel(pending) {
                Some(reply) => reply,
                None => Reply::Result(self.carry_out_quietly(pending)),
            },
        }
    }

    /// Calls that change neither who runs nor where.
    fn carry_out_quietly(&mut self, pending: Pending) -> i64 {
        let Pending { number, arguments } = pending;
        let [first, second, third, ..] = arguments;
        let context = &mut *self.context;
        match number as i64 {
            libc::SYS_gettid => i64::from(self.tid()),
            libc::SYS_set_tid_address => {
                context.clear_tid = first;
                i64::from(self.tid())
            }
            libc::SYS_set_robust_list => {
                context.robust_list = first;
                0
            }
            libc::SYS_rt_sigprocmask => {
                let old = context.signal_mask;
                context.signal_mask = new_mask(old, first, second).unwrap_or(old);
                if third == 0 { 0 } else { store(self.engine, third, &old.to_le_bytes()) }
            }
            libc::SYS_rt_sigaction if (1..=64).contains(&first) => {
                let old = self.engine.world().actions(context).get(first as i32).words();
                set_action(self.engine, context, first, second);
                let old: Vec<u8> = old.iter().flat_map(|word| word.to_le_bytes()).collect();
                if third == 0 { 0 } else { store(self.engine, third, &old) }
            }
            libc::SYS_sigaltstack => {
                let old: Vec<u8> = context.alternate_stack.iter().flat_map(|word| word.to_le_bytes()).collect();
                if let Ok(words) = kernel::read::<[u64; 3]>(first) {
                    context.alternate_stack = words;
                }
                if second == 0 { 0 } else { store(self.engine, second, &old) }
            }
            libc::SYS_prctl if is_about_names(first) => self.name_thread(first, second),
            libc::SYS_arch_prctl => {
                syscalls::redo_arch_prctl(context, arguments);
                0
            }
            _ => self.ask(pending),
        }
    }

    /// Threads have names; those of memory are the kernel's to show.
    fn name_thread(&mut self, request: u64, address: u64) -> i64 {
        let thread = self.machine.current;
        match request as i32 {
            libc::PR_SET_NAME => self.kept.name(thread, address),
            libc::PR_GET_NAME => {
                let name = self.kept.names.get(&thread).copied().unwrap_or_default();
                return store(self.engine, address, &name);
            }
            _ => {}
        }
        0
    }

    /// Calls that are about the outside world.
    fn ask(&mut self, pending: Pending) -> i64 {
        let Pending { number, arguments } = pending;
        if let Some(result) = self.own_file(pending) {
            return result;
        }
        if uses_descriptor(number) && self.kept.descriptors.target(arguments[0] & 0xffff_ffff).is_err() {
            return error(libc::EBADF);
        }
        if is_output(number) {
            return self.write(pending);
        }
        let thread = self.machine.current;
        if let Some(subject) = subject(number, arguments) {
            let recorded = match number as i64 {
                libc::SYS_clock_gettime => self.recorded_time(thread, arguments[0]),
                libc::SYS_gettimeofday | libc::SYS_time | libc::SYS_getrandom => {
                    self.kept.answers.own_fact(thread, subject)
                }
                _ => self.kept.answers.fact(thread, subject),
            };
            return match recorded {
                Some(answer) => self.apply(&answer, pending),
                None => self.make_up(pending),
            };
        }
        match self.kept.answers.outside(thread, number, &arguments) {
            Some(answer) => self.apply(&answer, pending),
            None => match self.beyond_the_recording(pending) {
                Some(result) => result,
                None => self.needs(pending),
            },
        }
    }

    /// Gives a recorded answer.
    pub(super) fn apply(&mut self, answer: &Answer, pending: Pending) -> i64 {
        let Pending { number, arguments } = pending;
        let result = match u64::try_from(answer.result) {
            Ok(recorded) if makes_descriptor(number) => {
                let descriptor = self.unused_descriptor(recorded);
                self.kept.answers.rename(recorded, descriptor);
                descriptor as i64
            }
            _ => answer.result,
        };
        for (address, bytes) in &answer.memory {
            let _ = store(self.engine, answer.moved(*address, &arguments), bytes);
        }
        self.kept.descriptors.note(number, &arguments, result);
        if number as i64 == libc::SYS_socket && result >= 0 {
            let source = self.kept.answers.inputs.claim(answer.result as u64);
            self.kept.descriptors.set_source(result as u64, source);
        }
        if number as i64 == libc::SYS_clock_gettime
            && let Some((_, bytes)) = answer.memory.first()
        {
            self.set_clock(arguments[0], bytes);
        }
        if number as i64 == libc::SYS_mmap && !answer.maps.is_empty() {
            return self.map_file(answer, pending);
        }
        result
    }

    /// Maps a file that the recording knows, where it was if there is room.
    fn map_file(&mut self, answer: &Answer, pending: Pending) -> i64 {
        let [hint, length, protection, flags, ..] = pending.arguments;
        let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64 != 0;
        let then = answer.result as u64;
        let is_free = self.engine.world().space.is_free(&(then..then.saturating_add(length)));
        let base = match () {
            () if fixed => hint,
            () if is_free => then,
            () => {
                let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
                let arguments = [0, length, protection, anonymous, u64::MAX, 0];
                let place = syscalls::map_memory(self.engine, self.context, arguments);
                if place < 0 {
                    return place;
                }
                place as u64
            }
        };
        for map in &answer.maps {
            let address = base.wrapping_add(map.address.wrapping_sub(then));
            let map = map.at(address, self.machine.current);
            if self.machine.map(self.engine, &map).is_err() {
                self.needs(pending);
            }
            self.tell_map(&map);
        }
        base as i64
    }

    /// Tells of memory that a call has mapped.
    fn tell_anonymous(&mut self, place: i64, arguments: [u64; 6]) {
        let [_, length, protection, flags, ..] = arguments;
        if place >= 0 {
            let (thread, address, length) = (self.machine.current, place as u64, length.next_multiple_of(PAGE));
            let (protection, flags) = (protection as u32, flags as u32);
            self.tell_map(&Map { thread, address, length, protection, flags, file: None, content: None });
        }
    }

    /// Output is kept; it fails only if it failed when it was recorded.
    fn write(&mut self, pending: Pending) -> i64 {
        let Pending { number, arguments } = pending;
        let recorded = subject(number, arguments)
            .and_then(|subject| self.kept.answers.own_fact(self.machine.current, subject))
            .map(|answer| answer.result);
        if let Some(failure) = recorded.filter(|result| *result < 0) {
            return failure;
        }
        let bytes = sent(number, arguments, MOST_MOVED);
        self.kept.keep(arguments[0] as i32, &bytes);
        bytes.len() as i64
    }

    /// Calls that the recording does not answer but that need not end the run.
    fn beyond_the_recording(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, arguments } = pending;
        let result = self.read_on(pending).or_else(|| match number as i64 {
            libc::SYS_open | libc::SYS_openat => self.open(pending),
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_fcntl => self.duplicate(pending),
            libc::SYS_close
            | libc::SYS_membarrier
            | libc::SYS_mlock
            | libc::SYS_munlock
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_fadvise64
            | libc::SYS_flock
            | libc::SYS_fchmod
            | libc::SYS_fchown
            | libc::SYS_sched_setaffinity => Some(0),
            _ => self.make_channel(pending).or_else(|| self.drained(pending)).or_else(|| self.by_name(pending)),
        })?;
        self.kept.descriptors.note(number, &arguments, result);
        Some(result)
    }

    pub fn tid(&self) -> i32 {
        self.machine.tids.get(&self.machine.current).copied().unwrap_or(0)
    }

    fn clone_thread(&mut self, pending: Pending) -> Reply {
        let [flags, _, parent_tid, child_tid, ..] = pending.arguments;
        let needed = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
        if flags & needed != needed {
            self.needs(pending);
        }
        let parent = self.machine.current;
        let (child, tid) = self.kept.answers.new_thread(parent);
        *self.kept.thread(parent) = super::kept::Belongings::of(self.context);
        self.machine.pending = Some(pending);
        self.machine.new_thread(self.engine, self.context, child);
        self.machine.pending = None;
        self.machine.tids.insert(child, tid as i32);
        self.kept.new_thread(parent, child, pending.arguments);
        self.free.statuses.insert(child, Status::Runnable { result: None });
        self.tell_thread(child, tid);
        for (flag, address) in [(libc::CLONE_PARENT_SETTID, parent_tid), (libc::CLONE_CHILD_SETTID, child_tid)] {
            if flags & flag as u64 != 0 {
                let _ = store(self.engine, address, &tid.to_le_bytes());
                self.tell_memory(address, 4);
            }
        }
        Reply::Result(i64::from(tid))
    }

    fn exit_thread(&mut self, status: u64) -> Reply {
        self.release_robust_list();
        let clear_tid = self.context.clear_tid;
        if clear_tid != 0 && store(self.engine, clear_tid, &[0; 4]) == 0 {
            self.tell_memory(clear_tid, 4);
            self.wake(clear_tid, 1, u32::MAX);
        }
        if self.free.statuses.len() <= 1 {
            self.conclude(Ending::Exited(status as i32 & 0xff));
        }
        self.tell_thread_end(status);
        Reply::Ended
    }
}

/// Calls whose result is a new descriptor.
fn makes_descriptor(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_creat
            | libc::SYS_socket
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create
            | libc::SYS_memfd_create
    )
}

fn is_output(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2
    )
}

/// Writes what a call gives to the guest's memory.
pub fn store(engine: &crate::engine::Engine, address: u64, bytes: &[u8]) -> i64 {
    engine.world().open_guarded_in(address..address.saturating_add(bytes.len() as u64));
    match kernel::write_bytes(address, bytes) {
        Ok(()) => 0,
        Err(_) => error(libc::EFAULT),
    }
}

pub fn timespec(nanoseconds: u64) -> Vec<u8> {
    [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000].iter().flat_map(|word| word.to_le_bytes()).collect()
}

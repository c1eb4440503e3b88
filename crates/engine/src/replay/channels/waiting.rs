//! Waits of a free run for descriptors, and what becomes of it where nobody can run.

use super::super::calls::store;
use super::super::descriptors::{Closed, Description, Target};
use super::super::free::{Reply, Run, Status};
use super::super::kept::nanoseconds;
use super::super::machine::Pending;
use super::interests::{Interest, Ready};
use super::{PIPE_ROOM, is_poll, is_sending};
use crate::kernel::{self, Arguments};
use crate::replay::channels::tail::Kind;
use crate::syscalls::error;

/// More descriptors than this are not waited for at once.
const MOST_WAITED_FOR: u64 = 1024;
const IN: u32 = libc::EPOLLIN.cast_unsigned();
const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
const ERROR: u32 = libc::EPOLLERR.cast_unsigned();
const HANG_UP: u32 = libc::EPOLLHUP.cast_unsigned();
const OTHER_HANG_UP: u32 = libc::EPOLLRDHUP.cast_unsigned();
const INVALID: u32 = libc::POLLNVAL as u32;
/// Sets of events that hold each other go no deeper, as for the kernel.
const DEEPEST: u32 = 5;
/// So many times everybody may sleep in a row, with no input taken, before a run that waits for input is at its end.
const MOST_IDLE: u32 = 50;

/// So many waits may be over, with no input taken, before a client sends more though it was not answered.
const MOST_LATE: u32 = 10;

/// What a wait for a list of descriptors finds: how many are ready, and what is to be stored where.
type Found = Result<(i64, Vec<(u64, Vec<u8>)>), i64>;

impl Run<'_> {
    /// Puts the current thread to sleep until its call can be made, or its time is over; then it makes it again.
    pub(super) fn wait_for_events(&mut self, pending: Pending, timeout: Option<u64>) -> Reply {
        let time = self.free.time;
        let until = timeout.map(|timeout| time.saturating_add(timeout));
        let deadline = *self.free.deadlines.entry(self.machine.current).or_insert(until);
        if deadline.is_some_and(|deadline| deadline <= time) {
            return Reply::Result(0);
        }
        self.machine.pending = Some(pending);
        Reply::Waits(Status::Events { deadline })
    }

    pub(super) fn wait_for_set(&mut self, pending: Pending, set: usize) -> Reply {
        let Pending { number, arguments: [_, room, most, timeout, ..] } = pending;
        let most = most as i32;
        if most <= 0 {
            return Reply::Result(error(libc::EINVAL));
        }
        let ready = self.ready_in(set, 0);
        let target = self.kept.descriptors.description_mut(set).map(|description| &mut description.target);
        let Some(Target::Set(interests)) = target else { return Reply::Result(error(libc::EINVAL)) };
        let events = interests.report(&ready, most as usize);
        if events.is_empty() {
            let timeout = match number as i64 {
                libc::SYS_epoll_pwait2 => self.timeout(timeout, 1),
                _ => milliseconds(timeout),
            };
            return self.wait_for_events(pending, timeout);
        }
        let stored = store(self.engine, room, &events.concat());
        Reply::Result(if stored == 0 { events.len() as i64 } else { stored })
    }

    /// A wait for a list of descriptors; none if the recording tells what came of it.
    pub(super) fn poll_channels(&mut self, pending: Pending) -> Option<Reply> {
        let Pending { number, arguments } = pending;
        let [first, second, third, ..] = arguments;
        let is_recorded = self.kept.answers.has_next(self.machine.current, number, &arguments);
        if is_recorded && !self.listed(pending).iter().any(|one| self.kept.descriptors.kind(*one) != Kind::Other) {
            return None;
        }
        let timeout = match number as i64 {
            libc::SYS_poll => milliseconds(third),
            libc::SYS_ppoll => self.timeout(third, 1),
            libc::SYS_select => self.timeout(arguments[4], 1000),
            _ => self.timeout(arguments[4], 1),
        };
        let found = match number as i64 {
            libc::SYS_poll | libc::SYS_ppoll => self.found_by_poll(first, second),
            _ => self.found_by_select(arguments),
        };
        let (n_ready, stores) = match found {
            Ok(found) => found,
            Err(failure) => return Some(Reply::Result(failure)),
        };
        let reply = if n_ready == 0 { self.wait_for_events(pending, timeout) } else { Reply::Result(n_ready) };
        if matches!(reply, Reply::Result(_)) {
            for (address, bytes) in stores {
                store(self.engine, address, &bytes);
            }
        }
        Some(reply)
    }

    /// The descriptors that a wait is for.
    fn listed(&self, pending: Pending) -> Vec<u64> {
        let Pending { number, arguments: [first, second, third, fourth, ..] } = pending;
        if matches!(number as i64, libc::SYS_poll | libc::SYS_ppoll) {
            let entry = |index: u64| kernel::read::<u32>(first.wrapping_add(8 * index)).ok();
            return (0..second.min(MOST_WAITED_FOR)).filter_map(entry).map(u64::from).collect();
        }
        let word = |set: u64, index: u64| kernel::read::<u64>(set.wrapping_add(8 * (index / 64))).unwrap_or(0);
        let is_in = |set: u64, index: u64| set != 0 && word(set, index) >> (index % 64) & 1 != 0;
        let is_listed = |index: &u64| [second, third, fourth].iter().any(|set| is_in(*set, *index));
        (0..first.min(MOST_WAITED_FOR)).filter(is_listed).collect()
    }

    fn found_by_poll(&self, list: u64, count: u64) -> Found {
        let (mut n_ready, mut stores) = (0, Vec::new());
        for at in (0..count.min(MOST_WAITED_FOR)).map(|index| list.wrapping_add(8 * index)) {
            let Ok(entry) = kernel::read::<u64>(at) else { return Err(error(libc::EFAULT)) };
            let (descriptor, wanted) = (entry as i32, (entry >> 32) as u16);
            let wanted = u32::from(wanted) | ERROR | HANG_UP | INVALID;
            let ready = u64::try_from(descriptor).map_or(0, |descriptor| self.state(descriptor, 0) & wanted) as u16;
            stores.push((at.wrapping_add(6), ready.to_le_bytes().to_vec()));
            n_ready += i64::from(ready != 0);
        }
        Ok((n_ready, stores))
    }

    fn found_by_select(&self, arguments: Arguments) -> Found {
        let [count, reading, writing, excepted, ..] = arguments;
        let count = count.min(MOST_WAITED_FOR);
        let (mut n_ready, mut stores) = (0, Vec::new());
        for (set, wanted) in [(reading, IN | HANG_UP | ERROR), (writing, OUT | ERROR), (excepted, 0)] {
            for word in (0..count.div_ceil(64)).filter(|_| set != 0) {
                let at = set.wrapping_add(8 * word);
                let Ok(asked) = kernel::read::<u64>(at) else { return Err(error(libc::EFAULT)) };
                let is_ready = |bit: &u64| asked >> bit & 1 != 0 && self.state(64 * word + bit, 0) & wanted != 0;
                let ready = (0..64).filter(is_ready).fold(0_u64, |ready, bit| ready | 1 << bit);
                stores.push((at, ready.to_le_bytes().to_vec()));
                n_ready += i64::from(ready.count_ones());
            }
        }
        Ok((n_ready, stores))
    }

    /// What of a descriptor is ready. What came with the program is: it has more, or is at its end.
    fn state(&self, descriptor: u64, depth: u32) -> u32 {
        match self.kept.descriptors.target(descriptor) {
            Err(Closed) => INVALID,
            Ok(_) => self.kept.descriptors.description_of(descriptor).map_or(IN | OUT, |it| self.state_of(it, depth)),
        }
    }

    fn state_of(&self, number: usize, depth: u32) -> u32 {
        let descriptors = &self.kept.descriptors;
        let Some(description) = descriptors.description(number) else { return IN | OUT };
        let when = |is: bool, bits: u32| if is { bits } else { 0 };
        match &description.target {
            Target::Socket { source } => {
                let inputs = &self.kept.answers.inputs;
                OUT | when(inputs.is_readable(*source), IN) | when(inputs.is_at_end(*source), OTHER_HANG_UP)
            }
            Target::Paired { other } => self.state_of_pair(description, *other),
            Target::Counter { value, .. } => OUT | when(*value > 0, IN),
            Target::Timer(timer) => when(timer.n_due(self.clock(timer.clock)) > 0, IN),
            Target::Set(_) => {
                let is_ready =
                    depth < DEEPEST && self.ready_in(number, depth + 1).iter().any(|ready| ready.events != 0);
                when(is_ready, IN)
            }
            Target::Notices => {
                let has_more = descriptors.number_of(number).is_some_and(|it| self.kept.answers.has_input(it));
                OUT | when(has_more, IN)
            }
            Target::Named { .. } | Target::Stream => IN | OUT,
        }
    }

    fn state_of_pair(&self, description: &Description, other: usize) -> u32 {
        let has_input = if description.inbox.is_empty() { 0 } else { IN };
        let partner = self.kept.descriptors.description(other);
        match self.kept.descriptors.is_open(other) {
            true if partner.is_some_and(|partner| partner.inbox.len() < PIPE_ROOM) => has_input | OUT,
            true => has_input,
            false => has_input | IN | HANG_UP | OTHER_HANG_UP,
        }
    }

    /// What of a set's items is to be reported, in their order.
    fn ready_in(&self, set: usize, depth: u32) -> Vec<Ready> {
        let target = self.kept.descriptors.description(set).map(|description| &description.target);
        let Some(Target::Set(interests)) = target else { return Vec::new() };
        let ready = |item: &Interest| {
            let is_open = self.kept.descriptors.is_open(item.description);
            let state = if is_open { self.state_of(item.description, depth) } else { 0 };
            item.ready(state, self.version_of(item.description))
        };
        interests.0.iter().map(ready).collect()
    }

    /// Another number whenever something has come.
    fn version_of(&self, number: usize) -> u64 {
        let Some(description) = self.kept.descriptors.description(number) else { return 0 };
        match &description.target {
            Target::Socket { source } => self.kept.answers.inputs.version(*source),
            Target::Timer(timer) => timer.next.unwrap_or(0).wrapping_add(timer.n_due(self.clock(timer.clock))),
            _ => description.n_stirs,
        }
    }

    /// Whether a call that a thread waits in would find something now.
    pub fn would_end(&self, pending: Pending) -> bool {
        let Pending { number, arguments } = pending;
        let first = arguments[0];
        match number as i64 {
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
                let set = self.kept.descriptors.description_of(first);
                set.is_none_or(|set| self.ready_in(set, 0).iter().any(|ready| ready.events != 0))
            }
            libc::SYS_poll | libc::SYS_ppoll => {
                self.found_by_poll(first, arguments[1]).map_or(true, |(n_ready, _)| n_ready > 0)
            }
            _ if is_poll(number) => self.found_by_select(arguments).map_or(true, |(n_ready, _)| n_ready > 0),
            _ if is_sending(number) => self.state(first, 0) & !IN != 0,
            _ => self.state(first, 0) & !OUT != 0,
        }
    }

    /// When a timer will be due that a thread waits for, in the run's own time.
    pub fn next_timer(&self, pending: Pending) -> Option<u64> {
        let descriptions = self.waited_for(pending);
        let timers =
            descriptions.iter().filter_map(|number| match self.kept.descriptors.description(*number)?.target {
                Target::Timer(timer) => {
                    let left = timer.next?.saturating_sub(self.clock(timer.clock));
                    Some(self.free.time.saturating_add(left))
                }
                _ => None,
            });
        timers.min()
    }

    /// The descriptions that a call waits for; of a set, those that are in it.
    fn waited_for(&self, pending: Pending) -> Vec<usize> {
        let descriptors = &self.kept.descriptors;
        let named: Vec<u64> = if is_poll(pending.number) { self.listed(pending) } else { vec![pending.arguments[0]] };
        let mut found: Vec<usize> = named.iter().filter_map(|one| descriptors.description_of(*one)).collect();
        let mut at = 0;
        while let Some(number) = found.get(at).copied() {
            if let Some(Description { target: Target::Set(interests), .. }) = descriptors.description(number) {
                let inner = interests.0.iter().map(|item| item.description).filter(|inner| !found.contains(inner));
                found = found.iter().copied().chain(inner.collect::<Vec<usize>>()).collect();
            }
            at += 1;
        }
        found
    }

    /// The sockets that threads wait for.
    fn sources_waited_for(&self) -> Vec<usize> {
        self.sockets_waited_for().into_iter().map(|(source, _)| source).collect()
    }

    /// The same, and whether others connect to them.
    fn sockets_waited_for(&self) -> Vec<(usize, bool)> {
        let waiting = self.free.statuses.iter().filter(|(_, status)| matches!(status, Status::Events { .. }));
        let calls = waiting.filter_map(|(thread, _)| self.call_of(*thread));
        let descriptions = calls.flat_map(|pending| self.waited_for(pending));
        let source = |number: usize| match *self.kept.descriptors.description(number)? {
            Description { target: Target::Socket { source }, is_listening, .. }
                if self.kept.descriptors.is_open(number) =>
            {
                Some((source, is_listening))
            }
            _ => None,
        };
        descriptions.filter_map(source).collect()
    }

    /// The call that a thread waits in.
    pub fn call_of(&self, thread: u32) -> Option<Pending> {
        match thread == self.machine.current && !self.machine.ended {
            true => self.machine.pending,
            false => self.machine.threads.get(&thread).and_then(|aside| aside.pending()),
        }
    }

    /// Nobody can run: lets input come that others were to be taken before.
    pub fn hasten_input(&mut self) -> bool {
        let sources = self.sources_waited_for();
        self.kept.answers.inputs.hasten(|source| sources.contains(&source))
    }

    /// Something came from outside.
    pub(super) fn input_taken(&mut self) {
        (self.free.n_idle, self.free.n_late) = (0, 0);
    }

    /// A wait for input has lasted for as long as it may, though somebody else could run: threads that wait in loops keep a run from
    /// standing still.
    pub fn input_is_late(&mut self) {
        self.free.n_late += 1;
        if self.hasten_input() {
            return;
        }
        let sources = self.sources_waited_for();
        match self.free.n_late {
            MOST_IDLE.. => {
                self.last_input();
                self.free.n_late = 0;
            }
            late if late % MOST_LATE == 0 => {
                self.kept.answers.inputs.hasten_unanswered(|source| sources.contains(&source));
            }
            _ => {}
        }
    }

    /// Whether a run that waits for input has been idle for long enough.
    pub fn is_idle(&self) -> bool {
        self.free.n_idle >= MOST_IDLE && !self.sources_waited_for().is_empty()
    }

    /// Nobody can run, not even after some time: lets what is left come from outside, the likeliest first.
    pub fn last_input(&mut self) -> bool {
        let sources = self.sources_waited_for();
        let has_come = self.kept.answers.inputs.hasten_unanswered(|source| sources.contains(&source))
            || self.deliver_alert()
            || self.end_silent();
        if has_come {
            self.free.n_idle = 0;
        }
        has_come
    }

    fn deliver_alert(&mut self) -> bool {
        let Some(alert) = self.kept.answers.inputs.alert() else { return false };
        let known = self.free.statuses.contains_key(&alert.thread);
        let target = if known { Some(alert.thread) } else { self.free.statuses.keys().next().copied() };
        if let Some(target) = target {
            self.raise(target, alert.signal);
        }
        true
    }

    /// Connections that nothing more comes through are closed by the other end.
    fn end_silent(&mut self) -> bool {
        let connected = self.sockets_waited_for().into_iter().filter(|(_, is_listening)| !is_listening);
        let inputs = &mut self.kept.answers.inputs;
        let n_ended = connected.filter(|(source, _)| inputs.end(*source)).count();
        if n_ended > 0 {
            self.remark("connections end where the recording does".to_owned());
        }
        n_ended > 0
    }

    pub fn waits_for_outside(&self) -> bool {
        !self.sources_waited_for().is_empty()
    }

    /// A limit in seconds and a fraction of so many nanoseconds each.
    fn timeout(&self, address: u64, unit: u64) -> Option<u64> {
        let [seconds, fraction] = kernel::read::<[u64; 2]>(address).ok()?;
        let bytes = [seconds.to_le_bytes(), fraction.saturating_mul(unit).to_le_bytes()].concat();
        nanoseconds(&bytes)
    }
}

/// A limit that a call gives as a number; none if it is negative.
fn milliseconds(limit: u64) -> Option<u64> {
    u64::try_from(limit as i32).ok().map(|milliseconds| milliseconds * 1_000_000)
}

//! Descriptors that a free run answers for itself: pipes, pairs of sockets, `eventfd`, `timerfd` and `epoll` are its own state, as futexes
//! are, and sockets to the outside give what was recorded of them and take whatever is sent.

pub mod inputs;
pub mod interests;
pub mod tail;
mod waiting;

use super::calls::store;
use super::descriptors::{Description, Target};
use super::free::{Reply, Run};
use super::kept::{MOST_MOVED, sent};
use super::machine::Pending;
use super::waits::shown;
use crate::kernel;
use crate::syscalls::error;
use guest::syscall::uses_descriptor;
use inputs::Taken;
use tail::{Kind, flags_of, is_peek, is_sending};

/// A pipe holds so much.
const PIPE_ROOM: usize = 1 << 16;
/// No more pieces of memory than these are read into at once, as for the kernel.
const MOST_PIECES: u64 = 1024;
/// Offsets in a `msghdr`.
const NAME_LENGTH: u64 = 8;
const PIECES: u64 = 16;
const CONTROL_LENGTH: u64 = 40;

/// Whether the first argument of a call is a descriptor that it is about.
pub fn is_about_descriptor(number: u64) -> bool {
    uses_descriptor(number)
        || matches!(
            number as i64,
            libc::SYS_close
                | libc::SYS_dup2
                | libc::SYS_dup3
                | libc::SYS_connect
                | libc::SYS_sendfile
                | libc::SYS_epoll_ctl
                | libc::SYS_epoll_wait
                | libc::SYS_epoll_pwait
                | libc::SYS_epoll_pwait2
                | libc::SYS_timerfd_settime
                | libc::SYS_timerfd_gettime
        )
}

/// Waits for descriptors that are listed in the call.
pub fn is_poll(number: u64) -> bool {
    matches!(number as i64, libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6)
}

impl Run<'_> {
    /// A call on what the run answers for itself; none if the call is about something else.
    pub fn on_channel(&mut self, pending: Pending) -> Option<Reply> {
        let Pending { number, arguments } = pending;
        if is_poll(number) {
            return self.poll_channels(pending);
        }
        let is_fact = super::answers::subject(number, arguments).is_some() && !is_sending(number);
        if !is_about_descriptor(number) || is_fact {
            return None;
        }
        let first = arguments[0] & 0xffff_ffff;
        let description = self.kept.descriptors.description_of(first)?;
        let kind = self.kept.descriptors.kind(first);
        if kind == Kind::Other {
            return None;
        }
        let reply = self.on_any(pending, description);
        Some(reply.unwrap_or_else(|| match kind {
            Kind::Socket(source) => self.on_socket(pending, source),
            _ => self.on_own(pending, description),
        }))
    }

    /// Calls that are the same for all of them.
    fn on_any(&mut self, pending: Pending, description: usize) -> Option<Reply> {
        let Pending { number, arguments } = pending;
        let result = match number as i64 {
            libc::SYS_close => 0,
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_fcntl => self.duplicate(pending)?,
            libc::SYS_ioctl if arguments[1] == libc::FIONBIO => 0,
            libc::SYS_ioctl if arguments[1] == libc::FIONREAD => {
                let count = self.n_readable(description) as u32;
                store(self.engine, arguments[2], &count.to_le_bytes())
            }
            _ => return None,
        };
        self.kept.descriptors.note(number, &arguments, result);
        if let Some(Target::Socket { source }) = self.kept.descriptors.description(description).map(|it| &it.target)
            && !self.kept.descriptors.is_open(description)
        {
            self.kept.answers.inputs.forget(*source);
        }
        Some(Reply::Result(result))
    }

    fn n_readable(&self, description: usize) -> usize {
        match self.kept.descriptors.description(description) {
            Some(Description { target: Target::Socket { source }, .. }) => self.kept.answers.inputs.n_bytes(*source),
            Some(description) => description.inbox.len(),
            None => 0,
        }
    }

    fn on_socket(&mut self, pending: Pending, source: usize) -> Reply {
        let Pending { number, arguments } = pending;
        match number as i64 {
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => self.receive(pending, source),
            libc::SYS_accept | libc::SYS_accept4 => self.accept(pending, source),
            libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
                let bytes = sent(number, arguments, MOST_MOVED);
                self.kept.keep(arguments[0] as i32, &bytes);
                self.kept.answers.inputs.sent(source, bytes.len() as u64);
                Reply::Result(bytes.len() as i64)
            }
            _ => Reply::Result(self.ask_socket(pending, source)),
        }
    }

    /// Whatever else is asked of a socket is answered as it was, or else well.
    fn ask_socket(&mut self, pending: Pending, source: usize) -> i64 {
        let Pending { number, arguments } = pending;
        if let Some(answer) = self.kept.answers.inputs.told(source, number) {
            if is_sending(number) {
                self.kept.answers.inputs.sent(source, u64::try_from(answer.result).unwrap_or(0));
            }
            return self.apply(&answer, pending);
        }
        match number as i64 {
            libc::SYS_getsockopt => store(self.engine, arguments[3], &[0; 4]),
            libc::SYS_getsockname | libc::SYS_getpeername => self.store_address(arguments[1], arguments[2], &LOOPBACK),
            libc::SYS_listen => {
                self.kept.descriptors.note(number, &arguments, 0);
                0
            }
            libc::SYS_bind | libc::SYS_connect | libc::SYS_setsockopt | libc::SYS_shutdown | libc::SYS_fsync => 0,
            libc::SYS_lseek => error(libc::ESPIPE),
            _ => self.needs(pending),
        }
    }

    fn store_address(&mut self, room: u64, length: u64, address: &[u8]) -> i64 {
        let Ok(most) = kernel::read::<u32>(length) else { return error(libc::EFAULT) };
        let stored = store(self.engine, room, &address[..address.len().min(most as usize)]);
        if stored != 0 {
            return stored;
        }
        store(self.engine, length, &(address.len() as u32).to_le_bytes())
    }

    /// A call that finds nothing there: it waits, unless it must not.
    fn not_yet(&mut self, pending: Pending) -> Reply {
        let Pending { number, arguments } = pending;
        let description = self.kept.descriptors.description_of(arguments[0]);
        let is_nonblocking = description
            .and_then(|number| self.kept.descriptors.description(number))
            .is_some_and(|description| description.is_nonblocking);
        if is_nonblocking || flags_of(number, arguments) & libc::MSG_DONTWAIT != 0 {
            return Reply::Result(error(libc::EAGAIN));
        }
        self.wait_for_events(pending, None)
    }

    fn receive(&mut self, pending: Pending, source: usize) -> Reply {
        let Pending { number, arguments } = pending;
        let Some(rooms) = rooms(pending) else { return Reply::Result(error(libc::EFAULT)) };
        let most = rooms.iter().map(|(_, length)| *length).sum::<u64>();
        if most == 0 {
            return Reply::Result(0);
        }
        match self.kept.answers.inputs.take(source, most as usize, is_peek(number, arguments)) {
            None => self.not_yet(pending),
            Some(Taken::End(result)) => {
                self.input_taken();
                Reply::Result(result)
            }
            Some(Taken::Bytes(bytes)) => {
                self.input_taken();
                Reply::Result(self.hand_over(pending, &rooms, &bytes))
            }
        }
    }

    /// Stores what a call receives.
    fn hand_over(&mut self, pending: Pending, rooms: &[(u64, u64)], bytes: &[u8]) -> i64 {
        let mut rest = bytes;
        for (address, length) in rooms {
            let (piece, more) = rest.split_at(rest.len().min(*length as usize));
            if store(self.engine, *address, piece) != 0 {
                return error(libc::EFAULT);
            }
            rest = more;
        }
        if pending.number as i64 == libc::SYS_recvmsg {
            let header = pending.arguments[1];
            store(self.engine, header.wrapping_add(NAME_LENGTH), &[0; 4]);
            store(self.engine, header.wrapping_add(CONTROL_LENGTH), &[0; 12]);
        }
        (bytes.len() - rest.len()) as i64
    }

    fn accept(&mut self, pending: Pending, source: usize) -> Reply {
        let Pending { number, arguments: [_, room, length, flags, ..] } = pending;
        let Some(connection) = self.kept.answers.inputs.accept(source) else { return self.not_yet(pending) };
        self.input_taken();
        let descriptor = self.unused_descriptor(connection.descriptor);
        let is_nonblocking = number as i64 == libc::SYS_accept4 && flags as i32 & libc::SOCK_NONBLOCK != 0;
        self.kept.descriptors.connect(descriptor, connection.source, is_nonblocking);
        if room != 0 {
            self.store_address(room, length, &connection.address);
        }
        Reply::Result(descriptor as i64)
    }

    /// A descriptor as it was recorded, unless something else has it now.
    pub fn unused_descriptor(&mut self, recorded: u64) -> u64 {
        match self.kept.descriptors.is_taken(recorded) {
            true => self.free.overlay.next_descriptor(),
            false => recorded,
        }
    }

    /// Calls on pipes, pairs, counters, timers and sets.
    fn on_own(&mut self, pending: Pending, number: usize) -> Reply {
        let arguments = pending.arguments;
        let target = self.kept.descriptors.description(number).map(|description| description.target.clone());
        let is_reading =
            matches!(pending.number as i64, libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg);
        match target {
            Some(Target::Paired { other }) if is_reading => self.read_pair(pending, number, other),
            Some(Target::Paired { other }) if is_sending(pending.number) => self.write_pair(pending, other),
            Some(Target::Paired { .. }) if pending.number as i64 == libc::SYS_shutdown => Reply::Result(0),
            Some(Target::Counter { value: 0, .. }) if is_reading => self.not_yet(pending),
            Some(Target::Counter { value, is_semaphore }) if is_reading => {
                self.read_number(pending, if is_semaphore { 1 } else { value })
            }
            Some(Target::Counter { .. }) if is_sending(pending.number) => self.note_result(pending, 8),
            Some(Target::Timer(timer)) if is_reading => match timer.n_due(self.clock(timer.clock)) {
                0 => self.not_yet(pending),
                n_due => self.read_number(pending, n_due),
            },
            Some(Target::Timer(_)) if pending.number as i64 == libc::SYS_timerfd_settime => {
                let (time, clocks) = (self.free.time, &self.kept.clocks);
                self.kept.descriptors.set_timer(&arguments, |clock| shown(clocks, clock).saturating_add(time));
                Reply::Result(0)
            }
            Some(Target::Set(_)) => match pending.number as i64 {
                libc::SYS_epoll_ctl => {
                    Reply::Result(self.kept.descriptors.control(arguments).map_or_else(error, |()| 0))
                }
                libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
                    self.wait_for_set(pending, number)
                }
                _ => Reply::Result(error(libc::EINVAL)),
            },
            _ if pending.number as i64 == libc::SYS_lseek => Reply::Result(error(libc::ESPIPE)),
            _ => self.needs(pending),
        }
    }

    /// What the call does to a descriptor's own state is what it does while a recording is followed.
    fn note_result(&mut self, pending: Pending, result: i64) -> Reply {
        self.kept.descriptors.note(pending.number, &pending.arguments, result);
        Reply::Result(result)
    }

    fn read_number(&mut self, pending: Pending, value: u64) -> Reply {
        let [_, room, length, ..] = pending.arguments;
        if length < 8 {
            return Reply::Result(error(libc::EINVAL));
        }
        match store(self.engine, room, &value.to_le_bytes()) {
            0 => self.note_result(pending, 8),
            failure => Reply::Result(failure),
        }
    }

    fn read_pair(&mut self, pending: Pending, number: usize, other: usize) -> Reply {
        let Some(rooms) = rooms(pending) else { return Reply::Result(error(libc::EFAULT)) };
        let most = rooms.iter().map(|(_, length)| *length).sum::<u64>() as usize;
        let inbox = self.kept.descriptors.description(number).map(|description| &description.inbox);
        let bytes: Vec<u8> = inbox.into_iter().flatten().take(most).copied().collect();
        if bytes.is_empty() && most > 0 && self.kept.descriptors.is_open(other) {
            return self.not_yet(pending);
        }
        let result = self.hand_over(pending, &rooms, &bytes);
        if is_peek(pending.number, pending.arguments) {
            Reply::Result(result)
        } else {
            self.note_result(pending, result)
        }
    }

    fn write_pair(&mut self, pending: Pending, other: usize) -> Reply {
        if !self.kept.descriptors.is_open(other) {
            self.raise(self.machine.current, libc::SIGPIPE);
            return Reply::Result(error(libc::EPIPE));
        }
        let inbox = self.kept.descriptors.description(other).map_or(0, |description| description.inbox.len());
        if inbox >= PIPE_ROOM {
            return self.not_yet(pending);
        }
        let bytes = sent(pending.number, pending.arguments, MOST_MOVED);
        self.note_result(pending, bytes.len() as i64)
    }

    /// New things of the run's own, under descriptors that the recording does not have.
    pub fn make_channel(&mut self, pending: Pending) -> Option<i64> {
        let [first, _, _, fourth, ..] = pending.arguments;
        match pending.number as i64 {
            libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create => Some(self.free.overlay.next_descriptor() as i64),
            libc::SYS_pipe | libc::SYS_pipe2 => self.store_pair(first),
            libc::SYS_socketpair => self.store_pair(fourth),
            _ => None,
        }
    }

    fn store_pair(&mut self, room: u64) -> Option<i64> {
        let both = [self.free.overlay.next_descriptor(), self.free.overlay.next_descriptor()];
        let bytes: Vec<u8> = both.iter().flat_map(|descriptor| (*descriptor as u32).to_le_bytes()).collect();
        Some(store(self.engine, room, &bytes))
    }
}

/// An address of this machine, as `sockaddr_in`.
const LOOPBACK: [u8; 16] = [libc::AF_INET as u8, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Where a call puts what it receives, and how much; none if that cannot be read.
fn rooms(pending: Pending) -> Option<Vec<(u64, u64)>> {
    let Pending { number, arguments: [_, second, third, ..] } = pending;
    let (pieces, count) = match number as i64 {
        libc::SYS_readv => (second, third),
        libc::SYS_recvmsg => {
            let [pieces, count] = kernel::read::<[u64; 2]>(second.wrapping_add(PIECES)).ok()?;
            (pieces, count)
        }
        _ => return Some(vec![(second, third.min(MOST_MOVED as u64))]),
    };
    let piece = |index: u64| kernel::read::<[u64; 2]>(pieces.wrapping_add(16 * index)).ok();
    (0..count.min(MOST_PIECES)).map(|index| piece(index).map(|[address, length]| (address, length))).collect()
}

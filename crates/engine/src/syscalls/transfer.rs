//! Calls that move data through one descriptor. A thread that waited for its peer in the kernel while it has the turn
//! would stop the peer too, so pipes and sockets are tried without waiting, and the wait is the scheduler's.

use super::{error, waiting};
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel::{self, Arguments};
use crate::turn::{Outcome, Wait};
use std::time::{Duration, Instant};

/// What a descriptor leads to, as far as waiting goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nobody else has to act for the call to finish.
    File,
    Pipe,
    Socket,
    /// Terminals, event counters and the like: ready means that the call does not wait.
    Other,
}

/// A pipe that is ready takes this much at once.
pub const PIPE_ATOMIC: u64 = 4096;
const MOST_PARTS: u64 = 1024;
const NO_WAIT: u64 = libc::RWF_NOWAIT as u64;
/// The position that stands for the descriptor's own.
const CURRENT: u64 = u64::MAX;

pub fn transfer(
    engine: &Engine,
    context: &mut Context,
    number: u64,
    arguments: Arguments,
    fd: i32,
    events: i16,
) -> i64 {
    if engine.turn.is_alone() {
        return kernel::call_interruptible(number, arguments);
    }
    let kind = kind_of(fd);
    if kind == Kind::File || never_waits(number, arguments) || !waits(fd) {
        return kernel::call_interruptible(number, arguments);
    }
    let mut waiter = Waiter { engine, context, fd, events, kind };
    match (kind, number as i64) {
        (Kind::Other, _) | (_, libc::SYS_accept | libc::SYS_accept4) => waiter.when_ready(number, arguments),
        _ if wants_everything(number, arguments) => waiting::outside(engine, waiter.context, number, arguments),
        (_, libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg) => {
            waiter.receive(number, arguments)
        }
        _ => match Outgoing::of(kind, number, arguments) {
            Some(outgoing) => waiter.send(outgoing, number, arguments),
            None => waiting::outside(engine, waiter.context, number, arguments),
        },
    }
}

pub fn kind_of(fd: i32) -> Kind {
    let mut status = [0u64; 18];
    kernel::call(libc::SYS_fstat as u64, [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]);
    match status[3] as u32 & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Kind::File,
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFSOCK => Kind::Socket,
        _ => Kind::Other,
    }
}

/// Whether calls on the descriptor wait at all.
pub fn waits(fd: i32) -> bool {
    status_flags(fd).is_some_and(|flags| flags & libc::O_NONBLOCK == 0)
}

/// The status flags of an open descriptor.
pub fn status_flags(fd: i32) -> Option<i32> {
    i32::try_from(kernel::call(libc::SYS_fcntl as u64, [fd as u64, libc::F_GETFL as u64, 0, 0, 0, 0]))
        .ok()
        .filter(|flags| *flags >= 0)
}

/// Whether a socket's data is a stream, which may be cut anywhere.
pub fn is_stream(fd: i32) -> bool {
    let (mut kind, mut size) = (0i32, 4u32);
    let (kind_at, size_at) = ((&raw mut kind) as u64, (&raw mut size) as u64);
    let arguments = [fd as u64, libc::SOL_SOCKET as u64, libc::SO_TYPE as u64, kind_at, size_at, 0];
    kernel::call(libc::SYS_getsockopt as u64, arguments) == 0 && kind == libc::SOCK_STREAM
}

/// The flags of a socket call.
pub fn message_flags(number: u64, arguments: Arguments) -> i32 {
    match number as i64 {
        libc::SYS_recvfrom | libc::SYS_sendto | libc::SYS_recvmmsg | libc::SYS_sendmmsg => arguments[3] as i32,
        libc::SYS_recvmsg | libc::SYS_sendmsg => arguments[2] as i32,
        _ => 0,
    }
}

/// Whether the call itself asks not to wait, or asks for what is never waited for.
pub fn never_waits(number: u64, arguments: Arguments) -> bool {
    match number as i64 {
        libc::SYS_preadv2 | libc::SYS_pwritev2 => arguments[5] & NO_WAIT != 0,
        _ => message_flags(number, arguments) & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0,
    }
}

/// Whether one readiness of the descriptor may not be enough.
fn wants_everything(number: u64, arguments: Arguments) -> bool {
    let several =
        matches!(number as i64, libc::SYS_recvmmsg | libc::SYS_sendmmsg | libc::SYS_preadv2 | libc::SYS_pwritev2);
    several || message_flags(number, arguments) & libc::MSG_WAITALL != 0
}

fn poll_now(polls: &mut [libc::pollfd]) -> i64 {
    kernel::call(libc::SYS_poll as u64, [polls.as_mut_ptr() as u64, polls.len() as u64, 0, 0, 0, 0])
}

/// How long the guest told a socket to wait for such events; `None` if as long as it takes, or if it is no socket.
pub fn patience(fd: i32, events: i16) -> Option<Duration> {
    let option = if events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let (mut time, mut size) = ([0u64; 2], 16u32);
    let (time_at, size_at) = (time.as_mut_ptr() as u64, (&raw mut size) as u64);
    let arguments = [fd as u64, libc::SOL_SOCKET as u64, option as u64, time_at, size_at, 0];
    let result = kernel::call(libc::SYS_getsockopt as u64, arguments);
    let [seconds, microseconds] = time;
    (result == 0 && time != [0; 2]).then(|| Duration::new(seconds, microseconds as u32 * 1000))
}

/// A thread that uses a descriptor for which it may have to wait.
struct Waiter<'a> {
    engine: &'a Engine,
    context: &'a mut Context,
    fd: i32,
    events: i16,
    kind: Kind,
}

impl Waiter<'_> {
    fn poll(&self) -> [libc::pollfd; 1] {
        [libc::pollfd { fd: self.fd, events: self.events, revents: 0 }]
    }

    fn is_ready(&self) -> bool {
        poll_now(&mut self.poll()) != 0
    }

    /// Waits until the descriptor is ready; `Err` is what the call is to give instead.
    fn wait(&mut self) -> Result<(), i64> {
        let patience = if self.kind == Kind::Socket { patience(self.fd, self.events) } else { None };
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let wait = Wait::Descriptors(self.poll().to_vec());
        match self.engine.turn.wait(self.context, wait, deadline) {
            Outcome::Satisfied => Ok(()),
            Outcome::TimedOut => Err(error(libc::EAGAIN)),
            Outcome::Interrupted => Err(error(libc::EINTR)),
        }
    }

    /// A call that can only be made as it is. Another process may have the descriptor too and be faster than we are:
    /// then the call waits, which it must not do with the turn.
    fn when_ready(&mut self, number: u64, arguments: Arguments) -> i64 {
        if !self.is_ready()
            && let Err(code) = self.wait()
        {
            return code;
        }
        if self.engine.shares_descriptors() {
            return waiting::outside(self.engine, self.context, number, arguments);
        }
        kernel::call_interruptible(number, arguments)
    }

    fn receive(&mut self, number: u64, arguments: Arguments) -> i64 {
        if number as i64 == libc::SYS_read && arguments[2] == 0 {
            return kernel::call_interruptible(number, arguments);
        }
        loop {
            let result = receive_at_once(self.kind, number, arguments);
            if result == error(libc::EOPNOTSUPP) {
                return self.when_ready(number, arguments);
            }
            if result != error(libc::EAGAIN) {
                return result;
            }
            if self.is_ready() {
                return waiting::outside(self.engine, self.context, number, arguments);
            }
            if let Err(code) = self.wait() {
                return code;
            }
        }
    }

    fn send(&mut self, mut outgoing: Outgoing, number: u64, arguments: Arguments) -> i64 {
        if self.kind == Kind::Pipe && outgoing.total() <= PIPE_ATOMIC {
            return self.when_ready(number, arguments);
        }
        let mut sent = 0;
        let result = loop {
            let result = outgoing.send(self.fd, true);
            if result >= 0 {
                sent += result;
                outgoing.advance(result as u64);
                if result == 0 || outgoing.total() == 0 {
                    break 0;
                }
            } else if result != error(libc::EAGAIN) && result != error(libc::EOPNOTSUPP) {
                break result;
            } else if result == error(libc::EOPNOTSUPP) || self.is_ready() {
                let result = self.send_outside(&outgoing);
                sent += result.max(0);
                break result;
            } else if let Err(code) = self.wait() {
                break code;
            }
        };
        if sent > 0 { sent } else { result }
    }

    fn send_outside(&mut self, outgoing: &Outgoing) -> i64 {
        self.engine.turn.go_outside(self.context);
        let result = outgoing.send(self.fd, false);
        self.engine.turn.come_back(self.context);
        result
    }
}

/// The same call, answered with `EAGAIN` where it would wait.
fn receive_at_once(kind: Kind, number: u64, mut arguments: Arguments) -> i64 {
    let [fd, buffer, length, ..] = arguments;
    let flag = libc::MSG_DONTWAIT as u64;
    let part = [buffer, length];
    match (number as i64, kind) {
        (libc::SYS_read, Kind::Socket) => {
            kernel::call_interruptible(libc::SYS_recvfrom as u64, [fd, buffer, length, flag, 0, 0])
        }
        (libc::SYS_readv, Kind::Socket) => {
            let header = [0, 0, buffer, length, 0, 0, 0u64];
            kernel::call_interruptible(libc::SYS_recvmsg as u64, [fd, header.as_ptr() as u64, flag, 0, 0, 0])
        }
        (libc::SYS_read, _) => {
            let arguments = [fd, part.as_ptr() as u64, 1, CURRENT, CURRENT, NO_WAIT];
            kernel::call_interruptible(libc::SYS_preadv2 as u64, arguments)
        }
        (libc::SYS_readv, _) => {
            kernel::call_interruptible(libc::SYS_preadv2 as u64, [fd, buffer, length, CURRENT, CURRENT, NO_WAIT])
        }
        (libc::SYS_recvfrom, _) => {
            arguments[3] |= flag;
            kernel::call_interruptible(number, arguments)
        }
        _ => {
            arguments[2] |= flag;
            kernel::call_interruptible(number, arguments)
        }
    }
}

/// What is left to be sent.
struct Outgoing {
    kind: Kind,
    /// Address and length of each part.
    parts: Vec<[u64; 2]>,
    /// Address of a name and its length, and of control data and its length.
    name: [u64; 2],
    control: [u64; 2],
    flags: u64,
}

impl Outgoing {
    /// What the call sends; `None` if the kernel had better look at it.
    fn of(kind: Kind, number: u64, arguments: Arguments) -> Option<Outgoing> {
        let [_, first, second, ..] = arguments;
        let mut outgoing = Outgoing { kind, parts: vec![[first, second]], name: [0; 2], control: [0; 2], flags: 0 };
        match number as i64 {
            libc::SYS_write => {}
            libc::SYS_writev => outgoing.parts = read_parts(first, second)?,
            libc::SYS_sendto => {
                outgoing.flags = arguments[3];
                outgoing.name = [arguments[4], arguments[5]];
            }
            libc::SYS_sendmsg => {
                outgoing.flags = second;
                let [name, name_size, parts, count, control, control_size] = read_words(first)?;
                outgoing.name = [name, name_size & 0xffff_ffff];
                outgoing.parts = read_parts(parts, count)?;
                outgoing.control = [control, control_size];
            }
            _ => return None,
        }
        (outgoing.total() != 0).then_some(outgoing)
    }

    fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part[1]))
    }

    /// Takes away what was sent; what accompanies the data goes with its first byte.
    fn advance(&mut self, mut count: u64) {
        self.control = [0; 2];
        for [address, length] in &mut self.parts {
            let taken = count.min(*length);
            *address += taken;
            *length -= taken;
            count -= taken;
        }
        self.parts.retain(|part| part[1] != 0);
    }

    fn send(&self, fd: i32, at_once: bool) -> i64 {
        let (parts, count) = (self.parts.as_ptr() as u64, self.parts.len() as u64);
        if self.kind == Kind::Socket {
            let header = [self.name[0], self.name[1], parts, count, self.control[0], self.control[1], 0];
            let flags = self.flags | if at_once { libc::MSG_DONTWAIT as u64 } else { 0 };
            let arguments = [fd as u64, header.as_ptr() as u64, flags, 0, 0, 0];
            return kernel::call_interruptible(libc::SYS_sendmsg as u64, arguments);
        }
        let flags = if at_once { NO_WAIT } else { 0 };
        kernel::call_interruptible(libc::SYS_pwritev2 as u64, [fd as u64, parts, count, CURRENT, CURRENT, flags])
    }
}

fn read_words<const COUNT: usize>(address: u64) -> Option<[u64; COUNT]> {
    let mut words = [0; COUNT];
    for (index, word) in words.iter_mut().enumerate() {
        *word = kernel::read(address + 8 * index as u64).ok()?;
    }
    Some(words)
}

pub fn read_parts(address: u64, count: u64) -> Option<Vec<[u64; 2]>> {
    (count <= MOST_PARTS).then_some(())?;
    (0..count).map(|index| kernel::read(address + 16 * index).ok()).collect()
}

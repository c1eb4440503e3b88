//! What becomes of system calls that a fault strikes: they move less than they were asked to, fail, or end a wait early.
//! Every outcome is one that the kernel could give.
//!
//! Whether something is ready, or a child has ended, is the outside's affair, so it has no part in who is struck: what may
//! wait may have had to.

use super::transfer::{self, Kind, PIPE_ATOMIC};
use super::{error, futex, restarts, waiting};
use crate::context::Context;
use crate::engine::Engine;
use crate::faults::tell;
use crate::kernel::Arguments;
use guest::syscall::{Class, Restart, Syscall};
use sched::FaultKind;

/// What a struck call comes to.
pub enum Struck {
    /// It is not made, and gives this.
    Result(i64),
    Shorter(Shorter),
}

/// A call that is to move less.
pub struct Shorter {
    arguments: Arguments,
    /// Where the argument of that number points to, if it is a list of parts.
    parts: Option<(usize, Vec<[u64; 2]>)>,
}

impl Shorter {
    /// What the call is made with, as long as this lives.
    pub fn arguments(&self) -> Arguments {
        let mut arguments = self.arguments;
        if let Some((position, parts)) = &self.parts {
            arguments[*position] = parts.as_ptr() as u64;
            arguments[*position + 1] = parts.len() as u64;
        }
        arguments
    }
}

/// What becomes of the call, if something goes wrong with it.
pub fn strike(engine: &Engine, context: &Context, call: &Syscall, arguments: Arguments) -> Option<Struck> {
    engine.options.faults.as_ref()?;
    let candidate = Candidate { engine, context, call, arguments };
    candidate
        .cut_short()
        .or_else(|| candidate.interrupt())
        .or_else(|| candidate.wake())
        .or_else(|| candidate.refuse_memory())
}

/// A call that may be struck.
struct Candidate<'a> {
    engine: &'a Engine,
    context: &'a Context,
    call: &'a Syscall,
    arguments: Arguments,
}

impl Candidate<'_> {
    fn may_be_struck(&self, kind: FaultKind) -> bool {
        self.engine.world().faults_for(self.context).is_some_and(|faults| faults.may_strike(kind))
    }

    fn is_struck(&self, kind: FaultKind) -> bool {
        self.engine.world().faults_for(self.context).is_some_and(|faults| faults.strikes(kind))
    }

    fn tell(&self, what: &str) {
        tell(self.engine, self.context, &format!("{} {what}", self.call.name));
    }

    fn number(&self) -> i64 {
        i64::from(self.call.number)
    }

    fn cut_short(&self) -> Option<Struck> {
        let amount = Amount::of(self.number(), self.arguments).filter(|_| self.may_be_struck(FaultKind::Short))?;
        let total = amount.total();
        if total < 2 || !self.can_be_short(total) || !self.is_struck(FaultKind::Short) {
            return None;
        }
        let part = self.engine.world().faults_for(self.context)?.part_of(total);
        self.tell(&format!("moves {part} of {total} bytes"));
        Some(Struck::Shorter(amount.cut(self.arguments, part)))
    }

    fn reads(&self) -> bool {
        matches!(self.call.class, Class::WaitsRead { .. })
            || matches!(self.number(), libc::SYS_pread64 | libc::SYS_preadv)
    }

    /// Whether what the descriptor leads to may take or give less: datagrams go as a whole, and so do small writes to pipes.
    /// A disk may be full in the middle of a write; but what a file has, only a signal keeps from who reads.
    fn can_be_short(&self, total: u64) -> bool {
        const WHOLE: i32 = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_OOB | libc::MSG_ERRQUEUE;
        let descriptor = self.arguments[0] as i32;
        let flags = transfer::message_flags(self.number() as u64, self.arguments);
        let goes = match transfer::kind_of(descriptor) {
            Kind::File => !self.reads() || self.engine.world().actions(self.context).can_interrupt(false),
            Kind::Pipe => self.reads() || total > PIPE_ATOMIC,
            Kind::Socket => flags & WHOLE == 0 && transfer::is_stream(descriptor),
            Kind::Other => false,
        };
        goes && transfer::status_flags(descriptor).is_some_and(|flags| flags & libc::O_DIRECT == 0)
    }

    fn interrupt(&self) -> Option<Struck> {
        if self.call.restart == Restart::NotInterruptible || !self.may_be_struck(FaultKind::Interruption) {
            return None;
        }
        let restarts = restarts(self.call, self.arguments);
        let has_handler = self.engine.world().actions(self.context).can_interrupt(restarts);
        if !has_handler || !self.may_wait() || !self.is_struck(FaultKind::Interruption) {
            return None;
        }
        if self.call.class == Class::WaitsTime {
            waiting::leave_all(self.call.number.into(), self.arguments);
        }
        self.tell("is interrupted");
        Some(Struck::Result(error(libc::EINTR)))
    }

    fn may_wait(&self) -> bool {
        let (number, arguments) = (self.number(), self.arguments);
        match self.call.class {
            Class::WaitsRead { fd_arg } | Class::WaitsWrite { fd_arg } => {
                let descriptor = arguments[fd_arg as usize] as i32;
                transfer::kind_of(descriptor) != Kind::File
                    && transfer::waits(descriptor)
                    && !transfer::never_waits(number as u64, arguments)
            }
            Class::WaitsMany => waiting::takes_time(number as u64, arguments),
            Class::WaitsTime => true,
            _ => match number {
                libc::SYS_wait4 => arguments[2] & libc::WNOHANG as u64 == 0,
                libc::SYS_waitid => arguments[3] & libc::WNOHANG as u64 == 0,
                libc::SYS_flock => arguments[1] & libc::LOCK_NB as u64 == 0,
                libc::SYS_fcntl => matches!(arguments[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW),
                libc::SYS_futex => futex::would_wait(arguments),
                libc::SYS_msgrcv | libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_rt_sigtimedwait => true,
                _ => false,
            },
        }
    }

    fn wake(&self) -> Option<Struck> {
        let waits = self.number() == libc::SYS_futex && futex::would_wait(self.arguments);
        if !waits || !self.is_struck(FaultKind::Wakeup) {
            return None;
        }
        self.tell("wakes up for no reason");
        Some(Struck::Result(0))
    }

    fn refuse_memory(&self) -> Option<Struck> {
        let [first, length, wanted, flags, ..] = self.arguments;
        let heap_end = self.engine.world().space.heap_end;
        let grows = match self.number() {
            libc::SYS_mmap => flags & libc::MAP_ANONYMOUS as u64 != 0 && flags & FIXED == 0,
            libc::SYS_mremap => wanted > length && flags & libc::MREMAP_FIXED as u64 == 0,
            libc::SYS_brk => first > heap_end,
            _ => false,
        };
        if !grows || !self.is_struck(FaultKind::Memory) {
            return None;
        }
        self.tell("gets no memory");
        // Where the break stays is all that its call tells.
        let is_break = self.number() == libc::SYS_brk;
        Some(Struck::Result(if is_break { heap_end as i64 } else { error(libc::ENOMEM) }))
    }
}

const FIXED: u64 = (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64;

/// How much a call is asked to move.
enum Amount {
    /// The argument of this number says it.
    Bytes { position: usize, total: u64 },
    /// The list of parts at which this argument points.
    Parts { position: usize, parts: Vec<[u64; 2]> },
}

impl Amount {
    fn of(number: i64, arguments: Arguments) -> Option<Amount> {
        let position = match number {
            libc::SYS_readv | libc::SYS_writev | libc::SYS_preadv | libc::SYS_pwritev => {
                let parts = transfer::read_parts(arguments[1], arguments[2])?;
                return Some(Amount::Parts { position: 1, parts });
            }
            libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => 2,
            libc::SYS_recvfrom | libc::SYS_sendto => 2,
            libc::SYS_sendfile => 3,
            libc::SYS_copy_file_range => 4,
            _ => return None,
        };
        Some(Amount::Bytes { position, total: arguments[position] })
    }

    fn total(&self) -> u64 {
        match self {
            Amount::Bytes { total, .. } => *total,
            Amount::Parts { parts, .. } => parts.iter().fold(0, |sum, part| sum.saturating_add(part[1])),
        }
    }

    fn cut(self, mut arguments: Arguments, mut left: u64) -> Shorter {
        match self {
            Amount::Bytes { position, .. } => {
                arguments[position] = left;
                Shorter { arguments, parts: None }
            }
            Amount::Parts { position, mut parts } => {
                for part in &mut parts {
                    part[1] = part[1].min(left);
                    left -= part[1];
                }
                Shorter { arguments, parts: Some((position, parts)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_from_the_end() {
        let parts = vec![[0x1000, 4], [0x2000, 6], [0x3000, 5]];
        let amount = Amount::Parts { position: 1, parts };
        assert_eq!(amount.total(), 15);
        let shorter = amount.cut([3, 0, 0, 7, 0, 0], 7);
        let (_, cut) = shorter.parts.as_ref().expect("a list of parts");
        assert_eq!(cut, &[[0x1000, 4], [0x2000, 3], [0x3000, 0]]);
        assert_eq!((shorter.arguments()[0], shorter.arguments()[2], shorter.arguments()[3]), (3, 3, 7));
    }

    #[test]
    fn an_amount_may_stand_anywhere() {
        let arguments = [1, 2, 30, 40, 50, 6];
        let total = |number| Amount::of(number, arguments).map(|amount| amount.total());
        assert_eq!(total(libc::SYS_write), Some(30));
        assert_eq!(total(libc::SYS_sendfile), Some(40));
        assert_eq!(total(libc::SYS_copy_file_range), Some(50));
        assert_eq!(total(libc::SYS_getpid), None);
        assert_eq!(Amount::of(libc::SYS_read, arguments).expect("an amount").cut(arguments, 9).arguments()[2], 9);
    }
}

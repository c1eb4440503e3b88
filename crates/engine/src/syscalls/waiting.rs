//! Calls that may wait. While other guest threads exist, a wait is handed to the scheduler where it can be expressed
//! as data (descriptors, time); otherwise the thread gives up its turn and waits in the kernel.

use super::{beside, error, signals::wait_with_mask, store};
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel::{self, Arguments};
use crate::turn::{Outcome, Wait};
use sched::Reason;
use std::time::{Duration, Instant};

/// A call that may wait for anything: without the turn.
pub fn anything(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    if is_prompt_request(number, arguments) {
        return kernel::call(number, arguments);
    }
    if number as i64 == libc::SYS_wait4
        && let Some(result) = beside::report_stop(engine, context, arguments)
    {
        return result;
    }
    outside(engine, context, number, arguments)
}

/// Makes a call without the turn.
pub fn outside(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    engine.turn.go_outside(context);
    let result = kernel::call_interruptible(number, arguments);
    engine.turn.come_back(context);
    result
}

/// Calls that wait only for some of their requests.
fn is_prompt_request(number: u64, arguments: Arguments) -> bool {
    match number as i64 {
        libc::SYS_fcntl => !matches!(arguments[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW),
        // Terminal requests that drain wait; nearly all others do not.
        libc::SYS_ioctl => !matches!(arguments[1], TCSBRK | TCSBRKP | TCSETSW | TCSETSF),
        _ => false,
    }
}

const TCSETSW: u64 = 0x5403;
const TCSETSF: u64 = 0x5404;
const TCSBRK: u64 = 0x5409;
const TCSBRKP: u64 = 0x5425;

pub fn yield_turn(engine: &Engine, context: &mut Context) -> i64 {
    if engine.turn.is_alone() {
        return 0;
    }
    engine.turn.switch(context, Reason::Yielded, None);
    0
}

/// Polls and their relatives.
pub fn many(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    if let Some((position, size_position)) = mask_position(number)
        && arguments[position] != 0
    {
        return many_with_mask(engine, context, number, arguments, position, size_position);
    }
    if engine.turn.is_alone() {
        return kernel::call_interruptible(number, arguments);
    }
    let Some(deadline) = deadline_of(number, arguments) else {
        return kernel::call_interruptible(number, arguments); // the kernel knows the error
    };
    let watched = watched_descriptors(number, arguments);
    let (Deadline::At(_) | Deadline::Never, Some(watched)) = (&deadline, watched) else {
        return kernel::call(number, without_waiting(number, arguments).0);
    };
    let until = match deadline {
        Deadline::At(instant) => Some(instant),
        _ => None,
    };
    let result = until_ready(engine, context, number, arguments, &watched, until);
    if let Some(until) = until {
        store_rest(number, arguments, until.saturating_duration_since(Instant::now()));
    }
    result
}

/// Tries again and again, with the scheduler's wait in between.
fn until_ready(
    engine: &Engine,
    context: &mut Context,
    number: u64,
    arguments: Arguments,
    watched: &[libc::pollfd],
    until: Option<Instant>,
) -> i64 {
    loop {
        let before = Sets::save(number, arguments);
        let (now, _zero) = without_waiting(number, arguments);
        let result = kernel::call(number, now);
        let over = until.is_some_and(|until| Instant::now() >= until);
        if result != 0 || over {
            return result;
        }
        before.restore();
        match engine.turn.wait(context, Wait::Descriptors(watched.to_vec()), until) {
            Outcome::Interrupted => return error(libc::EINTR),
            Outcome::Satisfied | Outcome::TimedOut => {}
        }
    }
}

/// Some calls tell how much of their time is left, whatever they end with.
fn store_rest(number: u64, arguments: Arguments, left: Duration) {
    let (address, unit) = match number as i64 {
        libc::SYS_select => (arguments[4], 1000),
        libc::SYS_pselect6 => (arguments[4], 1),
        libc::SYS_ppoll => (arguments[2], 1),
        _ => return,
    };
    // Where the kernel cannot store it, it says nothing either.
    let _ = kernel::write(address, [left.as_secs(), u64::from(left.subsec_nanos() / unit)]);
}

enum Deadline {
    Now,
    At(Instant),
    Never,
}

fn after(left: Duration) -> Deadline {
    if left.is_zero() {
        return Deadline::Now;
    }
    Instant::now().checked_add(left).map_or(Deadline::Never, Deadline::At)
}

/// When a poll's wait ends; `None` if its timeout cannot be read.
fn deadline_of(number: u64, arguments: Arguments) -> Option<Deadline> {
    let milliseconds = |value: u64| match value as i32 {
        negative if negative < 0 => Deadline::Never,
        value => after(Duration::from_millis(value as u64)),
    };
    let pair = |address: u64, unit: u32| {
        if address == 0 {
            return Some(Deadline::Never);
        }
        let [seconds, part] = kernel::read::<[u64; 2]>(address).ok()?;
        let valid = seconds as i64 >= 0 && part < u64::from(1_000_000_000 / unit);
        valid.then(|| after(Duration::new(seconds.min(1 << 40), part as u32 * unit)))
    };
    match number as i64 {
        libc::SYS_poll => Some(milliseconds(arguments[2])),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Some(milliseconds(arguments[3])),
        libc::SYS_ppoll => pair(arguments[2], 1),
        SYS_EPOLL_PWAIT2 => pair(arguments[3], 1),
        libc::SYS_pselect6 => pair(arguments[4], 1),
        _ => pair(arguments[4], 1000),
    }
}

/// Whether a poll may wait at all.
pub fn takes_time(number: u64, arguments: Arguments) -> bool {
    matches!(deadline_of(number, arguments), Some(Deadline::At(_) | Deadline::Never))
}

const SYS_EPOLL_PWAIT2: i64 = 441;

/// The same call with a timeout of zero; the second part keeps the zero alive.
fn without_waiting(number: u64, mut arguments: Arguments) -> (Arguments, &'static [u64; 2]) {
    static ZERO: [u64; 2] = [0; 2];
    // A select may write the rest of its timeout back: it gets one of its own.
    thread_local!(static SCRATCH: std::cell::Cell<[u64; 2]> = const { std::cell::Cell::new([0; 2]) });
    let zero = ZERO.as_ptr() as u64;
    match number as i64 {
        libc::SYS_poll => arguments[2] = 0,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => arguments[3] = 0,
        libc::SYS_ppoll => {
            SCRATCH.set([0; 2]);
            arguments[2] = SCRATCH.with(|cell| cell.as_ptr() as u64);
        }
        SYS_EPOLL_PWAIT2 => arguments[3] = zero,
        _ => {
            SCRATCH.set([0; 2]);
            arguments[4] = SCRATCH.with(|cell| cell.as_ptr() as u64);
        }
    }
    (arguments, &ZERO)
}

/// What a poll watches, in the form of `poll`.
fn watched_descriptors(number: u64, arguments: Arguments) -> Option<Vec<libc::pollfd>> {
    match number as i64 {
        libc::SYS_poll | libc::SYS_ppoll => {
            let count = usize::try_from(arguments[1]).ok().filter(|&count| count <= 65_536)?;
            let read = |index: usize| {
                let word = kernel::read::<u64>(arguments[0] + 8 * index as u64).ok()?;
                Some(libc::pollfd { fd: word as i32, events: (word >> 32) as i16, revents: 0 })
            };
            (0..count).map(read).collect()
        }
        libc::SYS_select | libc::SYS_pselect6 => selected(arguments),
        _ => Some(vec![libc::pollfd { fd: arguments[0] as i32, events: libc::POLLIN, revents: 0 }]),
    }
}

fn selected(arguments: Arguments) -> Option<Vec<libc::pollfd>> {
    let count = usize::try_from(arguments[0]).ok().filter(|&count| count <= 65_536)?;
    let kinds = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let mut polls = Vec::new();
    for (events, &set) in kinds.into_iter().zip(&arguments[1..4]) {
        if set == 0 {
            continue;
        }
        for fd in 0..count {
            let word: u64 = kernel::read(set + 8 * (fd as u64 / 64)).ok()?;
            if word >> (fd % 64) & 1 != 0 {
                polls.push(libc::pollfd { fd: fd as i32, events, revents: 0 });
            }
        }
    }
    Some(polls)
}

/// What every try overwrites, though the call has not ended: the descriptor sets of a `select`, the results of a `poll`.
struct Sets(Vec<(u64, Vec<u8>)>);

impl Sets {
    fn save(number: u64, arguments: Arguments) -> Sets {
        let (places, length) = match number as i64 {
            libc::SYS_select | libc::SYS_pselect6 => {
                (&arguments[1..4], (arguments[0].min(65_536) as usize).div_ceil(64) * 8)
            }
            libc::SYS_poll | libc::SYS_ppoll => (&arguments[..1], arguments[1].min(65_536) as usize * 8),
            _ => (&arguments[..0], 0),
        };
        let mut sets = Vec::new();
        for &address in places.iter().filter(|&&address| address != 0) {
            let mut bytes = vec![0; length];
            if kernel::read_bytes(address, &mut bytes).is_ok() {
                sets.push((address, bytes));
            }
        }
        Sets(sets)
    }

    fn restore(self) {
        for (address, bytes) in self.0 {
            // It was readable a moment ago; if it cannot be written the next try fails with the right error.
            let _ = kernel::write_bytes(address, &bytes);
        }
    }
}

/// Which argument points to a signal mask, and where its size is.
fn mask_position(number: u64) -> Option<(usize, usize)> {
    match number as i64 {
        libc::SYS_ppoll => Some((3, 4)),
        libc::SYS_epoll_pwait | SYS_EPOLL_PWAIT2 => Some((4, 5)),
        // A pair of pointer and size.
        libc::SYS_pselect6 => Some((5, 5)),
        _ => None,
    }
}

fn many_with_mask(
    engine: &Engine,
    context: &mut Context,
    number: u64,
    mut arguments: Arguments,
    position: usize,
    size_position: usize,
) -> i64 {
    let pair = position == size_position;
    let address = if pair {
        match kernel::read::<u64>(arguments[position]) {
            Ok(0) => return kernel::call_interruptible(number, arguments),
            Ok(address) => address,
            Err(_) => return error(libc::EFAULT),
        }
    } else {
        arguments[position]
    };
    let Ok(mask) = kernel::read::<u64>(address) else { return error(libc::EFAULT) };
    wait_with_mask(engine, context, mask, |kernel_mask| {
        let kernel_mask: *const u64 = kernel_mask;
        let words = [kernel_mask as u64, 8];
        arguments[position] = if pair { words.as_ptr() as u64 } else { words[0] };
        kernel::call_interruptible(number, arguments)
    })
}

/// Sleeps.
pub fn time(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    if engine.turn.is_alone() {
        return kernel::call_interruptible(number, arguments);
    }
    let (clock, absolute, request, rest) = match number as i64 {
        libc::SYS_nanosleep => (libc::CLOCK_MONOTONIC, false, arguments[0], arguments[1]),
        _ => (arguments[0] as i32, arguments[1] as i32 & libc::TIMER_ABSTIME != 0, arguments[2], arguments[3]),
    };
    let Ok([seconds, nanoseconds]) = kernel::read::<[u64; 2]>(request) else { return error(libc::EFAULT) };
    if seconds as i64 >= 0
        && nanoseconds < 1_000_000_000
        && matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME)
    {
        let wanted = Duration::new(seconds.min(1 << 40), nanoseconds as u32);
        let left = if absolute { wanted.saturating_sub(read_clock(clock)) } else { wanted };
        return sleep(engine, context, left, if absolute { 0 } else { rest });
    }
    anything(engine, context, number, arguments)
}

fn sleep(engine: &Engine, context: &mut Context, left: Duration, rest: u64) -> i64 {
    let deadline = Instant::now() + left;
    match engine.turn.wait(context, Wait::Time, Some(deadline)) {
        Outcome::Satisfied | Outcome::TimedOut => 0,
        Outcome::Interrupted => {
            let left = deadline.saturating_duration_since(Instant::now());
            if rest != 0 && store(rest, [left.as_secs(), u64::from(left.subsec_nanos())]) != 0 {
                return error(libc::EFAULT);
            }
            error(libc::EINTR)
        }
    }
}

/// Tells the guest that all is left of the time that it wanted to sleep, where it wants to know.
pub fn leave_all(number: u64, arguments: Arguments) {
    let (request, rest) = match number as i64 {
        libc::SYS_nanosleep => (arguments[0], arguments[1]),
        _ if arguments[1] as i32 & libc::TIMER_ABSTIME == 0 => (arguments[2], arguments[3]),
        _ => return,
    };
    if rest != 0
        && let Ok(time) = kernel::read::<[u64; 2]>(request)
    {
        store(rest, time);
    }
}

/// Reads a clock of the system.
pub fn read_clock(clock: i32) -> Duration {
    let mut pair = [0u64; 2];
    kernel::call(libc::SYS_clock_gettime as u64, [clock as u64, pair.as_mut_ptr() as u64, 0, 0, 0, 0]);
    Duration::new(pair[0], pair[1] as u32)
}

/// `clock_gettime`, for the usual clocks without entering the kernel.
pub fn clock(arguments: Arguments) -> i64 {
    match kernel::fast_clock(arguments[0] as i32) {
        Some(pair) => store(arguments[1], pair),
        None => kernel::call(libc::SYS_clock_gettime as u64, arguments),
    }
}

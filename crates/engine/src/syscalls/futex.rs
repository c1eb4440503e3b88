//! Futexes, emulated by the scheduler: who waits and who is woken is known, and the same in every run.
//!
//! Memory that other processes share is watched besides, since their wakes go to the kernel.

use super::error;
use crate::context::Context;
use crate::engine::Engine;
use crate::faults;
use crate::journal::write_down;
use crate::kernel::{self, Arguments};
use crate::turn::{Outcome, Wait};
use std::time::{Duration, Instant};

const ANY: u32 = u32::MAX;
const WAITERS: u32 = libc::FUTEX_WAITERS;
const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
const OWNER: u32 = libc::FUTEX_TID_MASK;

pub fn futex(engine: &Engine, context: &mut Context, arguments: Arguments) -> i64 {
    let [address, operation, value, extra, second, last] = arguments;
    let command = operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    if address % 4 != 0 {
        return error(libc::EINVAL);
    }
    if engine.options.faults.is_some() && wakes(command) {
        faults::reorder_waiters(engine, context, address);
    }
    let private = operation as i32 & libc::FUTEX_PRIVATE_FLAG != 0;
    if !private && is_shared(engine, address) {
        return shared(engine, context, arguments, command);
    }
    let value = value as u32;
    match command {
        libc::FUTEX_WAIT => wait(engine, context, address, value, ANY, Timeout::relative(extra)),
        libc::FUTEX_WAIT_BITSET => {
            let realtime = operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
            wait(engine, context, address, value, last as u32, Timeout::absolute(extra, realtime))
        }
        libc::FUTEX_WAKE => i64::from(engine.turn.wake_futex(address, value, ANY)),
        libc::FUTEX_WAKE_BITSET if last as u32 == 0 => error(libc::EINVAL),
        libc::FUTEX_WAKE_BITSET => i64::from(engine.turn.wake_futex(address, value, last as u32)),
        libc::FUTEX_REQUEUE => requeue(engine, address, second, value, extra as u32),
        libc::FUTEX_CMP_REQUEUE => match kernel::read::<u32>(address) {
            Ok(now) if now != last as u32 => error(libc::EAGAIN),
            Ok(_) => requeue(engine, address, second, value, extra as u32),
            Err(_) => error(libc::EFAULT),
        },
        libc::FUTEX_WAKE_OP => wake_and_operate(engine, address, second, value, extra as u32, last as u32),
        libc::FUTEX_LOCK_PI => lock_pi(engine, context, address, Timeout::absolute(extra, true)),
        FUTEX_LOCK_PI2 => {
            let realtime = operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
            lock_pi(engine, context, address, Timeout::absolute(extra, realtime))
        }
        libc::FUTEX_TRYLOCK_PI => match try_lock_pi(context, address) {
            Ok(true) => 0,
            Ok(false) => error(libc::EAGAIN),
            Err(code) => code,
        },
        libc::FUTEX_UNLOCK_PI => unlock_pi(engine, context, address),
        // Condition variables with priority inheritance fall back on plain ones.
        _ => error(libc::ENOSYS),
    }
}

const FUTEX_LOCK_PI2: i32 = 13;

fn wakes(command: i32) -> bool {
    const WAKES: [i32; 6] = [
        libc::FUTEX_WAKE,
        libc::FUTEX_WAKE_BITSET,
        libc::FUTEX_REQUEUE,
        libc::FUTEX_CMP_REQUEUE,
        libc::FUTEX_WAKE_OP,
        libc::FUTEX_UNLOCK_PI,
    ];
    WAKES.contains(&command)
}

/// Whether the call waits for a wake, as things are.
pub fn would_wait(arguments: Arguments) -> bool {
    let [address, operation, value, ..] = arguments;
    let command = operation as i32 & libc::FUTEX_CMD_MASK;
    matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) && kernel::read::<u32>(address) == Ok(value as u32)
}

/// Whether the call waits, and not for ever.
pub fn waits_limited(arguments: Arguments) -> bool {
    let [_, operation, _, timeout, ..] = arguments;
    let command = operation as i32 & libc::FUTEX_CMD_MASK;
    timeout != 0 && matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
}

fn is_shared(engine: &Engine, address: u64) -> bool {
    engine.world().space.find(address).is_some_and(|(_, mapping)| mapping.shared.is_some())
}

/// When a wait is to end.
enum Timeout {
    Never,
    At(Instant),
    Invalid(i64),
}

impl Timeout {
    fn read(address: u64) -> Result<Duration, i64> {
        let [seconds, nanoseconds] = kernel::read::<[u64; 2]>(address).map_err(|_| error(libc::EFAULT))?;
        if seconds as i64 >= 0 && nanoseconds < 1_000_000_000 {
            Ok(Duration::new(seconds.min(i64::MAX as u64 / 4), nanoseconds as u32))
        } else {
            Err(error(libc::EINVAL))
        }
    }

    fn relative(address: u64) -> Timeout {
        if address == 0 {
            return Timeout::Never;
        }
        match Timeout::read(address) {
            Ok(left) => Instant::now().checked_add(left).map_or(Timeout::Never, Timeout::At),
            Err(code) => Timeout::Invalid(code),
        }
    }

    fn absolute(address: u64, realtime: bool) -> Timeout {
        if address == 0 {
            return Timeout::Never;
        }
        match Timeout::read(address) {
            Ok(end) => {
                let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
                let left = end.saturating_sub(super::waiting::read_clock(clock));
                Instant::now().checked_add(left).map_or(Timeout::Never, Timeout::At)
            }
            Err(code) => Timeout::Invalid(code),
        }
    }
}

fn wait(engine: &Engine, context: &mut Context, address: u64, value: u32, bitset: u32, timeout: Timeout) -> i64 {
    wait_for(engine, context, Wait::Futex { address, bitset }, value, timeout)
}

fn wait_for(engine: &Engine, context: &mut Context, wait: Wait, value: u32, timeout: Timeout) -> i64 {
    let (Wait::Futex { address, bitset } | Wait::SharedFutex { address, bitset, .. }) = wait else {
        return error(libc::EINVAL);
    };
    if bitset == 0 {
        return error(libc::EINVAL);
    }
    let deadline = match timeout {
        Timeout::Never => None,
        Timeout::At(instant) => Some(instant),
        Timeout::Invalid(code) => return code,
    };
    match kernel::read::<u32>(address) {
        Err(_) => return error(libc::EFAULT),
        Ok(now) if now != value => return error(libc::EAGAIN),
        Ok(_) => {}
    }
    match engine.turn.wait(context, wait, deadline) {
        Outcome::Satisfied => 0,
        Outcome::TimedOut => error(libc::ETIMEDOUT),
        Outcome::Interrupted => error(libc::EINTR),
    }
}

fn requeue(engine: &Engine, from: u64, to: u64, wake: u32, move_count: u32) -> i64 {
    if wake as i32 <= -1 || move_count as i32 <= -1 {
        return error(libc::EINVAL);
    }
    let woken = engine.turn.wake_futex(from, wake, ANY);
    i64::from(woken + engine.turn.requeue_futex(from, to, move_count))
}

/// `FUTEX_WAKE_OP`: changes the second word, wakes the first, and the second if its old value passes a test.
fn wake_and_operate(engine: &Engine, first: u64, second: u64, wake: u32, wake_second: u32, code: u32) -> i64 {
    let Ok(old) = kernel::read::<u32>(second) else { return error(libc::EFAULT) };
    let sign_extended = |value: u32| ((value << 20) as i32) >> 20;
    let mut operand = sign_extended(code >> 12) as u32;
    if code >> 28 & 8 != 0 {
        operand = 1 << (operand & 31);
    }
    let new = match code >> 28 & 7 {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        4 => old ^ operand,
        _ => return error(libc::ENOSYS),
    };
    if kernel::write(second, new).is_err() {
        return error(libc::EFAULT);
    }
    let (now, against) = (old as i32, sign_extended(code));
    let passes = match code >> 24 & 15 {
        0 => now == against,
        1 => now != against,
        2 => now < against,
        3 => now <= against,
        4 => now > against,
        5 => now >= against,
        _ => return error(libc::ENOSYS),
    };
    let mut woken = engine.turn.wake_futex(first, wake, ANY);
    if passes {
        woken += engine.turn.wake_futex(second, wake_second, ANY);
    }
    i64::from(woken)
}

/// Priority inheritance needs no priorities here: one thread runs at a time, and the owner gets its turn.
fn try_lock_pi(context: &Context, address: u64) -> Result<bool, i64> {
    let me = context.tid as u32;
    let now = kernel::read::<u32>(address).map_err(|_| error(libc::EFAULT))?;
    if now & OWNER == me {
        return Err(error(libc::EDEADLK));
    }
    if now & OWNER != 0 {
        return Ok(false);
    }
    let new = me | (now & (WAITERS | OWNER_DIED));
    kernel::compare_exchange(address, now, new).map(|seen| seen == now).map_err(|_| error(libc::EFAULT))
}

fn lock_pi(engine: &Engine, context: &mut Context, address: u64, timeout: Timeout) -> i64 {
    let deadline = match timeout {
        Timeout::Never => None,
        Timeout::At(instant) => Some(instant),
        Timeout::Invalid(code) => return code,
    };
    loop {
        match try_lock_pi(context, address) {
            Ok(true) => return 0,
            Ok(false) => {}
            Err(code) => return code,
        }
        let Ok(now) = kernel::read::<u32>(address) else { return error(libc::EFAULT) };
        if kernel::compare_exchange(address, now, now | WAITERS).is_err() {
            return error(libc::EFAULT);
        }
        // The owner looks at it while this thread waits.
        write_down(engine, |writing| writing.memory(context, address, 4));
        match engine.turn.wait(context, Wait::Futex { address, bitset: ANY }, deadline) {
            Outcome::Satisfied => {}
            Outcome::TimedOut => return error(libc::ETIMEDOUT),
            Outcome::Interrupted => return error(libc::EINTR),
        }
    }
}

fn unlock_pi(engine: &Engine, context: &Context, address: u64) -> i64 {
    let Ok(now) = kernel::read::<u32>(address) else { return error(libc::EFAULT) };
    if now & OWNER != context.tid as u32 {
        return error(libc::EPERM);
    }
    if kernel::write(address, 0u32).is_err() {
        return error(libc::EFAULT);
    }
    engine.turn.wake_futex(address, u32::MAX, ANY);
    0
}

/// Futexes between processes. A wait of one thread among several is the scheduler's, which also looks at the word,
/// so that threads of one program meet in the same order in every run; a lone thread waits in the kernel, where others
/// can wake it at once. Wakes reach waiters of both kinds.
fn shared(engine: &Engine, context: &mut Context, arguments: Arguments, command: i32) -> i64 {
    let [address, operation, value, extra, _, last] = arguments;
    let (bitset, timeout) = match command {
        libc::FUTEX_WAIT => (ANY, Timeout::relative(extra)),
        libc::FUTEX_WAIT_BITSET => {
            (last as u32, Timeout::absolute(extra, operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0))
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => return wake_shared(engine, arguments, command),
        libc::FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => {
            return super::waiting::anything(engine, context, libc::SYS_futex as u64, arguments);
        }
        _ => return kernel::call(libc::SYS_futex as u64, arguments),
    };
    if engine.turn.is_alone() {
        return kernel::call_interruptible(libc::SYS_futex as u64, arguments);
    }
    let word = value as u32;
    wait_for(engine, context, Wait::SharedFutex { address, bitset, word }, word, timeout)
}

fn wake_shared(engine: &Engine, mut arguments: Arguments, command: i32) -> i64 {
    let [address, _, count, _, _, last] = arguments;
    let bitset = if command == libc::FUTEX_WAKE_BITSET { last as u32 } else { ANY };
    let own = engine.turn.wake_futex(address, count as u32, bitset);
    if own >= count as u32 {
        return i64::from(own);
    }
    arguments[2] = count - u64::from(own);
    match kernel::call(libc::SYS_futex as u64, arguments) {
        others @ 0.. => others + i64::from(own),
        failure => failure,
    }
}

/// What the kernel does with the locks of a thread that ends: marks them as orphaned and wakes one waiter each.
pub fn release_robust_list(engine: &Engine, context: &Context) {
    const LONGEST: usize = 2048;
    let head = context.robust_list;
    kernel::call(libc::SYS_set_robust_list as u64, [0, 24, 0, 0, 0, 0]);
    let Ok([first, offset, pending]) = kernel::read::<[u64; 3]>(head) else { return };
    let mut entry = first;
    for _ in 0..LONGEST {
        if entry & !1 == head {
            break;
        }
        let Ok(next) = kernel::read::<u64>(entry & !1) else { break };
        if entry != pending {
            orphan(engine, context, (entry & !1).wrapping_add(offset));
        }
        entry = next;
    }
    if pending != 0 {
        orphan(engine, context, (pending & !1).wrapping_add(offset));
    }
}

fn orphan(engine: &Engine, context: &Context, address: u64) {
    let Ok(now) = kernel::read::<u32>(address) else { return };
    if now & OWNER != context.tid as u32 {
        return;
    }
    if kernel::write(address, (now & WAITERS) | OWNER_DIED).is_err() {
        return;
    }
    write_down(engine, |writing| writing.memory(context, address, 4));
    if now & WAITERS != 0 {
        wake_everywhere(engine, address, 1);
    }
}

/// Wakes waiters of the scheduler and of the kernel.
pub fn wake_everywhere(engine: &Engine, address: u64, count: u32) {
    engine.turn.wake_futex(address, count, ANY);
    let arguments = [address, libc::FUTEX_WAKE as u64, u64::from(count), 0, 0, 0];
    kernel::call(libc::SYS_futex as u64, arguments);
}

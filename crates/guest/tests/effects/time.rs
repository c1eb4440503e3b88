//! Clocks, timers and sleeping.

use super::arena::Expect::{Fails, FailsWriting, Writes, WritesIfAble, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{Interruptions, call, fd, open_call};

const MONOTONIC: u64 = libc::CLOCK_MONOTONIC as u64;
const NO_SIGNAL: [u64; 8] = [0, (libc::SIGEV_NONE as u64) << 32, 0, 0, 0, 0, 0, 0];

pub const CASES: &[Case] = &[
    case("gettimeofday", "with the time zone", Writes, |arena| [arena.room(16), arena.room(8), 0, 0, 0, 0]),
    case("time", "", Writes, |arena| [arena.room(8), 0, 0, 0, 0, 0]),
    case("times", "", Writes, |arena| [arena.room(32), 0, 0, 0, 0, 0]),
    case("clock_gettime", "", Writes, |arena| [MONOTONIC, arena.room(16), 0, 0, 0, 0]),
    case("clock_gettime", "a clock that is none", Fails(libc::EINVAL), |arena| [999, arena.room(16), 0, 0, 0, 0]),
    case("clock_getres", "", Writes, |arena| [MONOTONIC, arena.room(16), 0, 0, 0, 0]),
    case("clock_nanosleep", "to its end", WritesNothing, |arena| sleep(arena, 0, 1)),
    case("clock_nanosleep", "interrupted", FailsWriting(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        sleep(arena, 1000, 0)
    }),
    case("clock_nanosleep", "until a time, interrupted", Fails(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        [MONOTONIC, libc::TIMER_ABSTIME as u64, arena.put_words(&[1 << 40, 0]), arena.room(16), 0, 0]
    }),
    case("nanosleep", "to its end", WritesNothing, |arena| [arena.put_words(&[0, 1]), arena.room(16), 0, 0, 0, 0]),
    case("nanosleep", "interrupted", FailsWriting(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        [arena.put_words(&[1000, 0]), arena.room(16), 0, 0, 0, 0]
    }),
    case("getitimer", "", Writes, |arena| [1, arena.room(32), 0, 0, 0, 0]),
    case("setitimer", "with the old setting", Writes, |arena| {
        [1, arena.put_words(&[0, 0, 0, 0]), arena.room(32), 0, 0, 0]
    }),
    case("timer_create", "", Writes, |arena| [MONOTONIC, arena.put_words(&NO_SIGNAL), arena.room(4), 0, 0, 0]),
    case("timer_settime", "with the old setting", Writes, |arena| {
        [timer(), 0, arena.put_words(&[0, 0, 1000, 0]), arena.room(32), 0, 0]
    }),
    case("timer_settime", "without", WritesNothing, |arena| [timer(), 0, arena.put_words(&[0, 0, 1000, 0]), 0, 0, 0]),
    case("timer_gettime", "", Writes, |arena| [timer(), arena.room(32), 0, 0, 0, 0]),
    case("timer_getoverrun", "", WritesNothing, |_| [timer(), 0, 0, 0, 0, 0]),
    case("timer_delete", "", WritesNothing, |_| [timer(), 0, 0, 0, 0, 0]),
    case("timerfd_create", "", WritesNothing, |_| [MONOTONIC, 0, 0, 0, 0, 0]),
    case("timerfd_settime", "with the old setting", Writes, |arena| {
        [timer_file(arena), 0, arena.put_words(&[0, 0, 1000, 0]), arena.room(32), 0, 0]
    }),
    case("timerfd_gettime", "", Writes, |arena| [timer_file(arena), arena.room(32), 0, 0, 0, 0]),
    case("read", "from a timer", Writes, |arena| {
        let timer = timer_file(arena);
        let soon = arena.put_words(&[0, 0, 0, 1]);
        call(libc::SYS_timerfd_settime, &[timer, 0, soon, 0]);
        [timer, arena.room(20), 20, 0, 0, 0]
    }),
    case("adjtimex", "only asking", WritesIfAble, |arena| [arena.put(&[0; 208]), 0, 0, 0, 0, 0]),
    case("clock_adjtime", "only asking", WritesIfAble, |arena| [0, arena.put(&[0; 208]), 0, 0, 0, 0]),
];

fn sleep(arena: &mut Arena, seconds: u64, nanoseconds: u64) -> [u64; 6] {
    [MONOTONIC, 0, arena.put_words(&[seconds, nanoseconds]), arena.room(16), 0, 0]
}

fn timer() -> u64 {
    let mut timer = 0_u32;
    call(libc::SYS_timer_create, &[MONOTONIC, NO_SIGNAL.as_ptr() as u64, &raw mut timer as u64]);
    timer.into()
}

fn timer_file(arena: &mut Arena) -> u64 {
    fd(arena, open_call(libc::SYS_timerfd_create, &[MONOTONIC, 0]))
}

//! Clocks, timers and sleeping.

use super::rules::{Row, always, decided, fixed, nothing, writes};
use super::survey::{Answer, Outcome, Survey};

const TIMESPEC: u32 = 16;
const TIMEVAL: u32 = 16;
/// Of `itimerval` and `itimerspec`.
const TIMER_SETTING: u32 = 32;
const TIMEX: u32 = 208;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    decided(35, "nanosleep", |survey| remaining_time(survey, 1)),
    writes(36, "getitimer", &[fixed(1, TIMER_SETTING)]),
    nothing(37, "alarm"),
    writes(38, "setitimer", &[fixed(2, TIMER_SETTING)]),
    writes(96, "gettimeofday", &[fixed(0, TIMEVAL), fixed(1, 8)]),
    // Any result is a success: the count of ticks may look like an error.
    writes(100, "times", &[always(0, 32)]),
    writes(159, "adjtimex", &[always(0, TIMEX)]),
    nothing(164, "settimeofday"),
    writes(201, "time", &[fixed(0, 8)]),
    writes(222, "timer_create", &[fixed(2, 4)]),
    writes(223, "timer_settime", &[fixed(3, TIMER_SETTING)]),
    writes(224, "timer_gettime", &[fixed(1, TIMER_SETTING)]),
    nothing(225, "timer_getoverrun"),
    nothing(226, "timer_delete"),
    nothing(227, "clock_settime"),
    writes(228, "clock_gettime", &[fixed(1, TIMESPEC)]),
    writes(229, "clock_getres", &[fixed(1, TIMESPEC)]),
    decided(230, "clock_nanosleep", clock_nanosleep),
    nothing(283, "timerfd_create"),
    writes(286, "timerfd_settime", &[fixed(3, TIMER_SETTING)]),
    writes(287, "timerfd_gettime", &[fixed(1, TIMER_SETTING)]),
    writes(305, "clock_adjtime", &[always(1, TIMEX)]),
];

/// A sleep that ran its course leaves the remaining time alone.
fn remaining_time(survey: &mut Survey, argument: u8) -> Answer {
    if !matches!(survey.outcome, Outcome::Done(_)) {
        survey.report(survey.argument(argument), u64::from(TIMESPEC));
    }
    Ok(())
}

fn clock_nanosleep(survey: &mut Survey) -> Answer {
    const UNTIL: u32 = 1;
    if survey.int(1) & UNTIL != 0 { Ok(()) } else { remaining_time(survey, 3) }
}

//! Signals.

use super::rules::{Row, Size, fixed, nothing, to, writes};

pub(super) const SIGINFO: u32 = 128;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // The kernel's structure, which is not that of the C library.
    writes(13, "rt_sigaction", &[fixed(2, 32)]),
    writes(14, "rt_sigprocmask", &[fixed(2, 8)]),
    nothing(15, "rt_sigreturn"),
    nothing(34, "pause"),
    nothing(62, "kill"),
    writes(127, "rt_sigpending", &[to(0, Size::Argument { argument: 1, each: 1 })]),
    writes(128, "rt_sigtimedwait", &[fixed(1, SIGINFO)]),
    nothing(129, "rt_sigqueueinfo"),
    nothing(130, "rt_sigsuspend"),
    writes(131, "sigaltstack", &[fixed(1, 24)]),
    nothing(200, "tkill"),
    nothing(234, "tgkill"),
    nothing(282, "signalfd"),
    nothing(289, "signalfd4"),
    nothing(297, "rt_tgsigqueueinfo"),
    nothing(424, "pidfd_send_signal"),
];

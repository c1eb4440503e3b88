//! Processes, threads, identities, limits and scheduling.

use super::commands::{arch_prctl, modify_ldt, prctl, ptrace};
use super::rules::{Row, Size, always, bytes, decided, fixed, items, nothing, to, unknown, writes};
use super::survey::{Answer, Outcome, Survey, bytes_at, u64_in};

const RUSAGE: u32 = 144;
const RLIMIT: u32 = 16;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    nothing(24, "sched_yield"),
    nothing(39, "getpid"),
    decided(56, "clone", clone),
    nothing(57, "fork"),
    nothing(58, "vfork"),
    nothing(59, "execve"),
    nothing(60, "exit"),
    writes(61, "wait4", &[fixed(1, 4), fixed(3, RUSAGE)]),
    writes(97, "getrlimit", &[fixed(1, RLIMIT)]),
    writes(98, "getrusage", &[fixed(1, RUSAGE)]),
    decided(101, "ptrace", ptrace),
    nothing(102, "getuid"),
    nothing(104, "getgid"),
    nothing(105, "setuid"),
    nothing(106, "setgid"),
    nothing(107, "geteuid"),
    nothing(108, "getegid"),
    nothing(109, "setpgid"),
    nothing(110, "getppid"),
    nothing(111, "getpgrp"),
    nothing(112, "setsid"),
    nothing(113, "setreuid"),
    nothing(114, "setregid"),
    writes(115, "getgroups", &[to(1, items(0, 4))]),
    nothing(116, "setgroups"),
    nothing(117, "setresuid"),
    writes(118, "getresuid", &[fixed(0, 4), fixed(1, 4), fixed(2, 4)]),
    nothing(119, "setresgid"),
    writes(120, "getresgid", &[fixed(0, 4), fixed(1, 4), fixed(2, 4)]),
    nothing(121, "getpgid"),
    nothing(122, "setfsuid"),
    nothing(123, "setfsgid"),
    nothing(124, "getsid"),
    decided(125, "capget", capget),
    // A version that the kernel does not know is replaced by one that it does.
    writes(126, "capset", &[always(0, 4)]),
    nothing(135, "personality"),
    nothing(140, "getpriority"),
    nothing(141, "setpriority"),
    nothing(142, "sched_setparam"),
    writes(143, "sched_getparam", &[fixed(1, 4)]),
    nothing(144, "sched_setscheduler"),
    nothing(145, "sched_getscheduler"),
    nothing(146, "sched_get_priority_max"),
    nothing(147, "sched_get_priority_min"),
    writes(148, "sched_rr_get_interval", &[fixed(1, 16)]),
    decided(154, "modify_ldt", modify_ldt),
    decided(157, "prctl", prctl),
    decided(158, "arch_prctl", arch_prctl),
    nothing(160, "setrlimit"),
    nothing(186, "gettid"),
    nothing(203, "sched_setaffinity"),
    writes(204, "sched_getaffinity", &[to(2, bytes(1))]),
    nothing(205, "set_thread_area"),
    nothing(211, "get_thread_area"),
    nothing(218, "set_tid_address"),
    nothing(231, "exit_group"),
    // The six fields that concern a child, zero if there is none, and so on failure as well.
    writes(247, "waitid", &[always(2, 28), fixed(4, RUSAGE)]),
    nothing(251, "ioprio_set"),
    nothing(252, "ioprio_get"),
    nothing(272, "unshare"),
    writes(302, "prlimit64", &[fixed(3, RLIMIT)]),
    nothing(308, "setns"),
    writes(309, "getcpu", &[fixed(0, 4), fixed(1, 4)]),
    nothing(312, "kcmp"),
    // The size that the kernel wants, where it got one that is too large.
    writes(314, "sched_setattr", &[always(1, 4)]),
    writes(315, "sched_getattr", &[to(1, Size::Int { argument: 2, each: 1 })]),
    nothing(322, "execveat"),
    writes(334, "rseq", &[to(0, Size::Int { argument: 1, each: 1 })]),
    nothing(434, "pidfd_open"),
    decided(435, "clone3", clone3),
    nothing(438, "pidfd_getfd"),
    // Writes to the area of `rseq`, which is registered elsewhere.
    unknown(471, "rseq_slice_yield"),
];

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// The child's word counts for the parent as well, since the two may share it. The descriptor may be stored by a call
/// that fails in the end.
fn clone(survey: &mut Survey) -> Answer {
    let flags = survey.argument(0);
    if flags & (CLONE_PARENT_SETTID | CLONE_PIDFD) != 0 {
        survey.report(survey.argument(2), 4);
    }
    if flags & CLONE_CHILD_SETTID != 0 {
        survey.report(survey.argument(3), 4);
    }
    Ok(())
}

fn clone3(survey: &mut Survey) -> Answer {
    let wishes: [u8; 32] = bytes_at(survey.memory, survey.argument(0))?;
    let flags = u64_in(&wishes, 0);
    for (flag, offset) in [(CLONE_PIDFD, 8), (CLONE_CHILD_SETTID, 16), (CLONE_PARENT_SETTID, 24)] {
        if flags & flag != 0 {
            survey.report(u64_in(&wishes, offset), 4);
        }
    }
    Ok(())
}

/// The size of the answer goes by the version in the header. A version that the kernel does not know is replaced.
fn capget(survey: &mut Survey) -> Answer {
    const FIRST_VERSION: u32 = 0x1998_0330;
    const SET: u64 = 12;
    let header = survey.argument(0);
    survey.report(header, 4);
    match survey.outcome {
        Outcome::Done(_) | Outcome::Faulted => {
            let n_sets = if survey.u32_at(header)? == FIRST_VERSION { 1 } else { 2 };
            survey.report(survey.argument(1), n_sets * SET);
        }
        Outcome::Failed(_) => {}
    }
    Ok(())
}

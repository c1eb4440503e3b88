//! The machine as a whole: its name and state, modules, keys, quotas, security, tracing; and numbers without a call.

use super::commands::{bpf, keyctl, quotactl, quotactl_fd, seccomp, syslog};
use super::rules::{Row, always, bytes, decided, fixed, items, nothing, to, writes};
use super::survey::{Answer, Outcome, Survey};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    writes(63, "uname", &[fixed(0, 390)]),
    writes(99, "sysinfo", &[fixed(0, 112)]),
    decided(103, "syslog", syslog),
    nothing(134, "uselib"),
    nothing(153, "vhangup"),
    nothing(156, "_sysctl"),
    nothing(163, "acct"),
    nothing(167, "swapon"),
    nothing(168, "swapoff"),
    nothing(169, "reboot"),
    nothing(170, "sethostname"),
    nothing(171, "setdomainname"),
    nothing(172, "iopl"),
    nothing(173, "ioperm"),
    nothing(174, "create_module"),
    nothing(175, "init_module"),
    nothing(176, "delete_module"),
    nothing(177, "get_kernel_syms"),
    nothing(178, "query_module"),
    decided(179, "quotactl", quotactl),
    nothing(180, "nfsservctl"),
    nothing(181, "getpmsg"),
    nothing(182, "putpmsg"),
    nothing(183, "afs_syscall"),
    nothing(184, "tuxcall"),
    nothing(185, "security"),
    nothing(236, "vserver"),
    nothing(246, "kexec_load"),
    nothing(248, "add_key"),
    nothing(249, "request_key"),
    decided(250, "keyctl", keyctl),
    // The size that the kernel wants, where it got one that is too large.
    writes(298, "perf_event_open", &[always(0, 8)]),
    nothing(313, "finit_module"),
    decided(317, "seccomp", seccomp),
    writes(318, "getrandom", &[to(0, bytes(1))]),
    nothing(320, "kexec_file_load"),
    decided(321, "bpf", bpf),
    decided(443, "quotactl_fd", quotactl_fd),
    nothing(444, "landlock_create_ruleset"),
    nothing(445, "landlock_add_rule"),
    nothing(446, "landlock_restrict_self"),
    decided(459, "lsm_get_self_attr", lsm_answer),
    nothing(460, "lsm_set_self_attr"),
    decided(461, "lsm_list_modules", lsm_list_modules),
    writes(470, "listns", &[to(1, items(2, 8))]),
];

/// The size is stored even where the answer does not fit.
fn lsm_answer(survey: &mut Survey) -> Answer {
    report_sized(survey, 1, 2)
}

fn lsm_list_modules(survey: &mut Survey) -> Answer {
    report_sized(survey, 0, 1)
}

/// Reports an answer whose 32-bit size was stored where another argument points to.
fn report_sized(survey: &mut Survey, answer: u8, size: u8) -> Answer {
    let size = survey.argument(size);
    survey.report(size, 4);
    if let Outcome::Done(_) | Outcome::Faulted = survey.outcome {
        let length = survey.u32_at(size)?;
        survey.report(survey.argument(answer), u64::from(length));
    }
    Ok(())
}

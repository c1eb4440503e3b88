//! Calls that are many calls in one: a command says what they do and whether an argument is a pointer.

use super::signals::SIGINFO;
use super::survey::{Answer, Gap, Outcome, Survey, bytes_at, u64_in};

pub(super) fn fcntl(survey: &mut Survey) -> Answer {
    const GETLK: u32 = 5;
    const GETOWN_EX: u32 = 16;
    const GETOWNER_UIDS: u32 = 17;
    const OFD_GETLK: u32 = 36;
    const GET_RW_HINT: u32 = 1035;
    const GET_FILE_RW_HINT: u32 = 1037;
    const GETDELEG: u32 = 1039;
    match survey.int(1) {
        GETLK | OFD_GETLK => survey.report_structure(2, 32),
        GETOWN_EX | GETOWNER_UIDS | GET_RW_HINT | GET_FILE_RW_HINT | GETDELEG => survey.report_structure(2, 8),
        // The rest of those below 16 and of the locks, then leases, duplicates, pipe sizes, seals, hints, delegations.
        0..=15 | 37 | 38 | 1024..=1040 => Ok(()),
        _ => survey.strange_command(),
    }
}

pub(super) fn prctl(survey: &mut Survey) -> Answer {
    const GET_PDEATHSIG: u32 = 2;
    const GET_UNALIGN: u32 = 5;
    const GET_FPEMU: u32 = 9;
    const GET_FPEXC: u32 = 11;
    const GET_NAME: u32 = 16;
    const GET_ENDIAN: u32 = 19;
    const GET_TSC: u32 = 25;
    const SET_MM: u32 = 35;
    const SET_MM_MAP_SIZE: u32 = 15;
    const GET_CHILD_SUBREAPER: u32 = 37;
    const GET_TID_ADDRESS: u32 = 40;
    const SCHED_CORE: u32 = 62;
    const SCHED_CORE_GET: u32 = 0;
    const GET_SHADOW_STACK_STATUS: u32 = 74;
    const GET_AUXV: u32 = 0x4155_5856;
    const SET_PTRACER: u32 = 0x5961_6d61;
    const SET_VMA: u32 = 0x5356_4d41;
    match (survey.int(0), survey.int(1)) {
        (GET_PDEATHSIG | GET_UNALIGN | GET_FPEMU | GET_FPEXC | GET_ENDIAN | GET_TSC, _) => {
            survey.report_structure(1, 4)
        }
        (GET_CHILD_SUBREAPER, _) => survey.report_structure(1, 4),
        (GET_NAME, _) => survey.report_structure(1, 16),
        (GET_TID_ADDRESS | GET_SHADOW_STACK_STATUS, _) => survey.report_structure(1, 8),
        (SET_MM, SET_MM_MAP_SIZE) => survey.report_structure(2, 4),
        (SCHED_CORE, SCHED_CORE_GET) => survey.report_structure(4, 8),
        (GET_AUXV, _) => {
            survey.report(survey.argument(1), survey.filled(survey.argument(2)));
            Ok(())
        }
        // All others up to the newest number that is understood here take values or tell by their result.
        (1..=79 | SET_PTRACER | SET_VMA, _) => Ok(()),
        _ => survey.strange_command(),
    }
}

pub(super) fn arch_prctl(survey: &mut Survey) -> Answer {
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    const GET_XCOMP_SUPP: u32 = 0x1021;
    const GET_XCOMP_PERM: u32 = 0x1022;
    const GET_XCOMP_GUEST_PERM: u32 = 0x1024;
    const GET_UNTAG_MASK: u32 = 0x4001;
    const GET_MAX_TAG_BITS: u32 = 0x4003;
    const SHSTK_STATUS: u32 = 0x5005;
    match survey.int(0) {
        GET_FS | GET_GS | GET_XCOMP_SUPP | GET_XCOMP_PERM | GET_XCOMP_GUEST_PERM | GET_UNTAG_MASK
        | GET_MAX_TAG_BITS | SHSTK_STATUS => survey.report_structure(1, 8),
        // Set a base, fault on CPUID, ask for permissions, map the vDSO, tag addresses, switch shadow stacks.
        0x1001 | 0x1002 | 0x1011 | 0x1012 | 0x1023 | 0x1025 | 0x2001..=0x2003 | 0x4002 | 0x5001..=0x5004 => Ok(()),
        _ => survey.strange_command(),
    }
}

/// Requests of the tracer. What is stored in the traced process is not the tracer's memory.
pub(super) fn ptrace(survey: &mut Survey) -> Answer {
    const DATA: u8 = 3;
    let size = survey.argument(2);
    match survey.int(0) {
        // Peek at text, data, registers; the event's message.
        1..=3 | 0x4201 => survey.report_structure(DATA, 8),
        // General registers, floating-point registers of either name.
        12 => survey.report_structure(DATA, 216),
        14 | 18 => survey.report_structure(DATA, 512),
        // Thread area; signal information.
        25 => survey.report_structure(DATA, 16),
        0x4202 => survey.report_structure(DATA, u64::from(SIGINFO)),
        0x4204 => register_set(survey),
        // Queued signals and filter instructions: the result counts them.
        0x4209 => counted(survey, u64::from(SIGINFO)),
        0x420c => counted(survey, 8),
        // Blocked signals, filter metadata, rseq and dispatch configuration: the size is given.
        0x420a | 0x420d | 0x420f | 0x4211 => survey.report_structure(DATA, size),
        // Information on the call: the result is how much there is.
        0x420e => {
            survey.report(survey.argument(DATA), survey.filled(size));
            Ok(())
        }
        // Start, poke, go on, stop, attach, detach and set.
        0 | 4..=9 | 13 | 15..=17 | 19 | 21 | 24 | 26 | 31..=33 => Ok(()),
        0x4200 | 0x4203 | 0x4205..=0x4208 | 0x420b | 0x4210 | 0x4212 => Ok(()),
        _ => survey.strange_command(),
    }
}

/// A vector says where the registers go and is told how long they are.
fn register_set(survey: &mut Survey) -> Answer {
    if survey.may_have_written() {
        let vector: [u8; 16] = bytes_at(survey.memory, survey.argument(3))?;
        survey.report(u64_in(&vector, 0), u64_in(&vector, 8));
        survey.report(survey.argument(3), 16);
    }
    Ok(())
}

fn counted(survey: &mut Survey, each: u64) -> Answer {
    if let Outcome::Done(count) = survey.outcome {
        survey.report(survey.argument(3), count.saturating_mul(each));
        return Ok(());
    }
    survey.strange_command()
}

pub(super) fn seccomp(survey: &mut Survey) -> Answer {
    const GET_NOTIF_SIZES: u32 = 3;
    match survey.int(0) {
        GET_NOTIF_SIZES => survey.report_structure(2, 6),
        0..=2 => Ok(()),
        _ => survey.strange_command(),
    }
}

/// Reads the kernel's messages, or asks about them by result.
pub(super) fn syslog(survey: &mut Survey) -> Answer {
    if let 2..=4 = survey.int(0) {
        survey.report(survey.argument(1), survey.filled(u64::from(survey.int(2))));
    }
    Ok(())
}

/// Its errors look like large results.
pub(super) fn modify_ldt(survey: &mut Survey) -> Answer {
    const READ: u32 = 0;
    const READ_DEFAULT: u32 = 2;
    if let READ | READ_DEFAULT = survey.int(0) {
        survey.report(survey.argument(1), survey.filled(survey.argument(2)));
    }
    Ok(())
}

pub(super) fn quotactl(survey: &mut Survey) -> Answer {
    quota(survey, survey.int(0))
}

pub(super) fn quotactl_fd(survey: &mut Survey) -> Answer {
    quota(survey, survey.int(1))
}

fn quota(survey: &mut Survey, command: u32) -> Answer {
    const ADDRESS: u8 = 3;
    // The low byte says whose quotas; the `X` in the middle one marks the second generation.
    match command >> 8 {
        // Switch on or off, set, synchronise.
        0x80_0001..=0x80_0003 | 0x80_0006 | 0x80_0008 => Ok(()),
        0x80_0004 => survey.report_structure(ADDRESS, 4),
        0x80_0005 => survey.report_structure(ADDRESS, 24),
        0x80_0007 | 0x80_0009 => survey.report_structure(ADDRESS, 72),
        0x5801 | 0x5802 | 0x5804 | 0x5806 | 0x5807 => Ok(()),
        0x5803 | 0x5809 => survey.report_structure(ADDRESS, 112),
        0x5805 => survey.report_structure(ADDRESS, 80),
        0x5808 => survey.report_structure(ADDRESS, 160),
        _ => survey.strange_command(),
    }
}

pub(super) fn keyctl(survey: &mut Survey) -> Answer {
    const DESCRIBE: u32 = 6;
    const READ: u32 = 11;
    const GET_SECURITY: u32 = 17;
    const DH_COMPUTE: u32 = 23;
    const PKEY_QUERY: u32 = 24;
    const PKEY_ENCRYPT: u32 = 25;
    const PKEY_DECRYPT: u32 = 26;
    const PKEY_SIGN: u32 = 27;
    const CAPABILITIES: u32 = 31;
    match survey.int(0) {
        DESCRIBE | READ | GET_SECURITY | DH_COMPUTE => {
            survey.report(survey.argument(2), survey.filled(survey.argument(3)));
            Ok(())
        }
        PKEY_QUERY => survey.report_structure(4, 56),
        PKEY_ENCRYPT | PKEY_DECRYPT | PKEY_SIGN => {
            let room = survey.u32_at(survey.argument(1).wrapping_add(8))?;
            survey.report(survey.argument(4), survey.filled(u64::from(room)));
            Ok(())
        }
        // The rest of the room is cleared.
        CAPABILITIES => survey.report_structure(1, survey.argument(2)),
        0..=32 => Ok(()),
        _ => survey.strange_command(),
    }
}

/// The structure that comes with a command may be written in any case, and the log of a load also when it fails.
/// Commands whose answers are of sizes that only the kernel knows stay unknown.
pub(super) fn bpf(survey: &mut Survey) -> Answer {
    const PROG_LOAD: u32 = 5;
    const BTF_LOAD: u32 = 18;
    let wishes = survey.argument(1);
    survey.report(wishes, u64::from(survey.int(2)));
    match survey.int(0) {
        PROG_LOAD => report_log(survey, wishes.wrapping_add(32), wishes.wrapping_add(28)),
        BTF_LOAD => report_log(survey, wishes.wrapping_add(8), wishes.wrapping_add(20)),
        // Update, delete, pin, attach, open by name or number, next number, links, freeze, statistics, iterators.
        2 | 3 | 6..=9 | 11..=14 | 17 | 19 | 22 | 23 | 28..=35 => Ok(()),
        _ => Err(Gap::NotKnown),
    }
}

fn report_log(survey: &mut Survey, log: u64, size: u64) -> Answer {
    let size = survey.u32_at(size)?;
    survey.report(survey.u64_at(log)?, u64::from(size));
    Ok(())
}

//! Waiting for descriptors and for memory words, and asynchronous input and output.

use super::rules::{Output, Row, Size, always, decided, fixed, items, nothing, to, unknown, writes};
use super::survey::{Answer, EINVAL, Gap, Outcome, Survey, bytes_at, u64_in};

const POLL_ENTRY: u64 = 8;
const EPOLL_EVENT: u32 = 12;
const FINISHED_EVENT: u64 = 32;
const REQUEST_SIZE: usize = 64;

/// The sets are written on success; what is left of the timeout, always.
const SELECT: &[Output] = &[
    to(1, Size::Bits { argument: 0 }),
    to(2, Size::Bits { argument: 0 }),
    to(3, Size::Bits { argument: 0 }),
    always(4, 16),
];

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    decided(7, "poll", poll),
    writes(23, "select", SELECT),
    decided(202, "futex", futex),
    // From here on the kernel writes to a ring that it has mapped for the guest.
    unknown(206, "io_setup"),
    nothing(207, "io_destroy"),
    decided(208, "io_getevents", io_getevents),
    decided(209, "io_submit", io_submit),
    writes(210, "io_cancel", &[always(2, 32)]),
    nothing(213, "epoll_create"),
    nothing(214, "epoll_ctl_old"),
    nothing(215, "epoll_wait_old"),
    // Ends another call, which nobody knows here.
    unknown(219, "restart_syscall"),
    writes(232, "epoll_wait", &[to(1, items(2, EPOLL_EVENT))]),
    nothing(233, "epoll_ctl"),
    nothing(253, "inotify_init"),
    nothing(254, "inotify_add_watch"),
    nothing(255, "inotify_rm_watch"),
    writes(270, "pselect6", SELECT),
    decided(271, "ppoll", ppoll),
    nothing(273, "set_robust_list"),
    writes(274, "get_robust_list", &[fixed(1, 8), fixed(2, 8)]),
    writes(281, "epoll_pwait", &[to(1, items(2, EPOLL_EVENT))]),
    nothing(284, "eventfd"),
    nothing(290, "eventfd2"),
    nothing(291, "epoll_create1"),
    nothing(294, "inotify_init1"),
    nothing(300, "fanotify_init"),
    nothing(301, "fanotify_mark"),
    decided(333, "io_pgetevents", io_getevents),
    unknown(425, "io_uring_setup"),
    unknown(426, "io_uring_enter"),
    unknown(427, "io_uring_register"),
    writes(441, "epoll_pwait2", &[to(1, items(2, EPOLL_EVENT))]),
    nothing(449, "futex_waitv"),
    nothing(454, "futex_wake"),
    nothing(455, "futex_wait"),
    nothing(456, "futex_requeue"),
];

/// What was found so far is written even if a signal ends the waiting. EINVAL means that there are too many entries.
fn poll(survey: &mut Survey) -> Answer {
    if survey.outcome != Outcome::Failed(EINVAL) {
        survey.report(survey.argument(0), u64::from(survey.int(1)) * POLL_ENTRY);
    }
    Ok(())
}

fn ppoll(survey: &mut Survey) -> Answer {
    survey.report(survey.argument(2), 16);
    poll(survey)
}

/// Only priority-inheriting locks and the combined operation have the kernel write the word, and these may do so
/// before they fail.
fn futex(survey: &mut Survey) -> Answer {
    const COMMAND: u32 = 0x7f;
    const WAKE_OP: u32 = 5;
    const LOCK_PI: u32 = 6;
    const UNLOCK_PI: u32 = 7;
    const TRYLOCK_PI: u32 = 8;
    const WAIT_REQUEUE_PI: u32 = 11;
    const CMP_REQUEUE_PI: u32 = 12;
    const LOCK_PI2: u32 = 13;
    match survey.int(1) & COMMAND {
        LOCK_PI | UNLOCK_PI | TRYLOCK_PI | LOCK_PI2 => survey.report(survey.argument(0), 4),
        WAKE_OP | WAIT_REQUEUE_PI | CMP_REQUEUE_PI => survey.report(survey.argument(4), 4),
        _ => {}
    }
    Ok(())
}

/// An asynchronous request of the guest.
struct Request {
    operation: u16,
    /// Where the data are or go to; of vectored operations, where the vectors are.
    data: u64,
    count: u64,
}

const READ: u16 = 0;
const READ_VECTORS: u16 = 7;

fn request_at(survey: &Survey, address: u64) -> Result<Request, Gap> {
    let request: [u8; REQUEST_SIZE] = bytes_at(survey.memory, address)?;
    let operation = u16::from_le_bytes([request[16], request[17]]);
    Ok(Request { operation, data: u64_in(&request, 24), count: u64_in(&request, 32) })
}

/// The events, and the data of the reads that they tell to have finished.
fn io_getevents(survey: &mut Survey) -> Answer {
    let events = survey.argument(3);
    let n_events = survey.filled(survey.argument(2));
    survey.report(events, n_events.saturating_mul(FINISHED_EVENT));
    let Outcome::Done(_) = survey.outcome else { return Ok(()) };
    for index in 0..n_events {
        let event: [u8; FINISHED_EVENT as usize] = bytes_at(survey.memory, events + index * FINISHED_EVENT)?;
        let request = request_at(survey, u64_in(&event, 8))?;
        let Outcome::Done(n_read) = Outcome::new(u64_in(&event, 16) as i64) else { continue };
        match request.operation {
            READ => survey.report(request.data, n_read.min(request.count)),
            READ_VECTORS => survey.report_vectors(request.data, request.count, n_read)?,
            _ => {}
        }
    }
    Ok(())
}

/// The kernel marks each request that it takes. Where a read is among them, data may come now or later.
fn io_submit(survey: &mut Survey) -> Answer {
    const KEY: (u64, u64) = (8, 4);
    const POINTER: u64 = 8;
    let n_requests = match survey.outcome {
        Outcome::Done(n_taken) => n_taken.saturating_add(1).min(survey.argument(1)),
        // The kernel may have looked at the first one before it gave up.
        Outcome::Faulted | Outcome::Failed(_) => survey.argument(1).min(1),
    };
    for index in 0..n_requests {
        let Ok(address) = survey.u64_at(survey.argument(2).wrapping_add(index * POINTER)) else { break };
        let Ok(request) = request_at(survey, address) else { break };
        survey.report(address.wrapping_add(KEY.0), KEY.1);
        if matches!(request.operation, READ | READ_VECTORS) && survey.may_have_written() {
            return Err(Gap::NotKnown);
        }
    }
    Ok(())
}

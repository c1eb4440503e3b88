//! System V semaphores, message queues and shared memory, and POSIX message queues.

use super::rules::{Row, bytes, decided, fixed, nothing, to, writes};
use super::survey::{Answer, Survey};

const IPC_RMID: u32 = 0;
const IPC_SET: u32 = 1;
const IPC_STAT: u32 = 2;
const IPC_INFO: u32 = 3;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    nothing(29, "shmget"),
    nothing(30, "shmat"),
    decided(31, "shmctl", shmctl),
    nothing(64, "semget"),
    nothing(65, "semop"),
    decided(66, "semctl", semctl),
    nothing(67, "shmdt"),
    nothing(68, "msgget"),
    nothing(69, "msgsnd"),
    decided(70, "msgrcv", msgrcv),
    decided(71, "msgctl", msgctl),
    nothing(220, "semtimedop"),
    nothing(240, "mq_open"),
    nothing(241, "mq_unlink"),
    nothing(242, "mq_timedsend"),
    writes(243, "mq_timedreceive", &[to(1, bytes(2)), fixed(3, 4)]),
    nothing(244, "mq_notify"),
    writes(245, "mq_getsetattr", &[fixed(2, 64)]),
];

/// The text of the message follows its type, which the result does not count.
fn msgrcv(survey: &mut Survey) -> Answer {
    const TYPE_SIZE: u64 = 8;
    if survey.may_have_written() {
        let n_text_bytes = survey.filled(survey.argument(2));
        survey.report(survey.argument(1), TYPE_SIZE.saturating_add(n_text_bytes));
    }
    Ok(())
}

fn msgctl(survey: &mut Survey) -> Answer {
    const MSG_STAT: u32 = 11;
    const MSG_INFO: u32 = 12;
    const MSG_STAT_ANY: u32 = 13;
    match survey.int(1) {
        IPC_RMID | IPC_SET => Ok(()),
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => survey.report_structure(2, 120),
        IPC_INFO | MSG_INFO => survey.report_structure(2, 32),
        _ => survey.strange_command(),
    }
}

fn shmctl(survey: &mut Survey) -> Answer {
    const SHM_LOCK: u32 = 11;
    const SHM_UNLOCK: u32 = 12;
    const SHM_STAT: u32 = 13;
    const SHM_INFO: u32 = 14;
    const SHM_STAT_ANY: u32 = 15;
    match survey.int(1) {
        IPC_RMID | IPC_SET | SHM_LOCK | SHM_UNLOCK => Ok(()),
        IPC_STAT | SHM_STAT | SHM_STAT_ANY => survey.report_structure(2, 112),
        IPC_INFO => survey.report_structure(2, 72),
        SHM_INFO => survey.report_structure(2, 48),
        _ => survey.strange_command(),
    }
}

fn semctl(survey: &mut Survey) -> Answer {
    const GETPID: u32 = 11;
    const GETVAL: u32 = 12;
    const GETNCNT: u32 = 14;
    const GETZCNT: u32 = 15;
    const SETVAL: u32 = 16;
    const SETALL: u32 = 17;
    const SEM_STAT: u32 = 18;
    const SEM_INFO: u32 = 19;
    const SEM_STAT_ANY: u32 = 20;
    match survey.int(2) {
        IPC_RMID | IPC_SET | GETPID | GETVAL | GETNCNT | GETZCNT | SETVAL | SETALL => Ok(()),
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => survey.report_structure(3, 104),
        IPC_INFO | SEM_INFO => survey.report_structure(3, 40),
        // GETALL as well: as many values as the set has semaphores, which only the kernel knows.
        _ => survey.strange_command(),
    }
}

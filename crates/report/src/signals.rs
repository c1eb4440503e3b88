//! Names and meanings of signals, and of the codes that say why one was sent. Linux on x86-64.

/// Name and meaning of the signals 1 to 31.
const SIGNALS: [(&str, &str); 31] = [
    ("SIGHUP", "hung up"),
    ("SIGINT", "interrupted from the keyboard"),
    ("SIGQUIT", "quit from the keyboard"),
    ("SIGILL", "illegal instruction"),
    ("SIGTRAP", "trap"),
    ("SIGABRT", "aborted"),
    ("SIGBUS", "bus error"),
    ("SIGFPE", "arithmetic error"),
    ("SIGKILL", "killed"),
    ("SIGUSR1", "user signal 1"),
    ("SIGSEGV", "invalid memory access"),
    ("SIGUSR2", "user signal 2"),
    ("SIGPIPE", "write to a pipe that nobody reads"),
    ("SIGALRM", "alarm clock"),
    ("SIGTERM", "terminated"),
    ("SIGSTKFLT", "coprocessor stack fault"),
    ("SIGCHLD", "a child changed"),
    ("SIGCONT", "continued"),
    ("SIGSTOP", "stopped"),
    ("SIGTSTP", "stopped from the keyboard"),
    ("SIGTTIN", "background read from the terminal"),
    ("SIGTTOU", "background write to the terminal"),
    ("SIGURG", "urgent data on a socket"),
    ("SIGXCPU", "processor time limit exceeded"),
    ("SIGXFSZ", "file size limit exceeded"),
    ("SIGVTALRM", "virtual alarm clock"),
    ("SIGPROF", "profiling alarm clock"),
    ("SIGWINCH", "window changed"),
    ("SIGIO", "input or output possible"),
    ("SIGPWR", "power failure"),
    ("SIGSYS", "bad system call"),
];

pub const SIGILL: i32 = 4;
pub const SIGTRAP: i32 = 5;
pub const SIGABRT: i32 = 6;
pub const SIGBUS: i32 = 7;
pub const SIGFPE: i32 = 8;
pub const SIGSEGV: i32 = 11;
pub const SIGSYS: i32 = 31;

/// The first signal that applications may use as they like; C libraries keep two below for themselves.
const FIRST_REAL_TIME: i32 = 34;
const LAST: i32 = 64;

/// Codes with one meaning for every signal.
const ANY: i32 = 0;

/// Signal, code, name, meaning.
const CODES: &[(i32, i32, &str, &str)] = &[
    (SIGILL, 1, "ILL_ILLOPC", "illegal opcode"),
    (SIGILL, 2, "ILL_ILLOPN", "illegal operand"),
    (SIGILL, 3, "ILL_ILLADR", "illegal addressing mode"),
    (SIGILL, 4, "ILL_ILLTRP", "illegal trap"),
    (SIGILL, 5, "ILL_PRVOPC", "privileged opcode"),
    (SIGILL, 6, "ILL_PRVREG", "privileged register"),
    (SIGILL, 7, "ILL_COPROC", "coprocessor error"),
    (SIGILL, 8, "ILL_BADSTK", "internal stack error"),
    (SIGTRAP, 1, "TRAP_BRKPT", "breakpoint"),
    (SIGTRAP, 2, "TRAP_TRACE", "single step"),
    (SIGTRAP, 3, "TRAP_BRANCH", "taken branch"),
    (SIGTRAP, 4, "TRAP_HWBKPT", "hardware breakpoint or watchpoint"),
    (SIGBUS, 1, "BUS_ADRALN", "misaligned address"),
    (SIGBUS, 2, "BUS_ADRERR", "no memory behind the address; a mapped file may have shrunk"),
    (SIGBUS, 3, "BUS_OBJERR", "hardware error of the object behind the address"),
    (SIGBUS, 4, "BUS_MCEERR_AR", "memory failure that must be handled"),
    (SIGBUS, 5, "BUS_MCEERR_AO", "memory failure that may be handled"),
    (SIGFPE, 1, "FPE_INTDIV", "integer division by zero"),
    (SIGFPE, 2, "FPE_INTOVF", "integer overflow"),
    (SIGFPE, 3, "FPE_FLTDIV", "floating-point division by zero"),
    (SIGFPE, 4, "FPE_FLTOVF", "floating-point overflow"),
    (SIGFPE, 5, "FPE_FLTUND", "floating-point underflow"),
    (SIGFPE, 6, "FPE_FLTRES", "inexact floating-point result"),
    (SIGFPE, 7, "FPE_FLTINV", "invalid floating-point operation"),
    (SIGFPE, 8, "FPE_FLTSUB", "subscript out of range"),
    (SIGSEGV, 1, "SEGV_MAPERR", "nothing is mapped at the address"),
    (SIGSEGV, 2, "SEGV_ACCERR", "the memory at the address does not allow this access"),
    (SIGSEGV, 3, "SEGV_BNDERR", "failed bounds check"),
    (SIGSEGV, 4, "SEGV_PKUERR", "the protection key of the memory forbids the access"),
    (SIGSYS, 1, "SYS_SECCOMP", "a filter of system calls refused it"),
    (ANY, 0x80, "SI_KERNEL", "sent by the kernel; an address that no pointer can hold, for example"),
    (ANY, 0, "SI_USER", "sent by a process, with kill"),
    (ANY, -1, "SI_QUEUE", "sent by a process, with sigqueue"),
    (ANY, -2, "SI_TIMER", "a timer expired"),
    (ANY, -3, "SI_MESGQ", "a message queue became non-empty"),
    (ANY, -4, "SI_ASYNCIO", "asynchronous input or output finished"),
    (ANY, -5, "SI_SIGIO", "input or output possible"),
    (ANY, -6, "SI_TKILL", "sent to this thread, mostly by the program itself"),
];

fn entry(signal: i32) -> Option<&'static (&'static str, &'static str)> {
    SIGNALS.get(usize::try_from(signal).ok()?.checked_sub(1)?)
}

/// `SIGSEGV`; `SIGRTMIN+2`; `signal 99`.
pub fn name(signal: i32) -> String {
    match (entry(signal), signal) {
        (Some((name, _)), _) => (*name).to_owned(),
        (None, FIRST_REAL_TIME) => "SIGRTMIN".to_owned(),
        (None, FIRST_REAL_TIME..=LAST) => format!("SIGRTMIN+{}", signal - FIRST_REAL_TIME),
        _ => format!("signal {signal}"),
    }
}

/// What a signal says on its own, as the end of a sentence.
pub fn meaning(signal: i32) -> &'static str {
    entry(signal).map_or("ended by a signal", |(_, meaning)| meaning)
}

/// Name and meaning of a signal's code.
pub fn code(signal: i32, code: i32) -> Option<(&'static str, &'static str)> {
    let matches = |(of, number, ..): &&(i32, i32, &str, &str)| (*of == signal || *of == ANY) && *number == code;
    CODES.iter().find(matches).map(|(_, _, name, meaning)| (*name, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_number() {
        let names: Vec<_> = [1, 9, SIGSEGV, SIGSYS, 34, 36, 64, 0, -1, 99].map(name).into();
        let expected = [
            "SIGHUP",
            "SIGKILL",
            "SIGSEGV",
            "SIGSYS",
            "SIGRTMIN",
            "SIGRTMIN+2",
            "SIGRTMIN+30",
            "signal 0",
            "signal -1",
            "signal 99",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn codes_depend_on_the_signal_unless_general() {
        assert_eq!(code(SIGSEGV, 1).unwrap().0, "SEGV_MAPERR");
        assert_eq!(code(SIGFPE, 1).unwrap().0, "FPE_INTDIV");
        assert_eq!(code(SIGABRT, -6).unwrap().0, "SI_TKILL");
        assert_eq!(code(SIGABRT, 1), None);
    }
}

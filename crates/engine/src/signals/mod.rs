//! The guest's signals: what it asked for, and how they reach it.
//!
//! The kernel's view of the guest is kept as real as possible: masks and dispositions are set for real, so that the
//! kernel queues, directs, stops, continues and kills as it would natively. Only caught signals take a detour: the
//! engine's handler notes one per thread, with all others blocked meanwhile, and it is delivered at the next clock
//! event or system call.

pub mod deliver;
pub mod dispositions;
pub mod frame;
pub mod host;

/// Faults of the guest's own instructions; the engine must see them whatever the guest's mask says.
pub const SYNCHRONOUS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

pub const fn synchronous_mask() -> u64 {
    let mut mask = 0;
    let mut index = 0;
    while index < SYNCHRONOUS.len() {
        mask |= bit(SYNCHRONOUS[index]);
        index += 1;
    }
    mask
}

/// Signals that no mask can block.
pub const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// The kernel's `struct sigaction`, as `rt_sigaction` takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

impl Action {
    pub const DEFAULT: u64 = 0;
    pub const IGNORE: u64 = 1;

    pub fn has_handler(self) -> bool {
        self.handler > Action::IGNORE
    }

    /// Whether a signal of this number, with this disposition, ends the process.
    pub fn ends_by(self, signal: i32) -> bool {
        let ends = matches!(default_action(signal), DefaultAction::Terminate | DefaultAction::Crash);
        self.handler == Action::DEFAULT && ends
    }

    pub fn has(self, flag: i32) -> bool {
        self.flags & flag as u32 as u64 != 0
    }

    pub fn words(self) -> [u64; 4] {
        [self.handler, self.flags, self.restorer, self.mask]
    }

    pub fn from_words(words: [u64; 4]) -> Action {
        Action { handler: words[0], flags: words[1], restorer: words[2], mask: words[3] }
    }
}

/// Signals by which people and the system end programs.
const ENDING: [i32; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE, libc::SIGXCPU, libc::SIGXFSZ];

/// Signals that nobody sends to change what a program waits for: faults, and two that the C library reserves for itself.
fn is_internal(signal: i32) -> bool {
    matches!(signal, 32 | 33) || SYNCHRONOUS.contains(&signal)
}

/// The guest's signal dispositions, indexed by signal number.
#[derive(Clone)]
pub struct Actions([Action; 65]);

impl Default for Actions {
    fn default() -> Actions {
        Actions([Action::default(); 65])
    }
}

impl Actions {
    pub fn get(&self, signal: i32) -> Action {
        self.0[signal as usize]
    }

    pub fn set(&mut self, signal: i32, action: Action) {
        self.0[signal as usize] = action;
    }

    /// Whether any signal that people send has a handler that could still change what the program waits for.
    pub fn any_handler(&self) -> bool {
        (1..=64).any(|signal| !is_internal(signal) && self.get(signal).has_handler())
    }

    /// Whether a signal may interrupt a call and the program go on; a call that starts again needs a handler that does not
    /// want that. Handlers of signals that end programs clean up, and end them too.
    pub fn can_interrupt(&self, restarts: bool) -> bool {
        let ends = |handler: u64| ENDING.iter().any(|&signal| self.get(signal).handler == handler);
        let interrupts = |action: Action| {
            action.has_handler() && !(restarts && action.has(libc::SA_RESTART)) && !ends(action.handler)
        };
        (1..=64).any(|signal| !is_internal(signal) && interrupts(self.get(signal)))
    }

    /// After `execve`, handlers are gone and ignored signals stay ignored.
    pub fn ignored(&self) -> impl Iterator<Item = i32> + '_ {
        (1..=64).filter(|&signal| self.get(signal).handler == Action::IGNORE)
    }
}

/// What the kernel does with a signal that has no handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultAction {
    Ignore,
    Stop,
    Terminate,
    /// Terminates and leaves a core dump: the mark of a crash.
    Crash,
}

pub fn default_action(signal: i32) -> DefaultAction {
    match signal {
        libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => DefaultAction::Ignore,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => DefaultAction::Stop,
        libc::SIGQUIT
        | libc::SIGILL
        | libc::SIGTRAP
        | libc::SIGABRT
        | libc::SIGBUS
        | libc::SIGFPE
        | libc::SIGSEGV
        | libc::SIGXCPU
        | libc::SIGXFSZ
        | libc::SIGSYS => DefaultAction::Crash,
        _ => DefaultAction::Terminate,
    }
}

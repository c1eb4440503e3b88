//! Recorded processes that share memory run one at a time, as threads do, so that what others write there appears only
//! where the journal looks: at the end of system calls that may wait, and where a quantum ends.
//!
//! Who runs is told by words in a page of the recording's folder, which programs that are executed later find too. A
//! process that was killed or stopped while it ran is passed over.
//!
//! May miss: a thread that begins, or a call that ends early without having waited, after others have run. What they
//! wrote is looked at only with the thread's next call or at the end of its quantum.

use crate::kernel::{self, SharedBytes};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// The size of the file whose page it is.
pub const SIZE: usize = 4096;

/// The process that runs; 0 is nobody.
const OWNER: usize = 0;
/// The one that ran last.
const LAST: usize = 1;
/// Whether somebody wants to run.
const WANTED: usize = 2;
/// Counts who has begun to run, and whether somebody waits for the next.
const TAKEN: usize = 3;
const AWAITED: usize = 4;

/// How long one waits before looking whether the other still runs.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long one that has let the others go first waits for them to come.
const POLITE: Duration = Duration::from_millis(2);

pub struct Commons {
    words: &'static [AtomicU32],
    /// This process, if it runs; 0 otherwise. One that has several numbers goes by that of the thread which entered.
    runs_as: AtomicU32,
    /// Others have run since the last look.
    is_stale: AtomicBool,
}

impl Commons {
    pub fn new(page: SharedBytes) -> Commons {
        Commons { words: page.into_words(), runs_as: AtomicU32::new(0), is_stale: AtomicBool::new(true) }
    }

    /// Waits until nobody else runs. No other thread of this process has the turn.
    pub fn enter(&self) {
        if self.runs() {
            return;
        }
        let me = kernel::call(libc::SYS_getpid as u64, [0; 6]) as u32;
        while !self.try_enter(me) {}
        self.runs_as.store(me, Ordering::Relaxed);
        if self.words[LAST].swap(me, Ordering::Relaxed) != me {
            self.is_stale.store(true, Ordering::Relaxed);
        }
        self.words[TAKEN].fetch_add(1, Ordering::SeqCst);
        if self.words[AWAITED].swap(0, Ordering::SeqCst) != 0 {
            kernel::wake_all_on_shared(&self.words[TAKEN]);
        }
    }

    fn try_enter(&self, me: u32) -> bool {
        let owner = &self.words[OWNER];
        let Err(other) = owner.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed) else { return true };
        self.words[WANTED].store(1, Ordering::SeqCst);
        kernel::wait_on_shared(owner, other, INTERVAL);
        let is_lost = owner.load(Ordering::Relaxed) == other && !can_run(other);
        is_lost && owner.compare_exchange(other, me, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Lets others run.
    pub fn leave(&self) {
        let me = self.runs_as.swap(0, Ordering::Relaxed);
        if me == 0 {
            return;
        }
        // Who was stopped may have been passed over.
        let _ = self.words[OWNER].compare_exchange(me, 0, Ordering::SeqCst, Ordering::Relaxed);
        if self.words[WANTED].swap(0, Ordering::SeqCst) != 0 {
            kernel::wake_all_on_shared(&self.words[OWNER]);
        }
    }

    /// Lets others run first.
    pub fn pass(&self) {
        let seen = self.words[TAKEN].load(Ordering::SeqCst);
        self.words[AWAITED].store(1, Ordering::SeqCst);
        self.leave();
        kernel::wait_on_shared(&self.words[TAKEN], seen, POLITE);
        self.enter();
    }

    pub fn runs(&self) -> bool {
        self.runs_as.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody else wants to run.
    pub fn is_wanted(&self) -> bool {
        self.words[WANTED].load(Ordering::SeqCst) != 0
    }

    /// Whether others have run since the last look.
    pub fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    pub fn looked(&self) {
        self.is_stale.store(false, Ordering::Relaxed);
    }
}

/// Whether a process is there, and neither stopped nor dead.
fn can_run(process: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x' | 'T' | 't'))
}

//! What the engine has to tell reaches a person here, on standard error.

use crate::count::Summary;
use crate::events::Lines;
use crate::inquiry::{Inquiry, Reply};
use crate::replay::View;
use crate::scene::Scene;
use crate::settings::Settings;
use crate::stats::{self, Destination};
use crate::{faults, status, voice};
use engine::{
    Continuation, Counts, Crash, Fault, Faultable, Figures, MappedCode, Observer, Passed, PrivateFile, Program, Stats,
    Stopped, ThreadFacts,
};
use nix::sys::signal::{SigSet, SigmaskHow};
use program::copies::Copies;
use program::source::SourceCache;
use report::crash::{Access, CrashFacts, render};
use report::deadlock::{DeadlockFacts, render_deadlock};
use report::look::Look;
use report::signals::{SIGBUS, SIGSEGV, SIGTRAP};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The processor's number of a page fault, the only fault that comes with an address.
const PAGE_FAULT: u64 = 14;
/// Bits of a page fault's error code.
const ERROR_WRITE: u64 = 1 << 1;
const ERROR_FETCH: u64 = 1 << 4;
/// What `si_code` is for a signal that something else than a fault sent; its true value is not known.
const UNKNOWN_CODE: i32 = i32::MIN;

/// Reading debug information takes more stack than the engine gives its threads.
const REPORT_STACK: usize = 16 << 20;

pub struct Terminal {
    program: String,
    settings: Settings,
    stats: Option<Destination>,
    count: Option<Destination>,
    /// Where events go, until the engine asks for who reads them.
    events: Mutex<Option<PrivateFile>>,
    /// Where whodunit was started: the guest may go elsewhere.
    folder: Option<PathBuf>,
    /// What is being replayed, if anything.
    replay: Option<View>,
    /// The files that came with it.
    copies: Arc<Copies>,
    /// What the replay is to find out, if anything.
    inquiry: Option<Box<dyn Inquiry>>,
}

impl Terminal {
    pub fn new(
        program: &Program,
        settings: Settings,
        stats: Option<Destination>,
        count: Option<Destination>,
        events: Option<PrivateFile>,
    ) -> Terminal {
        let path = Path::new(&program.path);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let folder = std::env::current_dir().ok();
        Terminal {
            program: name,
            settings,
            stats,
            count,
            events: Mutex::new(events),
            folder,
            replay: None,
            copies: Arc::default(),
            inquiry: None,
        }
    }

    /// Speaks of a replay.
    pub fn for_replay(self, view: View, inquiry: Option<Box<dyn Inquiry>>) -> Terminal {
        Terminal { copies: view.copies(), replay: Some(view), inquiry, ..self }
    }

    fn look(&self) -> Look {
        Look::new(voice::is_colourful(), self.folder.clone())
    }

    /// Answers on standard output what the replay was asked.
    fn answer(&self) {
        if let Some(inquiry) = &self.inquiry {
            let reply = with_room(&|| inquiry.answer(&self.copies));
            let lesson = self.replay.as_ref().and_then(|view| view.siblings().lesson());
            // Whoever asked may be gone.
            let mut output = std::io::stdout().lock();
            let replies = [Some(reply), lesson];
            let mut lines = replies.iter().flatten().map(Reply::line);
            let _ = lines.try_for_each(|line| output.write_all(line)).and_then(|()| output.flush());
        }
    }

    fn crash_report(&self, crash: &Crash) -> String {
        let mut scene = Scene::read(&self.copies);
        let (culprits, others): (Vec<_>, Vec<_>) = crash.threads.iter().partition(|thread| thread.id == crash.thread);
        let threads: Vec<&ThreadFacts> = culprits.into_iter().chain(others).collect();
        let mut shown = scene.threads(&threads);
        if let Some(culprit) = shown.first_mut() {
            culprit.state = "crashed".to_owned();
        }
        let culprit = threads.first();
        let told = crash.fault.map(|fault| (fault_address(&fault), access(&fault)));
        let pc = culprit.map_or(0, |thread| thread.pc);
        let registers = culprit.map_or([0; 16], |thread| thread.registers);
        let (address, access) = match told {
            Some((None, _)) if crash.signal == SIGSEGV => scene.impossible_access(pc, &registers).unzip(),
            told => told.unwrap_or_default(),
        };
        // A trap comes after its instruction, and what cannot be executed is none.
        let faulted = crash.fault.is_some() && crash.signal != SIGTRAP && access != Some(Access::Execute);
        let facts = CrashFacts {
            program: self.program.clone(),
            pid: std::process::id().cast_signed(),
            signal: crash.signal,
            signal_code: crash.fault.map_or(UNKNOWN_CODE, |fault| fault.code),
            fault_address: address,
            access,
            faulting_instruction: faulted.then(|| scene.instruction_at(pc)).flatten(),
            registers,
            pc,
            flags: culprit.map_or(0, |thread| thread.rflags),
            what: address.map(|address| scene.describe(address, access, &threads)),
            threads: shown,
        };
        render(&facts, &mut SourceCache::with_copies(Arc::clone(&self.copies)), &self.look())
    }

    fn deadlock_report(&self, threads: &[ThreadFacts]) -> String {
        let threads: Vec<&ThreadFacts> = threads.iter().collect();
        let facts = DeadlockFacts {
            program: self.program.clone(),
            pid: std::process::id().cast_signed(),
            threads: Scene::read(&self.copies).threads(&threads),
        };
        render_deadlock(&facts, &mut SourceCache::with_copies(Arc::clone(&self.copies)), &self.look())
    }
}

impl engine::Host for Terminal {
    fn crashed(&self, crash: &Crash) {
        if self.settings.report {
            voice::say_last(&with_room(&|| self.crash_report(crash)));
        }
    }

    fn deadlocked(&self, threads: &[ThreadFacts]) {
        voice::say_last(&with_room(&|| self.deadlock_report(threads)));
    }

    fn counted(&self, counts: &Counts) {
        if self.count.is_some() {
            // Reading debug information takes room, as for a report.
            with_room(&|| {
                let summary = Summary::new(counts, &mut Scene::read(&self.copies));
                give(self.count.as_ref(), || summary.table(), || summary.json());
                String::new()
            });
        }
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        if let Some(inquiry) = &self.inquiry {
            return inquiry.observer();
        }
        let file = self.events.lock().ok()?.take()?;
        Some(Box::new(Lines::new(file)))
    }

    fn finished(&self, stats: &Stats) {
        self.answer();
        let settings = &self.settings;
        give(self.stats.as_ref(), || stats::table(stats, settings), || stats::json(stats, settings));
    }

    fn backtrace(&self, thread: &ThreadFacts) -> Vec<u64> {
        with_room(&|| Scene::read(&self.copies).program_counters(thread))
    }

    fn callers(&self, thread: &ThreadFacts) -> Vec<u64> {
        with_room(&|| Scene::glance(&self.copies).program_counters(thread))
    }

    fn faultable(&self, code: &MappedCode) -> Vec<(u64, Faultable)> {
        faults::faultable(code)
    }

    fn passed(&self, passed: &Passed<'_>) {
        if let Some(inquiry) = &self.inquiry {
            inquiry.passed(passed);
        }
    }

    fn replay_stopped(&self, stopped: &Stopped) -> u8 {
        let failed = matches!(stopped, Stopped::Diverged(_) | Stopped::NoFile(_));
        if !failed && self.inquiry.is_some() {
            self.answer();
            return 0;
        }
        self.replay.as_ref().map_or(0, |view| view.stopped(stopped))
    }

    fn reran(&self, rerun: &engine::Rerun) {
        let is_brief = self.replay.as_ref().is_some_and(View::is_brief);
        let branches = self.replay.as_ref().and_then(View::branches).filter(|branches| branches.hear());
        with_room(&|| match branches {
            Some(branches) => branches.tell_recorded(crate::rerun::told(rerun, &self.copies, is_brief)),
            None => crate::rerun::answer(rerun, &self.copies, is_brief),
        });
    }

    fn branch(&self, rival: usize) -> bool {
        self.replay.as_ref().and_then(View::branches).is_some_and(|branches| branches.make(rival))
    }

    fn part(&self) -> Continuation {
        self.replay.as_ref().map_or_else(|| engine::leave(status::MACHINE), |view| view.siblings().part())
    }

    fn wrote(&self, nanoseconds: u64, stream: u8, bytes: &[u8]) {
        if let Some(view) = &self.replay {
            view.wrote(nanoseconds, stream, bytes);
        }
    }

    fn replayed(&self, figures: Figures) {
        if let Some(view) = &self.replay {
            view.finished(figures);
        }
    }

    fn notice(&self, line: &str) {
        voice::say(&format!("whodunit: {line}\n"));
    }
}

/// Figures go to standard error as a table, or to a file as JSON.
fn give(to: Option<&Destination>, table: impl Fn() -> String, json: impl Fn() -> String) {
    match to {
        None => {}
        Some(Destination::StandardError) => voice::say_last(&table()),
        Some(Destination::File(path)) => {
            if let Err(error) = std::fs::write(path, json()) {
                voice::say_last(&format!("whodunit: {}: cannot write the figures: {error}\n", path.display()));
            }
        }
    }
}

fn fault_address(fault: &Fault) -> Option<u64> {
    let has_address = fault.signal == SIGBUS || fault.signal == SIGSEGV && fault.trap == PAGE_FAULT;
    has_address.then_some(fault.address)
}

fn access(fault: &Fault) -> Option<Access> {
    match fault.error {
        _ if fault.trap != PAGE_FAULT => None,
        error if error & ERROR_FETCH != 0 => Some(Access::Execute),
        error if error & ERROR_WRITE != 0 => Some(Access::Write),
        _ => Some(Access::Read),
    }
}

/// Does the work on a thread with a large stack. Signals stay away from that thread: it is none of the guest's.
pub fn with_room<T: Send>(work: &(impl Fn() -> T + Sync)) -> T {
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let text = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(REPORT_STACK);
        let spawned = builder.spawn_scoped(scope, work);
        spawned.ok().and_then(|thread| thread.join().ok())
    });
    if let Ok(mask) = mask {
        let _ = mask.thread_set_mask();
    }
    // Where no thread can be had, the work may still fit.
    text.unwrap_or_else(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_fault(error: u64) -> Fault {
        Fault { signal: SIGSEGV, code: 1, address: 0x10, error, trap: PAGE_FAULT }
    }

    #[test]
    fn kinds_of_access() {
        assert_eq!(access(&page_fault(4)), Some(Access::Read));
        assert_eq!(access(&page_fault(6)), Some(Access::Write));
        assert_eq!(access(&page_fault(0x14)), Some(Access::Execute));
        assert_eq!(fault_address(&page_fault(4)), Some(0x10));
    }

    #[test]
    fn general_protection_fault_has_no_address() {
        let fault = Fault { trap: 13, code: 0x80, address: 0, ..page_fault(0) };
        assert_eq!((fault_address(&fault), access(&fault)), (None, None));
    }

    #[test]
    fn work_gets_done_elsewhere() {
        let here = std::thread::current().id();
        assert_eq!(with_room(&|| (std::thread::current().id() != here).to_string()), "true");
    }
}

//! A process that runs schedules, one after the other, as seen from the hunt.

use super::hunted;
use super::order::{Ended, Errand, Order, READY};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often somebody who waits looks whether the user wants to stop, in milliseconds.
const GLANCE: u16 = 100;

pub struct Runner {
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
    /// What it leaves behind.
    place: Option<PathBuf>,
}

impl Runner {
    pub fn start(own: &Path, path: &OsString, arguments: &[OsString]) -> io::Result<Runner> {
        let mut command = Command::new(own);
        command.arg(super::HUNTED_VERB).arg(path).args(arguments);
        // The terminal's signals are for the hunt.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(replies)) => {
                Ok(Runner { child, orders, replies: BufReader::new(replies), place: None })
            }
            _ => Err(io::Error::other("a process has no pipes")),
        }
    }

    /// Has one schedule run; none if `stop` is true, or becomes so meanwhile.
    pub fn run(&mut self, order: &Order, stop: &AtomicBool) -> io::Result<Option<Ended>> {
        // Schedules that are over in no time never have anybody wait.
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        hunted::tell(&mut self.orders, &Errand::Run(order.clone()))?;
        let pid: i32 = serde_json::from_str(&self.line()?)?;
        if !self.is_answered(&|| stop.load(Ordering::SeqCst)) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&self.line()?)?))
    }

    /// Has the program run up to its second thread, so that schedules go on from there; tells whether they can. If not,
    /// this is of no more use.
    pub fn prepare(&mut self, order: Order, stop: &AtomicBool) -> io::Result<bool> {
        let deadline = Instant::now() + Duration::from_millis(order.limit);
        self.place = order.recording.parent().map(Path::to_owned);
        hunted::tell(&mut self.orders, &Errand::Prepare(order))?;
        let is_answered = self.is_answered(&|| stop.load(Ordering::SeqCst) || Instant::now() > deadline);
        Ok(is_answered
            && self.line().is_ok_and(|line| serde_json::from_str(&line).is_ok_and(|word: String| word == READY)))
    }

    fn is_answered(&self, is_over: &dyn Fn() -> bool) -> bool {
        while self.replies.buffer().is_empty() {
            let mut polls = [PollFd::new(self.replies.get_ref().as_fd(), PollFlags::POLLIN)];
            if poll(&mut polls, PollTimeout::from(GLANCE)).unwrap_or(0) > 0 {
                break;
            }
            if is_over() {
                return false;
            }
        }
        true
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.replies.read_line(&mut line)? {
            0 => Err(io::Error::other("the process that runs schedules is gone")),
            _ => Ok(line),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(place) = &self.place {
            let _ = std::fs::remove_dir_all(place);
        }
    }
}

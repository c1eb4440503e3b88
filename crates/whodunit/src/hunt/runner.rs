//! A process that runs schedules, one after the other, as seen from the hunt.

use super::order::{Ended, Order};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// How often somebody who waits looks whether the user wants to stop, in milliseconds.
const GLANCE: u16 = 100;

pub struct Runner {
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Runner {
    pub fn start(own: &Path, path: &OsString, arguments: &[OsString]) -> io::Result<Runner> {
        let mut command = Command::new(own);
        command.arg(super::HUNTED_VERB).arg(path).args(arguments);
        // The terminal's signals are for the hunt.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(replies)) => Ok(Runner { child, orders, replies: BufReader::new(replies) }),
            _ => Err(io::Error::other("a process has no pipes")),
        }
    }

    /// Has one schedule run; none if `stop` became true meanwhile.
    pub fn run(&mut self, order: &Order, stop: &AtomicBool) -> io::Result<Option<Ended>> {
        let mut text = serde_json::to_vec(order)?;
        text.push(b'\n');
        self.orders.write_all(&text)?;
        let pid: i32 = serde_json::from_str(&self.line()?)?;
        if self.waits_in_vain(stop) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&self.line()?)?))
    }

    fn waits_in_vain(&self, stop: &AtomicBool) -> bool {
        while self.replies.buffer().is_empty() {
            let mut polls = [PollFd::new(self.replies.get_ref().as_fd(), PollFlags::POLLIN)];
            if poll(&mut polls, PollTimeout::from(GLANCE)).unwrap_or(0) > 0 {
                break;
            }
            if stop.load(Ordering::SeqCst) {
                return true;
            }
        }
        false
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
    }
}

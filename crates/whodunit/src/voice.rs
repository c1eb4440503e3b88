//! What whodunit itself says on standard error, which is also the guest's: it may be closed, or a pipe that nobody
//! reads. Nothing of that may change the guest's fate.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

/// A message while the guest goes on.
pub fn say(text: &str) {
    if is_heard() {
        write(text);
    }
}

/// A message after which the process ends. A pipe that breaks now must not replace the signal that ends the guest.
pub fn say_last(text: &str) {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    if pipe.thread_block().is_ok() {
        write(text);
    }
}

/// Whether colours are wanted. `NO_COLOR` counts if it is not empty.
pub fn is_colourful() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A write to a pipe without readers would raise SIGPIPE in the guest.
fn is_heard() -> bool {
    let stderr = std::io::stderr();
    let mut polls = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let answer = poll(&mut polls, PollTimeout::ZERO);
    let broken = PollFlags::POLLERR | PollFlags::POLLNVAL;
    answer.is_ok() && polls[0].revents().is_some_and(|events| !events.intersects(broken))
}

/// There is nobody to tell of a failure.
fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

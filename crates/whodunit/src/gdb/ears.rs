//! The connection to gdb, as far as it is listened to while something runs: gdb may want to interrupt it, or be gone.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What gdb sends to interrupt.
const CONTROL_C: u8 = 3;

pub struct Ears {
    /// Nobody, before gdb has come.
    gdb: Option<File>,
    interrupted: bool,
}

impl Ears {
    pub fn new(gdb: Option<OwnedFd>) -> Ears {
        Ears { gdb: gdb.map(File::from), interrupted: false }
    }

    /// Waits until the process has something to say; `false` if gdb wants it to stop.
    pub fn wait_for(&mut self, process: &UnixStream) -> io::Result<bool> {
        loop {
            let mut descriptors = vec![PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            let gdb = self.gdb.as_ref().filter(|_| !self.interrupted);
            descriptors.extend(gdb.map(|gdb| PollFd::new(gdb.as_fd(), PollFlags::POLLIN)));
            match poll(&mut descriptors, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            if descriptors[0].any().unwrap_or(false) {
                self.interrupted = false;
                return Ok(true);
            }
            if descriptors.get(1).and_then(PollFd::any).unwrap_or(false) && self.hears_interrupt()? {
                self.interrupted = true;
                return Ok(false);
            }
        }
    }

    fn hears_interrupt(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        let Some(gdb) = &mut self.gdb else { return Ok(false) };
        match gdb.read(&mut byte)? {
            0 => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => Ok(byte[0] == CONTROL_C),
        }
    }
}

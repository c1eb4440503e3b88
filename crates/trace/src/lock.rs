//! Tells a live recorder from a dead one: it holds a lock (`flock`) on its log, which the kernel drops with the process.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Takes the lock; it is held until the file is closed, in this process and in all that it forked.
pub fn hold(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether somebody holds it. Asks by taking a share for a moment, which makes [`hold`] wait and never fail.
pub fn is_held(file: &File) -> bool {
    if flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        return true;
    }
    let _ = flock(file, FlockOperation::Unlock);
    false
}

//! A file of an observer's that the guest does not come across.

use crate::kernel;
use crate::private;
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

/// A file under a descriptor number that the guest will hardly get and cannot close; to be made before the guest runs,
/// once, and kept until the end.
pub struct PrivateFile(i32);

impl PrivateFile {
    pub fn new(file: File) -> io::Result<PrivateFile> {
        private::keep_for_observer(file.into_raw_fd()).map(PrivateFile)
    }
}

impl io::Write for PrivateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let arguments = [self.0 as u64, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
        match kernel::call(libc::SYS_write as u64, arguments) {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error as i32)),
            written => Ok(written as usize),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! Files that a free run opens by itself: for reading as they are, for writing as a copy in memory that nobody else
//! ever sees.

use super::free::Run;
use super::machine::Pending;
use crate::kernel;
use crate::syscalls::{self, error};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub struct Overlay {
    /// By the guest's descriptor.
    open: BTreeMap<u64, File>,
    /// Copies of files that the guest writes to, by path.
    copies: BTreeMap<Vec<u8>, File>,
    next: u64,
}

/// Larger files are not copied.
const LARGEST: u64 = 1 << 30;

impl Overlay {
    pub fn new(first: u64) -> Overlay {
        Overlay { open: BTreeMap::new(), copies: BTreeMap::new(), next: first }
    }

    /// Whether the run itself has written to the file.
    pub fn has(&self, path: &[u8]) -> bool {
        self.copies.contains_key(path)
    }

    /// Opens a file under a descriptor of the guest's; the inner error is the guest's to handle.
    fn open(&mut self, path: &[u8], flags: i32) -> io::Result<Result<u64, i32>> {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        if writes && !self.has(path) {
            match self.copy(path, flags)? {
                Ok(copy) => self.copies.insert(path.to_vec(), copy),
                Err(failure) => return Ok(Err(failure)),
            };
        }
        let file = match self.copies.get(path) {
            Some(copy) => {
                if flags & libc::O_TRUNC != 0 {
                    copy.set_len(0)?;
                }
                let mode = flags & libc::O_ACCMODE;
                let mut options = OpenOptions::new();
                options.read(mode != libc::O_WRONLY).write(mode != libc::O_RDONLY);
                options.custom_flags(flags & libc::O_APPEND).open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?
            }
            None => match open_as_it_is(path)? {
                Ok(file) => file,
                Err(failure) => return Ok(Err(failure)),
            },
        };
        let descriptor = self.next;
        self.next += 1;
        self.open.insert(descriptor, file);
        Ok(Ok(descriptor))
    }

    /// A copy of a file in memory.
    fn copy(&self, path: &[u8], flags: i32) -> io::Result<Result<File, i32>> {
        let mut copy = File::from(kernel::new_memory_file()?);
        match open_as_it_is(path)? {
            Ok(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => return Ok(Err(libc::EEXIST)),
            Ok(mut original) if flags & libc::O_TRUNC == 0 => {
                io::copy(&mut original, &mut copy)?;
            }
            Ok(_) => {}
            Err(libc::ENOENT) if flags & libc::O_CREAT != 0 => {}
            Err(failure) => return Ok(Err(failure)),
        }
        Ok(Ok(copy))
    }
}

/// Opens a plain file for reading. The outer error says that it is none, or too large.
fn open_as_it_is(path: &[u8]) -> io::Result<Result<File, i32>> {
    let path = Path::new(OsStr::from_bytes(path));
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() || metadata.len() > LARGEST => Err(io::ErrorKind::Unsupported.into()),
        Ok(_) => Ok(File::open(path).map_err(|error| error.raw_os_error().unwrap_or(libc::EACCES))),
        Err(error) => Ok(Err(error.raw_os_error().unwrap_or(libc::ENOENT))),
    }
}

impl Run<'_> {
    /// Opens a file that the recording does not answer for; none if that cannot be done without the outside.
    pub fn open(&mut self, pending: Pending) -> Option<i64> {
        let [first, second, third, ..] = pending.arguments;
        let (path, flags) = match pending.number as i64 {
            libc::SYS_open => (first, second),
            _ => (second, third),
        };
        let mut path = kernel::read_string(path, 4096).ok()?;
        if !path.starts_with(b"/") {
            let from_here = pending.number as i64 == libc::SYS_open || first as i32 == libc::AT_FDCWD;
            path = [self.kept.directory.as_slice(), b"/", &path].concat();
            from_here.then_some(())?;
        }
        let special = [b"/proc/".as_slice(), b"/dev/", b"/sys/"].iter().any(|folder| path.starts_with(folder));
        let opened = (!special).then(|| self.free.overlay.open(&path, flags as i32).ok()).flatten()?;
        Some(opened.map_or_else(error, |descriptor| descriptor as i64))
    }

    /// A call on a file that the run opened by itself.
    pub fn own_file(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, mut arguments } = pending;
        let at = if number as i64 == libc::SYS_mmap { 4 } else { 0 };
        let descriptor = arguments[at];
        arguments[at] = self.free.overlay.open.get(&descriptor)?.as_raw_fd() as u64;
        match number as i64 {
            libc::SYS_close => {
                self.free.overlay.open.remove(&descriptor);
                Some(0)
            }
            libc::SYS_mmap => Some(syscalls::map_memory(self.engine, self.context, arguments)),
            libc::SYS_read
            | libc::SYS_pread64
            | libc::SYS_readv
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_lseek
            | libc::SYS_fstat
            | libc::SYS_newfstatat
            | libc::SYS_ftruncate
            | libc::SYS_fsync
            | libc::SYS_fdatasync => {
                self.engine.world().open_for_call(&arguments);
                Some(kernel::call(number, arguments))
            }
            libc::SYS_ioctl => Some(error(libc::ENOTTY)),
            libc::SYS_fadvise64 | libc::SYS_flock | libc::SYS_fcntl => Some(0),
            _ => self.needs(pending),
        }
    }
}

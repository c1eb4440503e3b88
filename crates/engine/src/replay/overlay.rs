//! Files that a free run opens by itself: for reading as they are, for writing as a copy in memory that nobody else
//! ever sees. Files that the recording has opened are read on from disk, as long as they are what they were.

use super::descriptors::{Target, is_made_up};
use super::free::Run;
use super::machine::Pending;
use crate::kernel;
use crate::syscalls::{self, error};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

pub struct Overlay {
    /// By the guest's descriptor.
    open: BTreeMap<u64, File>,
    /// Copies of files that the guest writes to, by path.
    copies: BTreeMap<Vec<u8>, File>,
    /// Files that the guest has removed.
    gone: BTreeSet<Vec<u8>>,
    next: u64,
}

/// Larger files are not copied.
const LARGEST: u64 = 1 << 30;

impl Overlay {
    pub fn new(first: u64) -> Overlay {
        Overlay { open: BTreeMap::new(), copies: BTreeMap::new(), gone: BTreeSet::new(), next: first }
    }

    /// Whether the run itself has written to the file.
    pub fn has(&self, path: &[u8]) -> bool {
        self.copies.contains_key(path)
    }

    pub fn copy_of(&self, path: &[u8]) -> Option<&File> {
        self.copies.get(path)
    }

    pub fn is_gone(&self, path: &[u8]) -> bool {
        self.gone.contains(path)
    }

    /// Removes a file, for this run alone.
    pub fn remove(&mut self, path: &[u8]) -> Result<(), i32> {
        let is_there = self.has(path) || Path::new(OsStr::from_bytes(path)).symlink_metadata().is_ok();
        if self.is_gone(path) || !is_there {
            return Err(libc::ENOENT);
        }
        self.copies.remove(path);
        self.gone.insert(path.to_vec());
        Ok(())
    }

    /// Gives a file another name, for this run alone; the inner error is the guest's to handle.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> io::Result<Result<(), i32>> {
        if !self.has(from) {
            match self.copy(from, libc::O_RDWR)? {
                Ok(copy) => self.copies.insert(from.to_vec(), copy),
                Err(failure) => return Ok(Err(failure)),
            };
        }
        if let Some(copy) = self.copies.remove(from) {
            self.copies.insert(to.to_vec(), copy);
        }
        self.gone.remove(to);
        self.gone.insert(from.to_vec());
        Ok(Ok(()))
    }

    /// The file as it is outside.
    fn original(&self, path: &[u8]) -> io::Result<Result<File, i32>> {
        if self.is_gone(path) { Ok(Err(libc::ENOENT)) } else { open_as_it_is(path) }
    }

    /// The number of the next descriptor that the run itself opens.
    pub fn next_descriptor(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Opens a file under a descriptor of the guest's; the inner error is the guest's to handle.
    fn open(&mut self, path: &[u8], flags: i32) -> io::Result<Result<u64, i32>> {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        if writes && !self.has(path) {
            match self.copy(path, flags)? {
                Ok(copy) => {
                    self.gone.remove(path);
                    self.copies.insert(path.to_vec(), copy)
                }
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
            None => match self.original(path)? {
                Ok(file) => file,
                Err(failure) => return Ok(Err(failure)),
            },
        };
        let descriptor = self.next_descriptor();
        self.open.insert(descriptor, file);
        Ok(Ok(descriptor))
    }

    /// A file that holds what another one did when it was last read.
    fn open_content(&mut self, content: &[u8]) -> io::Result<u64> {
        let mut file = File::from(kernel::new_memory_file()?);
        file.write_all(content)?;
        file.seek(SeekFrom::Start(0))?;
        let descriptor = self.next_descriptor();
        self.open.insert(descriptor, file);
        Ok(descriptor)
    }

    /// A copy of a file in memory.
    fn copy(&self, path: &[u8], flags: i32) -> io::Result<Result<File, i32>> {
        let mut copy = File::from(kernel::new_memory_file()?);
        match self.original(path)? {
            Ok(original) if original.metadata()?.is_dir() => return Ok(Err(libc::EISDIR)),
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

/// Opens a plain file or a folder for reading. The outer error says that it is none, or too large.
fn open_as_it_is(path: &[u8]) -> io::Result<Result<File, i32>> {
    let path = Path::new(OsStr::from_bytes(path));
    match path.metadata() {
        Ok(metadata) if !metadata.is_dir() && (!metadata.is_file() || metadata.len() > LARGEST) => {
            Err(io::ErrorKind::Unsupported.into())
        }
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
        let name = kernel::read_string(path, 4096).ok()?;
        let folder = if pending.number as i64 == libc::SYS_open { libc::AT_FDCWD as u64 } else { first };
        let path = self.kept.descriptors.resolve(folder, &name)?;
        if is_made_up(&path) {
            let content = self.kept.descriptors.contents.get(&path)?;
            return self.free.overlay.open_content(content).ok().map(|descriptor| descriptor as i64);
        }
        let special = path.starts_with(b"/dev/");
        let opened = (!special).then(|| self.free.overlay.open(&path, flags as i32).ok()).flatten()?;
        Some(opened.map_or_else(error, |descriptor| descriptor as i64))
    }

    /// A call that reads on from a file that the recording has opened. Where that has been changed since, it is not known
    /// what the program would have read.
    pub fn read_on(&mut self, pending: Pending) -> Option<i64> {
        if !reads_files(pending.number) {
            return None;
        }
        let descriptor = pending.arguments[descriptor_argument(pending.number)];
        let Ok(Target::Named { path, position }) = self.kept.descriptors.target(descriptor).cloned() else {
            return None;
        };
        let mut file = self.free.overlay.original(&path).ok()?.ok()?;
        let is_same = file.metadata().is_ok_and(|metadata| changed(&metadata) < i128::from(self.kept.began));
        if !is_same || self.free.overlay.has(&path) {
            return None;
        }
        file.seek(SeekFrom::Start(position)).ok()?;
        self.free.overlay.open.insert(descriptor, file);
        let name = String::from_utf8_lossy(&path).into_owned();
        self.remark(format!("`{name}`, which has not changed, is read on where the recording ends"));
        self.own_file(pending)
    }

    /// Another descriptor for what one leads to; of `fcntl`, all that is no question.
    pub fn duplicate(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, arguments: [from, second, ..] } = pending;
        let copies = matches!(second as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
        let to = match number as i64 {
            libc::SYS_dup2 | libc::SYS_dup3 => second,
            libc::SYS_fcntl if !copies => return Some(0),
            _ => self.free.overlay.next_descriptor(),
        };
        match self.free.overlay.open.get(&from).map(File::try_clone) {
            Some(copy) => self.free.overlay.open.insert(to, copy.ok()?),
            None => self.free.overlay.open.remove(&to),
        };
        Some(to as i64)
    }

    /// A call on a file that the run opened by itself, or has taken over.
    pub fn own_file(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, mut arguments } = pending;
        let at = descriptor_argument(number);
        let descriptor = arguments[at];
        arguments[at] = self.free.overlay.open.get(&descriptor)?.as_raw_fd() as u64;
        match number as i64 {
            libc::SYS_close => {
                self.free.overlay.open.remove(&descriptor);
                self.kept.descriptors.note(number, &pending.arguments, 0);
                Some(0)
            }
            libc::SYS_mmap => Some(syscalls::map_memory(self.engine, self.context, arguments)),
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_ftruncate => {
                self.real(number, arguments)
            }
            libc::SYS_fsync | libc::SYS_fdatasync => Some(0),
            libc::SYS_ioctl => Some(error(libc::ENOTTY)),
            libc::SYS_flock => Some(0),
            _ if reads_files(number) => self.real(number, arguments),
            _ => None,
        }
    }

    /// A call that only touches files of the run's own, or only reads.
    pub(super) fn real(&mut self, number: u64, arguments: kernel::Arguments) -> Option<i64> {
        self.engine.world().open_for_call(&arguments);
        Some(kernel::call(number, arguments))
    }
}

/// Calls that take something from a file by its descriptor, and change nothing.
fn reads_files(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_read
            | libc::SYS_pread64
            | libc::SYS_readv
            | libc::SYS_preadv
            | libc::SYS_lseek
            | libc::SYS_fstat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_fstatfs
            | libc::SYS_getdents64
            | libc::SYS_fadvise64
            | libc::SYS_mmap
    )
}

/// Which argument of a call is the descriptor.
fn descriptor_argument(number: u64) -> usize {
    if number as i64 == libc::SYS_mmap { 4 } else { 0 }
}

/// When anything about a file was last changed, in nanoseconds since 1970.
fn changed(metadata: &std::fs::Metadata) -> i128 {
    i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec())
}

//! Calls of a free run that are about files by their names: questions are asked of the files as they are, and changes are
//! kept from everybody but the run.

use super::calls::store;
use super::free::Run;
use super::machine::Pending;
use crate::kernel;
use crate::syscalls::error;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

const HERE: u64 = libc::AT_FDCWD as u64;

/// A name, and the descriptor of the folder that it begins at.
struct Name {
    folder: u64,
    address: u64,
}

impl Run<'_> {
    /// A call about a file by its name; none if that needs the outside.
    pub fn by_name(&mut self, pending: Pending) -> Option<i64> {
        let Pending { number, arguments } = pending;
        let [first, second, third, fourth, ..] = arguments;
        let here = |address| Name { folder: HERE, address };
        let at = |folder, address| Name { folder, address };
        match number as i64 {
            libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
                self.look_up(&here(first), at_folder(pending))
            }
            libc::SYS_newfstatat
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_statx
            | libc::SYS_readlinkat => self.look_up(&at(first, second), pending),
            libc::SYS_getcwd => self.tell_directory(first, second),
            libc::SYS_unlink => self.remove(&here(first)),
            libc::SYS_unlinkat if third == 0 => self.remove(&at(first, second)),
            libc::SYS_rename => self.rename(&here(first), &here(second)),
            libc::SYS_renameat | libc::SYS_renameat2 => self.rename(&at(first, second), &at(third, fourth)),
            libc::SYS_chmod | libc::SYS_chown | libc::SYS_lchown => self.change(&here(first)),
            libc::SYS_fchmodat | libc::SYS_fchownat | libc::SYS_utimensat if second != 0 => {
                self.change(&at(first, second))
            }
            libc::SYS_utimensat => Some(0),
            libc::SYS_umask => Some(0o22),
            _ => None,
        }
    }

    /// The path that a name stands for; none if the engine's own files could be meant.
    fn path(&self, name: &Name) -> Option<Vec<u8>> {
        let text = kernel::read_string(name.address, 4096).ok()?;
        let path = self.kept.descriptors.resolve(name.folder, &text)?;
        (!path.starts_with(b"/proc/")).then_some(path)
    }

    /// Asks about a file.
    fn look_up(&mut self, name: &Name, question: Pending) -> Option<i64> {
        let Pending { number, mut arguments } = question;
        let path = self.path(name)?;
        if self.free.overlay.is_gone(&path) {
            return Some(error(libc::ENOENT));
        }
        if let Some(copy) = self.free.overlay.copy_of(&path) {
            let descriptor = copy.as_raw_fd() as u64;
            return match number as i64 {
                libc::SYS_newfstatat => self.real(libc::SYS_fstat as u64, [descriptor, arguments[2], 0, 0, 0, 0]),
                libc::SYS_faccessat | libc::SYS_faccessat2 => Some(0),
                libc::SYS_readlinkat => Some(error(libc::EINVAL)),
                _ => None,
            };
        }
        // The process that runs the guest again has a folder of its own.
        let is_relative = kernel::read::<u8>(name.address) != Ok(b'/');
        let folder = is_relative.then(|| self.folder(name.folder)).flatten();
        if let Some(folder) = &folder {
            arguments[0] = folder.as_raw_fd() as u64;
        }
        self.real(number, arguments).filter(|_| folder.is_some() || !is_relative)
    }

    fn folder(&self, descriptor: u64) -> Option<File> {
        let path = self.kept.descriptors.resolve(descriptor, b".")?;
        File::open(OsStr::from_bytes(&path)).ok()
    }

    fn tell_directory(&mut self, room: u64, size: u64) -> Option<i64> {
        let text = [self.kept.descriptors.directory.as_slice(), &[0]].concat();
        if (text.len() as u64) > size {
            return Some(error(libc::ERANGE));
        }
        let stored = store(self.engine, room, &text);
        Some(if stored == 0 { text.len() as i64 } else { stored })
    }

    fn remove(&mut self, name: &Name) -> Option<i64> {
        let path = self.path(name)?;
        Some(self.free.overlay.remove(&path).map_or_else(error, |()| 0))
    }

    fn rename(&mut self, from: &Name, to: &Name) -> Option<i64> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        Some(self.free.overlay.rename(&from, &to).ok()?.map_or_else(error, |()| 0))
    }

    /// Owners, rights and times are changed for nobody: only whether the file is there is told.
    fn change(&mut self, name: &Name) -> Option<i64> {
        let path = self.path(name)?;
        let is_there = std::path::Path::new(OsStr::from_bytes(&path)).exists() && !self.free.overlay.is_gone(&path);
        Some(if is_there || self.free.overlay.has(&path) { 0 } else { error(libc::ENOENT) })
    }
}

/// An older question in the form that names the folder.
fn at_folder(pending: Pending) -> Pending {
    let [first, second, third, ..] = pending.arguments;
    let (number, arguments) = match pending.number as i64 {
        libc::SYS_stat => (libc::SYS_newfstatat, [HERE, first, second, 0, 0, 0]),
        libc::SYS_lstat => (libc::SYS_newfstatat, [HERE, first, second, libc::AT_SYMLINK_NOFOLLOW as u64, 0, 0]),
        libc::SYS_access => (libc::SYS_faccessat, [HERE, first, second, 0, 0, 0]),
        _ => (libc::SYS_readlinkat, [HERE, first, second, third, 0, 0]),
    };
    Pending { number: number as u64, arguments }
}

//! What the guest's descriptors lead to, as far as the calls of a run tell: a free run may read on where the recording ends.
//!
//! May miss: what another process of the recording did to a description that both have, and descriptors that came
//! through a socket.

use crate::kernel::{self, Arguments};
use std::collections::BTreeMap;

/// What a descriptor leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file or folder that was opened for reading; `position` is where the next read begins.
    Named { path: Vec<u8>, position: u64 },
    /// One end of a pipe or of a pair of sockets, and the description of the other.
    Paired { other: usize },
    /// A socket that waits for others to connect.
    Listener,
    /// Something from outside that is read from its beginning to its end.
    Stream,
}

#[derive(Default)]
pub struct Descriptors {
    /// The folder that names begin in.
    pub directory: Vec<u8>,
    /// By descriptor; copies of one descriptor share a description. None is one that was closed.
    open: BTreeMap<u64, Option<usize>>,
    descriptions: Vec<Target>,
}

/// Offsets in what `getdents64` gives.
const ENTRY_NEXT: u64 = 8;
const ENTRY_LENGTH: u64 = 16;

impl Descriptors {
    /// What a descriptor leads to; an error if it was closed. One that nobody has opened came with the program.
    pub fn target(&self, descriptor: u64) -> Result<&Target, Closed> {
        match self.open.get(&descriptor) {
            Some(Some(description)) => Ok(self.descriptions.get(*description).unwrap_or(&Target::Stream)),
            Some(None) => Err(Closed),
            None => Ok(&Target::Stream),
        }
    }

    /// Whether a descriptor may still have more to give than was ever recorded: somebody in the program may write to it.
    pub fn is_fed_from_inside(&self, target: &Target) -> bool {
        matches!(target, Target::Paired { other } if self.open.values().any(|description| *description == Some(*other)))
    }

    /// A path as it is from the root: `folder` is the descriptor that it begins at, if it does not begin there.
    pub fn resolve(&self, folder: u64, path: &[u8]) -> Option<Vec<u8>> {
        let start = match self.target(folder) {
            _ if path.starts_with(b"/") => return Some(path.to_vec()),
            _ if folder as i32 == libc::AT_FDCWD => &self.directory,
            Ok(Target::Named { path, .. }) => path,
            _ => return None,
        };
        Some([start.as_slice(), b"/", path].concat())
    }

    /// A call has been carried out, by the kernel or from the recording.
    pub fn note(&mut self, number: u64, arguments: &Arguments, result: i64) {
        let Ok(result) = u64::try_from(result) else { return };
        let [first, second, third, fourth, ..] = *arguments;
        match number as i64 {
            libc::SYS_open => self.opened(result, libc::AT_FDCWD as u64, first, second),
            libc::SYS_openat => self.opened(result, first, second, third),
            libc::SYS_creat
            | libc::SYS_socket
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_openat2
            | libc::SYS_open_by_handle_at
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_memfd_create
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_fanotify_init
            | libc::SYS_pidfd_open
            | libc::SYS_pidfd_getfd
            | libc::SYS_perf_event_open
            | libc::SYS_userfaultfd => self.add(result, Target::Stream),
            // Descriptors may have come with it.
            libc::SYS_recvmsg | libc::SYS_recvmmsg => self.open.retain(|_, description| description.is_some()),
            libc::SYS_listen => self.add(first, Target::Listener),
            libc::SYS_pipe | libc::SYS_pipe2 => self.paired(first),
            libc::SYS_socketpair => self.paired(fourth),
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => self.copied(first, result),
            libc::SYS_fcntl if matches!(second as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                self.copied(first, result);
            }
            libc::SYS_close => {
                self.open.insert(first, None);
            }
            libc::SYS_close_range => {
                self.open.range_mut(first..=second.max(first)).for_each(|(_, description)| *description = None);
            }
            libc::SYS_read | libc::SYS_readv => self.move_on(first, |position| position.saturating_add(result)),
            libc::SYS_lseek => self.move_on(first, |_| result),
            libc::SYS_getdents64 => {
                let next = end_of_entries(second, result);
                self.move_on(first, |position| next.unwrap_or(position));
            }
            libc::SYS_chdir => self.enter(libc::AT_FDCWD as u64, first),
            libc::SYS_fchdir => {
                if let Ok(Target::Named { path, .. }) = self.target(first) {
                    self.directory = path.clone();
                }
            }
            _ => {}
        }
    }

    /// `to` leads to where `from` does.
    pub fn copied(&mut self, from: u64, to: u64) {
        let description = match self.open.get(&from) {
            Some(description) => *description,
            None => Some(self.describe(Target::Stream)),
        };
        self.open.insert(from, description);
        self.open.insert(to, description);
    }

    fn describe(&mut self, target: Target) -> usize {
        self.descriptions.push(target);
        self.descriptions.len() - 1
    }

    fn add(&mut self, descriptor: u64, target: Target) {
        let description = self.describe(target);
        self.open.insert(descriptor, Some(description));
    }

    fn opened(&mut self, descriptor: u64, folder: u64, path: u64, flags: u64) {
        let flags = flags as i32;
        let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
        let name = kernel::read_string(path, 4096).ok().filter(|_| is_read);
        let target = match name.and_then(|name| self.resolve(folder, &name)) {
            Some(path) => Target::Named { path, position: 0 },
            None => Target::Stream,
        };
        self.add(descriptor, target);
    }

    fn paired(&mut self, address: u64) {
        if let Ok(both) = kernel::read::<u64>(address) {
            let description = self.descriptions.len();
            self.add(both & 0xffff_ffff, Target::Paired { other: description + 1 });
            self.add(both >> 32, Target::Paired { other: description });
        }
    }

    fn enter(&mut self, folder: u64, path: u64) {
        let name = kernel::read_string(path, 4096).ok();
        if let Some(directory) = name.and_then(|name| self.resolve(folder, &name)) {
            self.directory = directory;
        }
    }

    fn move_on(&mut self, descriptor: u64, next: impl FnOnce(u64) -> u64) {
        let description = self.open.get(&descriptor).copied().flatten();
        if let Some(Target::Named { position, .. }) = description.and_then(|index| self.descriptions.get_mut(index)) {
            *position = next(*position);
        }
    }
}

/// The descriptor leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Where the entries of a folder go on behind those that a call has given.
fn end_of_entries(address: u64, length: u64) -> Option<u64> {
    let mut at = address;
    let mut next = None;
    while at < address.saturating_add(length) {
        next = Some(kernel::read::<u64>(at + ENTRY_NEXT).ok()?);
        let mut size = [0; 2];
        kernel::read_bytes(at + ENTRY_LENGTH, &mut size).ok()?;
        // No entry is shorter than its own fields.
        at += u64::from(u16::from_le_bytes(size)).max(ENTRY_LENGTH);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, position: u64) -> Target {
        Target::Named { path: path.as_bytes().to_vec(), position }
    }

    fn call(descriptors: &mut Descriptors, number: i64, arguments: [u64; 3], result: i64) {
        let [first, second, third] = arguments;
        descriptors.note(number as u64, &[first, second, third, 0, 0, 0], result);
    }

    #[test]
    fn copies_of_a_descriptor_read_on_where_the_other_has_stopped() {
        let mut descriptors = Descriptors { directory: b"/home".to_vec(), ..Descriptors::default() };
        let name = c"notes";
        let folder = libc::AT_FDCWD as u64;
        call(&mut descriptors, libc::SYS_openat, [folder, name.as_ptr() as u64, 0], 3);
        call(&mut descriptors, libc::SYS_dup, [3, 0, 0], 4);
        call(&mut descriptors, libc::SYS_read, [4, 0, 100], 60);
        assert_eq!(descriptors.target(3), Ok(&at("/home/notes", 60)));
        call(&mut descriptors, libc::SYS_lseek, [3, 10, 0], 10);
        call(&mut descriptors, libc::SYS_close, [3, 0, 0], 0);
        assert_eq!(descriptors.target(3), Err(Closed));
        assert_eq!(descriptors.target(4), Ok(&at("/home/notes", 10)));
    }

    #[test]
    fn what_is_written_to_and_what_came_with_the_program_are_streams() {
        let mut descriptors = Descriptors::default();
        let name = c"/tmp/log";
        call(&mut descriptors, libc::SYS_open, [name.as_ptr() as u64, libc::O_RDWR as u64, 0], 3);
        assert_eq!(descriptors.target(3), Ok(&Target::Stream));
        assert_eq!(descriptors.target(0), Ok(&Target::Stream));
    }

    #[test]
    fn a_pipe_ends_when_the_program_has_closed_all_that_writes_to_it() {
        let mut descriptors = Descriptors::default();
        let ends = [3_i32, 4];
        call(&mut descriptors, libc::SYS_pipe, [ends.as_ptr() as u64, 0, 0], 0);
        call(&mut descriptors, libc::SYS_dup, [4, 0, 0], 5);
        call(&mut descriptors, libc::SYS_close, [4, 0, 0], 0);
        let reading = descriptors.target(3).cloned().unwrap();
        assert!(descriptors.is_fed_from_inside(&reading));
        call(&mut descriptors, libc::SYS_close, [5, 0, 0], 0);
        assert!(!descriptors.is_fed_from_inside(&reading));
    }

    #[test]
    fn names_begin_where_the_program_has_gone() {
        let mut descriptors = Descriptors { directory: b"/home".to_vec(), ..Descriptors::default() };
        let folder = c"src";
        call(&mut descriptors, libc::SYS_chdir, [folder.as_ptr() as u64, 0, 0], 0);
        assert_eq!(descriptors.resolve(libc::AT_FDCWD as u64, b"a"), Some(b"/home/src/a".to_vec()));
        assert_eq!(descriptors.resolve(7, b"/a"), Some(b"/a".to_vec()));
        assert_eq!(descriptors.resolve(7, b"a"), None);
    }
}

//! Which descriptors of the guest lead to the standard output and error that the recorder was given.
//!
//! A recorder follows the guest's calls and writes each change down; a replay, which opens nothing, takes the changes
//! from the recording. A child in `vfork` shares its parent's memory but not its descriptors, so it has a table of its own.
//!
//! A descriptor that comes from another process is known by the file that it leads to. May miss: which of two streams it
//! is if both lead to the same file (the first one is taken), and tables that are shared by `CLONE_FILES` without being threads.

mod received;

use crate::file_changes;
use crate::journal::GuestMemory;
use crate::kernel::{self, Arguments};
use crate::syscalls;
use guest::effects::{self, Call};
use std::collections::BTreeMap;
use trace::event::Stream;

/// Device and inode of what a descriptor leads to.
type Object = (u64, u64);

/// A stream by descriptor: 1 is standard output, 2 standard error.
pub type Table = BTreeMap<i32, u8>;

/// What a stream is called that is neither.
const ELSEWHERE: u8 = 0;

pub struct Streams {
    shared: Table,
    /// Of children in `vfork`.
    own: BTreeMap<u32, Table>,
    /// What the streams lead to, as far as the run began with them.
    files: BTreeMap<u8, Object>,
}

impl Default for Streams {
    /// As a log begins, before any event says otherwise.
    fn default() -> Streams {
        Streams { shared: Table::from([(1, 1), (2, 2)]), own: BTreeMap::new(), files: BTreeMap::new() }
    }
}

impl Streams {
    pub fn of(&self, thread: u32, descriptor: i32) -> Option<u8> {
        self.table(thread).get(&descriptor).copied()
    }

    fn table(&self, thread: u32) -> &Table {
        self.own.get(&thread).unwrap_or(&self.shared)
    }

    pub fn set(&mut self, change: Stream) {
        let table = self.own.get_mut(&change.thread).unwrap_or(&mut self.shared);
        match change.stream {
            ELSEWHERE => table.remove(&change.descriptor),
            stream => table.insert(change.descriptor, stream),
        };
    }

    /// Keeps in mind what the streams lead to.
    pub fn remember_files(&mut self) {
        let known = self
            .shared
            .iter()
            .filter_map(|(&descriptor, &stream)| Some((stream, syscalls::object_of(descriptor as u64)?)));
        self.files = known.collect();
    }

    pub fn begin_vfork(&mut self, thread: u32) {
        self.own.insert(thread, self.table(thread).clone());
    }

    pub fn end_vfork(&mut self, thread: u32) {
        self.own.remove(&thread);
    }

    /// What leads to a stream in a program that the thread executes.
    pub fn kept_over_exec(&self, thread: u32) -> Vec<(i32, u8)> {
        let kept = |descriptor: i32| flags_of(descriptor).is_some_and(|flags| flags & libc::FD_CLOEXEC as i64 == 0);
        self.table(thread).iter().filter(|(descriptor, _)| kept(**descriptor)).map(|(a, b)| (*a, *b)).collect()
    }

    /// What has to be written down so that a log begins with these streams, as far as they are open.
    pub fn changes_to(&self, thread: u32, begun: &[(i32, u8)]) -> Vec<Stream> {
        let wanted: Table = begun.iter().copied().filter(|(descriptor, _)| flags_of(*descriptor).is_some()).collect();
        let gone = self.table(thread).keys().filter(|descriptor| !wanted.contains_key(descriptor));
        let gone = gone.map(|&descriptor| Stream { thread, descriptor, stream: ELSEWHERE });
        let new = wanted.iter().filter(|(descriptor, stream)| self.of(thread, **descriptor) != Some(**stream));
        gone.chain(new.map(|(&descriptor, &stream)| Stream { thread, descriptor, stream })).collect()
    }

    /// What a call has changed.
    pub fn changes_by(&self, thread: u32, call: &Call) -> Vec<Stream> {
        let Call { arguments, result, .. } = *call;
        let [first, second, third, ..] = arguments;
        let made = result as i32;
        let duplicated = |made: i32| self.becomes(thread, made, self.of(thread, first as i32));
        match call.number as i64 {
            // Whatever else is said of a descriptor that was open, it is closed.
            libc::SYS_close if result != -i64::from(libc::EBADF) => self.becomes(thread, first as i32, None),
            libc::SYS_close_range if result == 0 && third & CLOSE_RANGE_CLOEXEC == 0 => {
                let (low, high) = (first as u32, second as u32);
                let closed = |descriptor: &&i32| (low..=high).contains(&(**descriptor as u32));
                let descriptors = self.table(thread).keys().filter(closed);
                descriptors.map(|&descriptor| Stream { thread, descriptor, stream: ELSEWHERE }).collect()
            }
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 if result >= 0 => duplicated(made),
            libc::SYS_fcntl if result >= 0 && matches!(second as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                duplicated(made)
            }
            libc::SYS_open | libc::SYS_creat if result >= 0 => self.opened(thread, made, first),
            libc::SYS_openat | libc::SYS_openat2 if result >= 0 => self.opened(thread, made, second),
            libc::SYS_recvmsg if result >= 0 => self.received(thread, &received::in_message(second)),
            libc::SYS_recvmmsg if result > 0 => self.received(thread, &received::in_messages(second, result as u64)),
            libc::SYS_pidfd_getfd if result >= 0 => self.received(thread, &[made]),
            _ => Vec::new(),
        }
    }

    /// A file that was opened by one of the names of a descriptor is what the descriptor leads to.
    fn opened(&self, thread: u32, made: i32, path_at: u64) -> Vec<Stream> {
        let named = syscalls::descriptor_named_at(path_at);
        self.becomes(thread, made, named.and_then(|descriptor| self.of(thread, descriptor)))
    }

    /// Descriptors have come from another process.
    fn received(&self, thread: u32, descriptors: &[i32]) -> Vec<Stream> {
        let stream_of = |file: Object| self.files.iter().find(|(_, known)| **known == file).map(|(stream, _)| *stream);
        let stream = |descriptor: i32| syscalls::object_of(descriptor as u64).and_then(stream_of);
        descriptors.iter().flat_map(|&descriptor| self.becomes(thread, descriptor, stream(descriptor))).collect()
    }

    fn becomes(&self, thread: u32, descriptor: i32, stream: Option<u8>) -> Vec<Stream> {
        if self.of(thread, descriptor) == stream {
            return Vec::new();
        }
        vec![Stream { thread, descriptor, stream: stream.unwrap_or(ELSEWHERE) }]
    }
}

const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// The descriptor's own flags, if it is open.
fn flags_of(descriptor: i32) -> Option<i64> {
    let arguments: Arguments = [descriptor as u64, libc::F_GETFD as u64, 0, 0, 0, 0];
    Some(kernel::call(libc::SYS_fcntl as u64, arguments)).filter(|flags| *flags >= 0)
}

/// The descriptor that a call has sent something to, in whatever way.
pub fn written_to(call: &Call) -> Option<i32> {
    let mut has_sent = false;
    let _ = effects::sent(call, &GuestMemory, &mut |_| has_sent = true);
    let sent = has_sent.then_some(call.arguments[0] as i32);
    sent.or_else(|| passed_on(call).map(|(to, ..)| to))
}

/// What a call has sent to a descriptor without showing it to the guest: the descriptor, the file that the bytes are
/// from, and where they begin there.
pub fn passed_on(call: &Call) -> Option<(i32, i32, u64)> {
    let sent = u64::try_from(call.result).ok().filter(|sent| *sent > 0)?;
    let [first, second, third, ..] = call.arguments;
    let (to, from, offset_at) = match call.number as i64 {
        libc::SYS_sendfile => (first, second, third),
        libc::SYS_copy_file_range | libc::SYS_splice => (third, first, second),
        _ => return None,
    };
    let end = file_changes::position(from, offset_at)?;
    Some((to as i32, from as i32, end.checked_sub(sent)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(calls: &[(i64, [u64; 3], i64)]) -> Streams {
        let mut streams = Streams::default();
        for &(number, [first, second, third], result) in calls {
            let call = Call { number: number as u64, arguments: [first, second, third, 0, 0, 0], result };
            for change in streams.changes_by(1, &call) {
                streams.set(change);
            }
        }
        streams
    }

    #[track_caller]
    fn check(calls: &[(i64, [u64; 3], i64)], expected: &[(i32, u8)]) {
        assert_eq!(after(calls).shared, expected.iter().copied().collect::<Table>());
    }

    #[test]
    fn copies_lead_where_their_originals_lead() {
        check(&[(libc::SYS_dup, [1, 0, 0], 7)], &[(1, 1), (2, 2), (7, 1)]);
        check(&[(libc::SYS_dup2, [2, 1, 0], 1)], &[(1, 2), (2, 2)]);
        check(&[(libc::SYS_fcntl, [2, libc::F_DUPFD_CLOEXEC as u64, 10], 10)], &[(1, 1), (2, 2), (10, 2)]);
        check(&[(libc::SYS_dup3, [5, 1, 0], 1)], &[(2, 2)]);
        check(&[(libc::SYS_fcntl, [2, libc::F_GETFD as u64, 0], 1)], &[(1, 1), (2, 2)]);
    }

    #[test]
    fn what_is_closed_leads_nowhere() {
        check(&[(libc::SYS_close, [1, 0, 0], 0)], &[(2, 2)]);
        check(&[(libc::SYS_close, [1, 0, 0], -i64::from(libc::EIO))], &[(2, 2)]);
        check(&[(libc::SYS_close, [1, 0, 0], -i64::from(libc::EBADF))], &[(1, 1), (2, 2)]);
        check(&[(libc::SYS_close_range, [2, u64::from(u32::MAX), 0], 0)], &[(1, 1)]);
        check(&[(libc::SYS_close_range, [0, 9, CLOSE_RANGE_CLOEXEC], 0)], &[(1, 1), (2, 2)]);
    }

    #[test]
    fn calls_that_fail_change_nothing() {
        check(&[(libc::SYS_dup2, [1, 9, 0], -i64::from(libc::EBADF))], &[(1, 1), (2, 2)]);
        check(&[(libc::SYS_openat, [0, 0, 0], -i64::from(libc::ENOENT))], &[(1, 1), (2, 2)]);
    }

    #[test]
    fn a_child_in_vfork_has_its_own() {
        let mut streams = Streams::default();
        streams.begin_vfork(3);
        streams.set(Stream { thread: 3, descriptor: 1, stream: 2 });
        assert_eq!((streams.of(3, 1), streams.of(1, 1)), (Some(2), Some(1)));
        streams.end_vfork(3);
        assert_eq!(streams.of(3, 1), Some(1));
    }
}

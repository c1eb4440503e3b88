//! What the guest's descriptors lead to, as far as the calls of a run tell: a free run may read on where the recording ends,
//! and what goes from one of the program's threads to another is kept here.
//!
//! May miss: what another process of the recording did to a description that both have, and descriptors that came
//! through a socket.

use super::channels::inputs::Inputs;
use super::channels::interests::{EVENT, Interest, Interests};
use super::channels::tail::{Kind, is_sending, is_stream};
use super::kept::sent;
use crate::kernel::{self, Arguments};
use std::collections::{BTreeMap, VecDeque};

/// What a descriptor leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file or folder that was opened for reading; `position` is where the next read begins.
    Named {
        path: Vec<u8>,
        position: u64,
    },
    /// One end of a pipe or of a pair of sockets, and the description of the other.
    Paired {
        other: usize,
    },
    /// A socket to the outside, connected or listening: what comes through it is a source of input.
    Socket {
        source: usize,
    },
    /// A number that threads add to and wait for (`eventfd`).
    Counter {
        value: u64,
        is_semaphore: bool,
    },
    Timer(Timer),
    /// A set of events (`epoll`).
    Set(Interests),
    /// Something from outside that is read from its beginning to its end.
    Stream,
    /// Something from outside that tells something now and then, and has no end.
    Notices,
}

/// When a `timerfd` is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub clock: u64,
    /// What the clock shows then.
    pub next: Option<u64>,
    pub interval: u64,
}

impl Timer {
    /// How many times it has been due when its clock shows `now`.
    pub fn n_due(&self, now: u64) -> u64 {
        match self.next {
            Some(next) if next <= now => 1 + (now - next).checked_div(self.interval).unwrap_or(0),
            _ => 0,
        }
    }

    /// So many of these have been read.
    fn pass(&mut self, count: u64) {
        let step = self.interval.saturating_mul(count);
        self.next = self.next.filter(|_| self.interval > 0).map(|next| next.saturating_add(step));
    }
}

#[derive(Clone, Debug)]
pub struct Description {
    pub target: Target,
    pub is_nonblocking: bool,
    /// What the other end of a pair has sent.
    pub inbox: VecDeque<u8>,
    /// Others connect to it.
    pub is_listening: bool,
    /// Another process has it too, so what happens to it is not known.
    is_shared: bool,
    /// How often something has come.
    pub n_stirs: u64,
}

#[derive(Default)]
pub struct Descriptors {
    /// The folder that names begin in.
    pub directory: Vec<u8>,
    /// By descriptor; copies of one descriptor share a description. None is one that was closed.
    open: BTreeMap<u64, Option<usize>>,
    /// What files of the system's own held when they were last read, by path.
    pub contents: BTreeMap<Vec<u8>, Vec<u8>>,
    descriptions: Vec<Description>,
}

/// Offsets in what `getdents64` gives.
const ENTRY_NEXT: u64 = 8;
const ENTRY_LENGTH: u64 = 16;

impl Descriptors {
    /// What a descriptor leads to; an error if it was closed. One that nobody has opened came with the program.
    pub fn target(&self, descriptor: u64) -> Result<&Target, Closed> {
        match self.open.get(&descriptor) {
            Some(Some(description)) => Ok(self.descriptions.get(*description).map_or(&Target::Stream, |it| &it.target)),
            Some(None) => Err(Closed),
            None => Ok(&Target::Stream),
        }
    }

    /// The description that a descriptor leads to, if anybody has opened it.
    pub fn description_of(&self, descriptor: u64) -> Option<usize> {
        self.open.get(&(descriptor & 0xffff_ffff)).copied().flatten()
    }

    pub fn description(&self, number: usize) -> Option<&Description> {
        self.descriptions.get(number)
    }

    pub fn description_mut(&mut self, number: usize) -> Option<&mut Description> {
        self.descriptions.get_mut(number)
    }

    /// Whether any descriptor leads there.
    pub fn is_open(&self, description: usize) -> bool {
        self.open.values().any(|open| *open == Some(description))
    }

    pub fn is_taken(&self, descriptor: u64) -> bool {
        self.description_of(descriptor).is_some()
    }

    /// Whether a descriptor may still have more to give than was ever recorded: somebody in the program may write to it.
    pub fn is_fed_from_inside(&self, target: &Target) -> bool {
        matches!(target, Target::Paired { other } if self.is_open(*other))
    }

    /// Who answers calls on a descriptor once the recording is left.
    pub fn kind(&self, descriptor: u64) -> Kind {
        let description = self.description_of(descriptor).and_then(|number| self.descriptions.get(number));
        match description {
            Some(Description { is_shared: true, target: Target::Paired { .. } | Target::Counter { .. }, .. }) => {
                Kind::Other
            }
            Some(Description { target: Target::Socket { source }, .. }) => Kind::Socket(*source),
            Some(Description { target: Target::Named { .. } | Target::Stream | Target::Notices, .. }) | None => {
                Kind::Other
            }
            Some(_) => Kind::Own,
        }
    }

    /// The same of all that are open.
    pub fn kinds(&self) -> BTreeMap<u64, Kind> {
        self.open.keys().map(|descriptor| (*descriptor, self.kind(*descriptor))).collect()
    }

    /// The sources of input of those that are there now are numbered as their descriptions are.
    pub fn sources(&self) -> Inputs {
        Inputs::with_sources(self.descriptions.len())
    }

    /// Another process has come to be that has all descriptors too.
    pub fn share(&mut self) {
        self.descriptions.iter_mut().for_each(|description| description.is_shared = true);
    }

    /// A connection to the outside under a descriptor.
    pub fn connect(&mut self, descriptor: u64, source: usize, is_nonblocking: bool) {
        self.add(descriptor, Target::Socket { source }, is_nonblocking);
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
            libc::SYS_socket if is_stream(second) => {
                let source = self.descriptions.len();
                self.connect(result, source, second as i32 & libc::SOCK_NONBLOCK != 0);
            }
            libc::SYS_accept | libc::SYS_accept4 => {
                let flags = if number as i64 == libc::SYS_accept4 { fourth } else { 0 };
                let source = self.descriptions.len();
                self.connect(result, source, flags as i32 & libc::SOCK_NONBLOCK != 0);
            }
            libc::SYS_epoll_create | libc::SYS_epoll_create1 => {
                self.add(result, Target::Set(Interests::default()), false);
            }
            libc::SYS_eventfd | libc::SYS_eventfd2 => {
                let flags = if number as i64 == libc::SYS_eventfd2 { second as i32 } else { 0 };
                let target =
                    Target::Counter { value: first & 0xffff_ffff, is_semaphore: flags & libc::EFD_SEMAPHORE != 0 };
                self.add(result, target, flags & libc::EFD_NONBLOCK != 0);
            }
            libc::SYS_timerfd_create => {
                let timer = Timer { clock: first, next: None, interval: 0 };
                self.add(result, Target::Timer(timer), second as i32 & libc::TFD_NONBLOCK != 0);
            }
            libc::SYS_socket
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_fanotify_init => self.add(result, Target::Notices, false),
            libc::SYS_creat
            | libc::SYS_openat2
            | libc::SYS_open_by_handle_at
            | libc::SYS_memfd_create
            | libc::SYS_pidfd_open
            | libc::SYS_pidfd_getfd
            | libc::SYS_perf_event_open
            | libc::SYS_userfaultfd => self.add(result, Target::Stream, false),
            // Descriptors may have come with it.
            libc::SYS_recvmmsg => self.open.retain(|_, description| description.is_some()),
            libc::SYS_recvmsg => {
                self.note_received(first, second, result);
                self.open.retain(|_, description| description.is_some());
            }
            libc::SYS_pipe => self.paired(first, 0),
            libc::SYS_pipe2 => self.paired(first, second as i32 & libc::O_NONBLOCK),
            libc::SYS_socketpair => self.paired(fourth, second as i32 & libc::SOCK_NONBLOCK),
            libc::SYS_fcntl if second as i32 == libc::F_SETFL => {
                self.set_nonblocking(first, third as i32 & libc::O_NONBLOCK != 0);
            }
            libc::SYS_ioctl if second == libc::FIONBIO => {
                self.set_nonblocking(first, kernel::read::<u32>(third).is_ok_and(|flag| flag != 0));
            }
            libc::SYS_listen => {
                if let Some(description) = self.description_of(first) {
                    self.descriptions[description].is_listening = true;
                }
            }
            libc::SYS_epoll_ctl => {
                let _ = self.control(*arguments);
            }
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
                self.note_reported(first, second, result);
            }
            _ if is_sending(number) => self.note_sent(number, arguments, result),
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
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom => {
                self.note_content(first, second, result);
                self.move_on(first, |position| position.saturating_add(result));
                self.note_received(first, second, result);
            }
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
            None => Some(self.describe(Target::Stream, false)),
        };
        self.open.insert(from, description);
        self.open.insert(to, description);
    }

    fn describe(&mut self, target: Target, is_nonblocking: bool) -> usize {
        let inbox = VecDeque::new();
        let (is_listening, is_shared, n_stirs) = (false, false, 0);
        self.descriptions.push(Description { target, is_nonblocking, inbox, is_listening, is_shared, n_stirs });
        self.descriptions.len() - 1
    }

    fn add(&mut self, descriptor: u64, target: Target, is_nonblocking: bool) {
        let description = self.describe(target, is_nonblocking);
        self.open.insert(descriptor, Some(description));
    }

    fn set_nonblocking(&mut self, descriptor: u64, is_nonblocking: bool) {
        if let Some(description) = self.description_of(descriptor) {
            self.descriptions[description].is_nonblocking = is_nonblocking;
        }
    }

    /// Files that the system makes up when they are read are not the same in the run's own process.
    fn note_content(&mut self, descriptor: u64, room: u64, count: u64) {
        if let Ok(Target::Named { path, position: 0 }) = self.target(descriptor)
            && is_made_up(path)
        {
            let mut bytes = vec![0; count.min(LARGEST_CONTENT) as usize];
            if kernel::read_bytes(room, &mut bytes).is_ok() {
                self.contents.insert(path.clone(), bytes);
            }
        }
    }

    /// Any descriptor that leads there.
    pub fn number_of(&self, description: usize) -> Option<u64> {
        self.open.iter().find_map(|(&descriptor, open)| (*open == Some(description)).then_some(descriptor))
    }

    /// The source of input of a socket that has just been made.
    pub fn set_source(&mut self, descriptor: u64, new: usize) {
        let description = self.description_of(descriptor).and_then(|number| self.descriptions.get_mut(number));
        if let Some(Target::Socket { source }) = description.map(|description| &mut description.target) {
            *source = new;
        }
    }

    /// What `timerfd_settime` makes of a timer; `now` tells what a clock shows.
    pub fn set_timer(&mut self, arguments: &Arguments, now: impl Fn(u64) -> u64) {
        let [descriptor, flags, new, ..] = *arguments;
        let Ok(words) = kernel::read::<[u64; 4]>(new) else { return };
        let [interval, value] = [[words[0], words[1]], [words[2], words[3]]]
            .map(|[seconds, rest]| seconds.saturating_mul(1_000_000_000).saturating_add(rest));
        let description = self.description_of(descriptor).and_then(|number| self.descriptions.get_mut(number));
        if let Some(Target::Timer(timer)) = description.map(|description| &mut description.target) {
            let start = if flags as i32 & libc::TFD_TIMER_ABSTIME != 0 { 0 } else { now(timer.clock) };
            timer.next = (value > 0).then(|| start.saturating_add(value));
            timer.interval = interval;
        }
    }

    /// What `epoll_ctl` does.
    pub fn control(&mut self, arguments: Arguments) -> Result<(), i32> {
        let [set, operation, descriptor, address, ..] = arguments;
        let descriptor = descriptor & 0xffff_ffff;
        let description = self.description_of(descriptor).ok_or(libc::EBADF)?;
        let mut event = [0; EVENT];
        if operation as i32 != libc::EPOLL_CTL_DEL && kernel::read_bytes(address, &mut event).is_err() {
            return Err(libc::EFAULT);
        }
        let events = u32::from_le_bytes([event[0], event[1], event[2], event[3]]);
        let data = event[4..].iter().rev().fold(0, |data, byte| data << 8 | u64::from(*byte));
        let item = Interest { descriptor, description, events, data, seen: None, is_over: false };
        let set = self.description_of(set).and_then(|set| self.descriptions.get_mut(set));
        match set.map(|set| &mut set.target) {
            Some(Target::Set(interests)) => interests.control(operation as i32, item),
            _ => Err(libc::EINVAL),
        }
    }

    fn note_reported(&mut self, set: u64, events: u64, count: u64) {
        let Some(set) = self.description_of(set) else { return };
        let versions: Vec<u64> = self.descriptions.iter().map(|description| description.n_stirs).collect();
        let Target::Set(interests) = &mut self.descriptions[set].target else { return };
        for index in 0..count {
            if let Ok(data) = kernel::read::<u64>(events.wrapping_add(index * EVENT as u64 + 4)) {
                interests.note_reported(data, |description| versions[description]);
            }
        }
    }

    /// Something was sent to a thread of the program's own, or to nobody who matters.
    fn note_sent(&mut self, number: u64, arguments: &Arguments, count: u64) {
        let Some(from) = self.description_of(arguments[0]) else { return };
        let Description { target, is_shared, n_stirs, .. } = &mut self.descriptions[from];
        match target {
            Target::Paired { other } if !*is_shared => {
                let other = *other;
                let bytes = sent(number, *arguments, count as i64);
                let to = &mut self.descriptions[other];
                to.inbox.extend(bytes);
                to.n_stirs += 1;
            }
            Target::Counter { value, .. } => {
                *value = value.saturating_add(kernel::read::<u64>(arguments[1]).unwrap_or(0));
                *n_stirs += 1;
            }
            _ => {}
        }
    }

    fn note_received(&mut self, descriptor: u64, room: u64, count: u64) {
        let Some(number) = self.description_of(descriptor) else { return };
        let Description { target, inbox, is_shared, .. } = &mut self.descriptions[number];
        match target {
            Target::Paired { .. } => {
                // What nobody here has sent came from another process.
                *is_shared |= count > inbox.len() as u64;
                inbox.drain(..inbox.len().min(count as usize));
            }
            Target::Counter { value, is_semaphore } => *value = if *is_semaphore { value.saturating_sub(1) } else { 0 },
            Target::Timer(timer) => timer.pass(kernel::read::<u64>(room).unwrap_or(1)),
            _ => {}
        }
    }

    fn opened(&mut self, descriptor: u64, folder: u64, path: u64, flags: u64) {
        let flags = flags as i32;
        let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
        let name = kernel::read_string(path, 4096).ok().filter(|_| is_read);
        let target = match name.and_then(|name| self.resolve(folder, &name)) {
            Some(path) => Target::Named { path, position: 0 },
            None => Target::Stream,
        };
        self.add(descriptor, target, false);
    }

    fn paired(&mut self, address: u64, nonblocking: i32) {
        if let Ok(both) = kernel::read::<u64>(address) {
            let description = self.descriptions.len();
            self.add(both & 0xffff_ffff, Target::Paired { other: description + 1 }, nonblocking != 0);
            self.add(both >> 32, Target::Paired { other: description }, nonblocking != 0);
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
        let description = description.and_then(|index| self.descriptions.get_mut(index));
        if let Some(Target::Named { position, .. }) = description.map(|description| &mut description.target) {
            *position = next(*position);
        }
    }
}

/// No more is kept of a file that the system makes up.
const LARGEST_CONTENT: u64 = 1 << 16;

/// Whether a file has no content but what the system tells whoever asks.
pub fn is_made_up(path: &[u8]) -> bool {
    [b"/proc/".as_slice(), b"/sys/"].iter().any(|folder| path.starts_with(folder))
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
    fn what_one_end_of_a_pair_sends_the_other_has_until_it_is_read() {
        let mut descriptors = Descriptors::default();
        let (ends, text) = ([3_i32, 4], b"hello");
        call(&mut descriptors, libc::SYS_pipe2, [ends.as_ptr() as u64, libc::O_NONBLOCK as u64, 0], 0);
        call(&mut descriptors, libc::SYS_write, [4, text.as_ptr() as u64, 5], 5);
        call(&mut descriptors, libc::SYS_read, [3, 0, 3], 3);
        let reading = descriptors.description_of(3).and_then(|number| descriptors.description(number)).unwrap();
        assert_eq!((reading.inbox.iter().copied().collect(), reading.is_nonblocking), (b"lo".to_vec(), true));
        assert_eq!(descriptors.kind(3), Kind::Own);
        call(&mut descriptors, libc::SYS_read, [3, 0, 9], 9);
        assert_eq!(descriptors.kind(3), Kind::Other, "more was read than anybody here has sent");
    }

    #[test]
    fn a_process_that_has_forked_does_not_know_its_pipes() {
        let mut descriptors = Descriptors::default();
        let ends = [3_i32, 4];
        call(&mut descriptors, libc::SYS_pipe, [ends.as_ptr() as u64, 0, 0], 0);
        call(&mut descriptors, libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0], 5);
        call(&mut descriptors, libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_DGRAM as u64, 0], 6);
        descriptors.share();
        let kinds = [3, 5, 6].map(|descriptor| descriptors.kind(descriptor));
        assert_eq!(kinds, [Kind::Other, Kind::Socket(2), Kind::Other]);
    }

    #[test]
    fn counters_add_up_until_they_are_read() {
        let (mut descriptors, one) = (Descriptors::default(), 1_u64);
        let value = |descriptors: &Descriptors, descriptor| match descriptors.target(descriptor) {
            Ok(Target::Counter { value, .. }) => *value,
            other => panic!("no counter: {other:?}"),
        };
        call(&mut descriptors, libc::SYS_eventfd2, [2, 0, 0], 3);
        call(&mut descriptors, libc::SYS_eventfd2, [2, libc::EFD_SEMAPHORE as u64, 0], 4);
        for descriptor in [3, 4] {
            call(&mut descriptors, libc::SYS_write, [descriptor, &raw const one as u64, 8], 8);
            assert_eq!(value(&descriptors, descriptor), 3);
            call(&mut descriptors, libc::SYS_read, [descriptor, 0, 8], 8);
        }
        assert_eq!([value(&descriptors, 3), value(&descriptors, 4)], [0, 2]);
    }

    #[test]
    fn timers_are_due_again_and_again() {
        let mut descriptors = Descriptors::default();
        let timer = |descriptors: &Descriptors| match descriptors.target(3) {
            Ok(Target::Timer(timer)) => *timer,
            other => panic!("no timer: {other:?}"),
        };
        call(&mut descriptors, libc::SYS_timerfd_create, [1, 0, 0], 3);
        // Every 10 nanoseconds, for the first time in 25.
        let times = [0_u64, 10, 0, 25];
        descriptors.set_timer(&[3, 0, times.as_ptr() as u64, 0, 0, 0], |clock| 100 * clock);
        assert_eq!([124, 125, 134, 145].map(|now| timer(&descriptors).n_due(now)), [0, 1, 1, 3]);
        let n_read = 3_u64;
        call(&mut descriptors, libc::SYS_read, [3, &raw const n_read as u64, 8], 8);
        assert_eq!([145, 155].map(|now| timer(&descriptors).n_due(now)), [0, 1]);
    }

    #[test]
    fn a_set_is_changed_as_the_program_says() {
        let mut descriptors = Descriptors::default();
        call(&mut descriptors, libc::SYS_epoll_create1, [0, 0, 0], 3);
        call(&mut descriptors, libc::SYS_eventfd2, [0, 0, 0], 4);
        let event: [u32; 3] = [libc::EPOLLIN.cast_unsigned(), 77, 0];
        let add = [3, libc::EPOLL_CTL_ADD as u64, 4, event.as_ptr() as u64, 0, 0];
        assert_eq!(descriptors.control(add), Ok(()));
        assert_eq!(descriptors.control(add), Err(libc::EEXIST));
        let Ok(Target::Set(interests)) = descriptors.target(3) else { panic!("no set") };
        let items: Vec<(u64, u64, u32)> =
            interests.0.iter().map(|item| (item.descriptor, item.data, item.events)).collect();
        assert_eq!(items, [(4, 77, event[0])]);
        assert_eq!(descriptors.control([3, libc::EPOLL_CTL_ADD as u64, 9, 0, 0, 0]), Err(libc::EBADF));
        assert_eq!(descriptors.control([4, libc::EPOLL_CTL_DEL as u64, 4, 0, 0, 0]), Err(libc::EINVAL));
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

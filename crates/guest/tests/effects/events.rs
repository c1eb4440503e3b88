//! Waiting, signals and asynchronous requests.

use std::os::fd::AsRawFd;

use super::arena::Expect::{Fails, FailsWriting, Writes, WritesIfAble, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{Folder, Interruptions, call, fd, file_with, open_call, pipe_with};

const READABLE: u64 = 1;
const LONG: u64 = 1000;

pub const CASES: &[Case] = &[
    case("poll", "one of two is ready", Writes, |arena| [polled(arena, b"x"), 2, 100, 0, 0, 0]),
    case("poll", "nothing is ready", Writes, |arena| [polled(arena, b""), 2, 0, 0, 0, 0]),
    case("poll", "interrupted", FailsWriting(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        [polled(arena, b""), 2, 1_000_000, 0, 0, 0]
    }),
    case("poll", "too many", Fails(libc::EINVAL), |arena| [arena.room(16), 0xffff_fff0, 0, 0, 0, 0]),
    case("ppoll", "with a timeout", Writes, |arena| [polled(arena, b"x"), 2, arena.put_words(&[LONG, 0]), 0, 8, 0]),
    case("ppoll", "interrupted", FailsWriting(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        [polled(arena, b""), 2, arena.put_words(&[LONG, 0]), 0, 8, 0]
    }),
    case("select", "one is ready", Writes, |arena| selected(arena, b"x", 100)),
    case("select", "none is ready in time", Writes, |arena| selected(arena, b"", 0)),
    case("select", "interrupted: the timeout, not the sets", FailsWriting(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        selected(arena, b"", LONG)
    }),
    case("pselect6", "one is ready", Writes, |arena| selected(arena, b"x", 100)),
    case("pselect6", "interrupted", FailsWriting(libc::EINTR), |arena| {
        arena.keep(Interruptions::start());
        selected(arena, b"", LONG)
    }),
    case("epoll_create", "", WritesNothing, |_| [1, 0, 0, 0, 0, 0]),
    case("epoll_create1", "", WritesNothing, |_| [0; 6]),
    case("epoll_ctl", "", WritesNothing, |arena| {
        let event = fd(arena, open_call(libc::SYS_eventfd2, &[0, 0]));
        let epoll = fd(arena, open_call(libc::SYS_epoll_create1, &[0]));
        [epoll, 1, event, arena.put(&[1; 12]), 0, 0]
    }),
    case("epoll_wait", "two events", Writes, |arena| [watched(arena, 1), arena.room(48), 4, 100, 0, 0]),
    case("epoll_wait", "none", WritesNothing, |arena| [watched(arena, 0), arena.room(48), 4, 0, 0, 0]),
    case("epoll_pwait", "", Writes, |arena| [watched(arena, 1), arena.room(48), 4, 100, 0, 8]),
    case("epoll_pwait2", "", Writes, |arena| [watched(arena, 1), arena.room(48), 4, arena.put_words(&[LONG, 0]), 0, 8]),
    case("eventfd", "", WritesNothing, |_| [3, 0, 0, 0, 0, 0]),
    case("eventfd2", "", WritesNothing, |_| [3, 0, 0, 0, 0, 0]),
    case("read", "from an event counter", Writes, |arena| {
        [fd(arena, open_call(libc::SYS_eventfd2, &[3, 0])), arena.room(20), 20, 0, 0, 0]
    }),
    case("inotify_init1", "", WritesNothing, |_| [0; 6]),
    case("read", "from inotify", Writes, |arena| {
        let notify = open_call(libc::SYS_inotify_init1, &[0]);
        let folder = Folder::new();
        let path = arena.put_string(&folder.path(""));
        call(libc::SYS_inotify_add_watch, &[notify.as_raw_fd() as u64, path, libc::IN_CREATE as u64]);
        std::fs::write(folder.path("new"), "").unwrap();
        arena.keep(folder);
        [fd(arena, notify), arena.room(500), 500, 0, 0, 0]
    }),
    case("rt_sigaction", "the old action", Writes, |arena| [libc::SIGUSR1 as u64, 0, arena.room(32), 8, 0, 0]),
    case("rt_sigprocmask", "the old mask", Writes, |arena| [0, 0, arena.room(8), 8, 0, 0]),
    case("rt_sigpending", "", Writes, |arena| [arena.room(8), 8, 0, 0, 0, 0]),
    case("rt_sigpending", "less than a set", Writes, |arena| [arena.room(3), 3, 0, 0, 0, 0]),
    case("sigaltstack", "the old stack", Writes, |arena| [0, arena.room(24), 0, 0, 0, 0]),
    case("rt_sigtimedwait", "", Writes, |arena| {
        let set = pending_signal(arena);
        [set, arena.room(128), 0, 8, 0, 0]
    }),
    case("rt_sigtimedwait", "in vain", Fails(libc::EAGAIN), |arena| {
        [arena.put_words(&[1 << 40]), arena.room(128), arena.put_words(&[0, 0]), 8, 0, 0]
    }),
    case("signalfd4", "", WritesNothing, |arena| [u64::MAX, arena.put_words(&[1 << 40]), 8, 0, 0, 0]),
    case("read", "from a signal descriptor", Writes, |arena| {
        let set = pending_signal(arena);
        [fd(arena, open_call(libc::SYS_signalfd4, &[u64::MAX, set, 8, 0])), arena.room(300), 300, 0, 0, 0]
    }),
    case("futex", "waking", WritesNothing, |arena| [arena.put_int(1), 1, 1, 0, 0, 0]),
    case("futex", "taking a lock with priority", Writes, |arena| [arena.put_int(0), 8 | 128, 0, 0, 0, 0]),
    case("futex", "waking and adding", Writes, |arena| {
        const ADD_ONE: u64 = 1 << 28 | 1 << 12;
        [arena.put_int(1), 5 | 128, 1, 1, arena.put_int(1), ADD_ONE]
    }),
    case("get_robust_list", "", Writes, |arena| [0, arena.room(8), arena.room(8), 0, 0, 0]),
    case("io_getevents", "of a read that has finished", WritesIfAble, |arena| {
        const READ: u64 = 0;
        let file = fd(arena, file_with(b"content"));
        let request = [1, 0, READ | file << 32, arena.room(100), 100, 0, 0, 0];
        let request = arena.put_words(&request);
        let Some(context) = asynchronous(arena) else { return [0, 1, 1, arena.room(32), 0, 0] };
        call(libc::SYS_io_submit, &[context, 1, arena.put_words(&[request])]);
        [context, 1, 4, arena.room(128), 0, 0]
    }),
];

/// Two descriptors to poll, of which the second has this to read.
fn polled(arena: &mut Arena, content: &[u8]) -> u64 {
    let (full, empty) = (pipe_with(content), pipe_with(b""));
    let entries = [&empty, &full].map(|pipe| pipe.0.as_raw_fd() as u64 | READABLE << 32 | 0xeeee << 48);
    arena.keep((full, empty));
    arena.put_words(&entries)
}

/// Sets for all three questions, on one descriptor that has this to read.
fn selected(arena: &mut Arena, content: &[u8], seconds: u64) -> [u64; 6] {
    let pipe = pipe_with(content);
    let descriptor = pipe.0.as_raw_fd();
    arena.keep(pipe);
    let n_descriptors = descriptor as u64 + 1;
    let set = || {
        let mut set = vec![0; n_descriptors.div_ceil(64) as usize];
        set[descriptor as usize / 64] = 1 << (descriptor % 64);
        set
    };
    let sets = [(); 3].map(|()| arena.put_words(&set()));
    [n_descriptors, sets[0], sets[1], sets[2], arena.put_words(&[seconds, 1]), 0]
}

/// Watches two event counters that stand at this.
fn watched(arena: &mut Arena, count: u64) -> u64 {
    let epoll = fd(arena, open_call(libc::SYS_epoll_create1, &[0]));
    for _ in 0..2 {
        let event = fd(arena, open_call(libc::SYS_eventfd2, &[count, 0]));
        let mut interest = libc::epoll_event { events: READABLE as u32, u64: 0x1234_5678_9abc_def0 };
        call(libc::SYS_epoll_ctl, &[epoll, 1, event, &raw mut interest as u64]);
    }
    epoll
}

/// Sends the calling thread a signal that it has blocked, and returns a set with that signal.
fn pending_signal(arena: &mut Arena) -> u64 {
    let signal = (libc::SIGRTMIN() + 5) as u64;
    let set = arena.put_words(&[1 << (signal - 1)]);
    call(libc::SYS_rt_sigprocmask, &[libc::SIG_BLOCK as u64, set, 0, 8]);
    call(libc::SYS_tgkill, &[std::process::id().into(), call(libc::SYS_gettid, &[]), signal]);
    set
}

/// A context for asynchronous requests, where the kernel has them.
fn asynchronous(arena: &mut Arena) -> Option<u64> {
    let context = arena.put_words(&[0]);
    // SAFETY: the kernel writes one word, in the arena.
    let result = unsafe { libc::syscall(libc::SYS_io_setup, 4, context) };
    let mut word = [0; 8];
    assert!(guest::effects::Memory::read(arena, context, &mut word));
    (result == 0).then(|| u64::from_le_bytes(word))
}

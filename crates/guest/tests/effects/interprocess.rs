//! Semaphores, queues and shared memory.

use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;

use super::arena::Expect::{Fails, Writes, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{call, fd, open_call};

const IPC_STAT: u64 = libc::IPC_STAT as u64;
const IPC_INFO: u64 = libc::IPC_INFO as u64;
const SHM_INFO: u64 = 14;
const NEW: u64 = 0o1600;

pub const CASES: &[Case] = &[
    case("shmctl", "state", Writes, |arena| [shared_memory(arena), IPC_STAT, arena.room(112), 0, 0, 0]),
    case("shmctl", "limits", Writes, |arena| [0, IPC_INFO, arena.room(72), 0, 0, 0]),
    case("shmctl", "totals", Writes, |arena| [0, SHM_INFO, arena.room(48), 0, 0, 0]),
    case("semctl", "state", Writes, |arena| [semaphores(arena), 0, IPC_STAT, arena.room(104), 0, 0]),
    case("semctl", "limits", Writes, |arena| [0, 0, IPC_INFO, arena.room(40), 0, 0]),
    case("semctl", "a value", WritesNothing, |arena| [semaphores(arena), 1, 12, arena.room(40), 0, 0]),
    case("semop", "", WritesNothing, |arena| {
        let add_one = arena.put(&[0, 0, 1, 0, 0, 0]);
        [semaphores(arena), add_one, 1, 0, 0, 0]
    }),
    case("msgctl", "state", Writes, |arena| [queue(arena), IPC_STAT, arena.room(120), 0, 0, 0]),
    case("msgctl", "limits", Writes, |arena| [0, IPC_INFO, arena.room(32), 0, 0, 0]),
    case("msgsnd", "", WritesNothing, |arena| [queue(arena), arena.put_words(&[1, 2]), 8, 0, 0, 0]),
    case("msgrcv", "less than asked for", Writes, |arena| {
        let queue = queue(arena);
        call(libc::SYS_msgsnd, &[queue, arena.put_words(&[1, 2]), 5, 0]);
        [queue, arena.room(8 + 100), 100, 0, 0, 0]
    }),
    case("msgrcv", "from an empty queue", Fails(libc::ENOMSG), |arena| {
        [queue(arena), arena.room(108), 100, 0, libc::IPC_NOWAIT as u64, 0]
    }),
    case("mq_timedsend", "", WritesNothing, |arena| [posix_queue(arena, 0), arena.put(b"message"), 7, 3, 0, 0]),
    case("mq_timedreceive", "with the priority", Writes, |arena| {
        [posix_queue(arena, 1), arena.room(64), 64, arena.room(4), 0, 0]
    }),
    case("mq_timedreceive", "from an empty queue", Fails(libc::EAGAIN), |arena| {
        [posix_queue(arena, 0), arena.room(64), 64, arena.room(4), 0, 0]
    }),
    case("mq_getsetattr", "the old attributes", Writes, |arena| [posix_queue(arena, 0), 0, arena.room(64), 0, 0, 0]),
];

/// Something that stays until it is removed, with the call that removes it.
struct Removed(i64, Vec<u64>);

impl Drop for Removed {
    fn drop(&mut self) {
        call(self.0, &self.1);
    }
}

fn shared_memory(arena: &mut Arena) -> u64 {
    let memory = call(libc::SYS_shmget, &[0, 4096, NEW]);
    arena.keep(Removed(libc::SYS_shmctl, vec![memory, 0]));
    memory
}

fn semaphores(arena: &mut Arena) -> u64 {
    let semaphores = call(libc::SYS_semget, &[0, 3, NEW]);
    arena.keep(Removed(libc::SYS_semctl, vec![semaphores, 0, 0]));
    semaphores
}

fn queue(arena: &mut Arena) -> u64 {
    let queue = call(libc::SYS_msgget, &[0, NEW]);
    arena.keep(Removed(libc::SYS_msgctl, vec![queue, 0]));
    queue
}

/// A queue without a name any more, with so many messages in it.
fn posix_queue(arena: &mut Arena, n_messages: usize) -> u64 {
    let name = format!("whodunit-effects-{:?}\0", std::thread::current().id()).replace(['(', ')'], "-");
    let name = name.as_ptr() as u64;
    let attributes = [0_u64, 4, 64, 0, 0, 0, 0, 0];
    let flags = (libc::O_CREAT | libc::O_RDWR | libc::O_NONBLOCK) as u64;
    let queue: OwnedFd = open_call(libc::SYS_mq_open, &[name, flags, 0o600, attributes.as_ptr() as u64]);
    call(libc::SYS_mq_unlink, &[name]);
    for _ in 0..n_messages {
        call(libc::SYS_mq_timedsend, &[queue.as_raw_fd() as u64, b"message".as_ptr() as u64, 7, 3, 0]);
    }
    fd(arena, queue)
}

//! Processes, identities and scheduling.

use super::arena::Expect::{Fails, FailsWriting, Writes, WritesIfAble, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::Child;

const CAPABILITIES_1: u32 = 0x1998_0330;
const CAPABILITIES_3: u32 = 0x2008_0522;

pub const CASES: &[Case] = &[
    case("getpid", "", WritesNothing, |_| [0; 6]),
    case("gettid", "", WritesNothing, |_| [0; 6]),
    case("getppid", "", WritesNothing, |_| [0; 6]),
    case("getuid", "", WritesNothing, |_| [0; 6]),
    case("getpgid", "", WritesNothing, |_| [0; 6]),
    case("getsid", "", WritesNothing, |_| [0; 6]),
    case("getpriority", "", WritesNothing, |_| [0; 6]),
    case("sched_yield", "", WritesNothing, |_| [0; 6]),
    case("sched_getscheduler", "", WritesNothing, |_| [0; 6]),
    case("getresuid", "", Writes, three_numbers),
    case("getresgid", "", Writes, three_numbers),
    case("getgroups", "only how many", WritesNothing, |arena| [0, arena.room(4), 0, 0, 0, 0]),
    case("getrlimit", "", Writes, |arena| [7, arena.room(16), 0, 0, 0, 0]),
    case("prlimit64", "", Writes, |arena| [0, 7, 0, arena.room(16), 0, 0]),
    case("getrusage", "", Writes, |arena| [0, arena.room(144), 0, 0, 0, 0]),
    case("capget", "", Writes, |arena| capabilities(arena, CAPABILITIES_3, 24)),
    case("capget", "of the first version", Writes, |arena| capabilities(arena, CAPABILITIES_1, 12)),
    case("capget", "of no version", FailsWriting(libc::EINVAL), |arena| capabilities(arena, 77, 24)),
    case("capget", "asking for the version", Writes, |arena| {
        let [header, ..] = capabilities(arena, 77, 0);
        [header, 0, 0, 0, 0, 0]
    }),
    case("capset", "of no version", FailsWriting(libc::EINVAL), |arena| capabilities(arena, 77, 24)),
    case("clone", "a child's number, in the parent", Writes, |arena| {
        const PARENT_SETTID: u64 = 0x10_0000;
        [PARENT_SETTID | libc::SIGCHLD as u64, 0, arena.room(4), arena.room(4), 0, 0]
    }),
    case("clone", "a descriptor for the child", Writes, |arena| {
        const PIDFD: u64 = 0x1000;
        [PIDFD | libc::SIGCHLD as u64, 0, arena.room(4), arena.room(4), 0, 0]
    }),
    case("clone3", "a descriptor and a number", WritesIfAble, |arena| {
        let (descriptor, number, unused) = (arena.room(4), arena.room(4), arena.room(4));
        let wishes = [0x10_1000, descriptor, unused, number, libc::SIGCHLD as u64, 0, 0, 0];
        [arena.put_words(&wishes), 64, 0, 0, 0, 0]
    }),
    case("wait4", "with usage", Writes, |arena| {
        let child = arena.keep(Child::ended()).pid();
        [child, arena.room(4), 0, arena.room(144), 0, 0]
    }),
    case("wait4", "for nobody", Fails(libc::ECHILD), |arena| [1, arena.room(4), 0, arena.room(144), 0, 0]),
    case("waitid", "with usage", Writes, |arena| {
        let child = arena.keep(Child::ended()).pid();
        [libc::P_PID as u64, child, arena.room(128), libc::WEXITED as u64, arena.room(144), 0]
    }),
    case("waitid", "for nobody", FailsWriting(libc::ECHILD), |arena| {
        [libc::P_PID as u64, 1, arena.room(128), libc::WEXITED as u64, arena.room(144), 0]
    }),
    case("sched_getparam", "", Writes, |arena| [0, arena.room(4), 0, 0, 0, 0]),
    case("sched_rr_get_interval", "", Writes, |arena| [0, arena.room(16), 0, 0, 0, 0]),
    case("sched_getaffinity", "in too much room", Writes, |arena| [0, 1024, arena.room(1024), 0, 0, 0]),
    case("sched_getattr", "", Writes, |arena| [0, arena.room(48), 48, 0, 0, 0]),
    case("sched_getattr", "in too much room", Writes, |arena| [0, arena.room(200), 200, 0, 0, 0]),
    case("sched_setattr", "too much", FailsWriting(libc::E2BIG), |arena| {
        [0, arena.put_words(&[&[100][..], &[7; 12]].concat()), 0, 0, 0, 0]
    }),
    case("getcpu", "", Writes, |arena| [arena.room(4), arena.room(4), 0, 0, 0, 0]),
    case("process_vm_readv", "of itself", WritesIfAble, |arena| {
        let from = arena.put(b"content");
        let (first, second) = (arena.room(3), arena.room(10));
        let local = arena.put_words(&[first, 3, second, 10]);
        [std::process::id().into(), local, 2, arena.put_words(&[from, 7]), 1, 0]
    }),
    case("process_vm_writev", "of itself", WritesIfAble, |arena| {
        let from = arena.put(b"content");
        let remote = arena.room(10);
        let local = arena.put_words(&[from, 7]);
        [std::process::id().into(), local, 1, arena.put_words(&[remote, 10]), 1, 0]
    }),
    case("ptrace", "a word", Writes, |arena| traced(arena, libc::PTRACE_PEEKUSER, 0, 8)),
    case("ptrace", "registers", Writes, |arena| traced(arena, libc::PTRACE_GETREGS, 0, 216)),
    case("ptrace", "floating-point registers", Writes, |arena| traced(arena, libc::PTRACE_GETFPREGS, 0, 512)),
    case("ptrace", "the signal", Writes, |arena| traced(arena, libc::PTRACE_GETSIGINFO, 0, 128)),
    case("ptrace", "the event", Writes, |arena| traced(arena, libc::PTRACE_GETEVENTMSG, 0, 8)),
    case("ptrace", "the mask", Writes, |arena| traced(arena, libc::PTRACE_GETSIGMASK, 8, 8)),
    case("ptrace", "the call", Writes, |arena| traced(arena, libc::PTRACE_GET_SYSCALL_INFO, 100, 100)),
    case("ptrace", "a set of registers, in too much room", Writes, |arena| {
        let [request, child, ..] = traced(arena, libc::PTRACE_GETREGSET, 0, 0);
        let room = arena.room(304);
        [request, child, libc::NT_PRSTATUS as u64, arena.put_words(&[room, 304]), 0, 0]
    }),
];

fn three_numbers(arena: &mut Arena) -> [u64; 6] {
    [arena.room(4), arena.room(4), arena.room(4), 0, 0, 0]
}

fn capabilities(arena: &mut Arena, version: u32, room: usize) -> [u64; 6] {
    [arena.put_words(&[version.into()]), arena.room(room), 0, 0, 0, 0]
}

fn traced(arena: &mut Arena, request: libc::c_uint, address: u64, room: usize) -> [u64; 6] {
    let child = arena.keep(Child::traced()).pid();
    [request.into(), child, address, arena.room(room), 0, 0]
}

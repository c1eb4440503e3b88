//! The machine, memory, and what the process is told about itself.

use super::arena::Expect::{FailsWritingIfAble, Writes, WritesIfAble, WritesNothing};
use super::arena::{Arena, Case, case};

const ITSELF: u64 = 0;

pub const CASES: &[Case] = &[
    case("uname", "", Writes, |arena| [arena.room(390), 0, 0, 0, 0, 0]),
    case("sysinfo", "", Writes, |arena| [arena.room(112), 0, 0, 0, 0, 0]),
    case("getrandom", "", Writes, |arena| [arena.room(20), 20, 0, 0, 0, 0]),
    case("prctl", "name", Writes, |arena| told(arena, libc::PR_GET_NAME, 16)),
    case("prctl", "signal at the parent's death", Writes, |arena| told(arena, libc::PR_GET_PDEATHSIG, 4)),
    case("prctl", "whether it reaps", Writes, |arena| told(arena, libc::PR_GET_CHILD_SUBREAPER, 4)),
    case("prctl", "use of the time stamp counter", Writes, |arena| told(arena, libc::PR_GET_TSC, 4)),
    case("prctl", "address of its number", WritesIfAble, |arena| told(arena, libc::PR_GET_TID_ADDRESS, 8)),
    case("prctl", "by result", WritesNothing, |arena| told(arena, libc::PR_GET_DUMPABLE, 8)),
    case("prctl", "auxiliary vector", Writes, |arena| {
        const GET_AUXV: u64 = 0x4155_5856;
        [GET_AUXV, arena.room(1000), 1000, 0, 0, 0]
    }),
    case("prctl", "auxiliary vector, cut off", Writes, |arena| {
        const GET_AUXV: u64 = 0x4155_5856;
        [GET_AUXV, arena.room(30), 30, 0, 0, 0]
    }),
    case("arch_prctl", "base of FS", Writes, |arena| [0x1003, arena.room(8), 0, 0, 0, 0]),
    case("arch_prctl", "states of the processor", WritesIfAble, |arena| [0x1021, arena.room(8), 0, 0, 0, 0]),
    case("seccomp", "sizes", WritesIfAble, |arena| [3, 0, arena.room(6), 0, 0, 0]),
    case("membarrier", "what there is", WritesNothing, |_| [0; 6]),
    case("personality", "", WritesNothing, |_| [0xffff_ffff, 0, 0, 0, 0, 0]),
    case("mmap", "", WritesNothing, |_| [0, 4096, 3, 0x22, u64::MAX, 0]),
    case("mprotect", "", WritesNothing, |arena| [page(arena), 4096, 3, 0, 0, 0]),
    case("madvise", "", WritesNothing, |arena| [page(arena), 4096, libc::MADV_WILLNEED as u64, 0, 0, 0]),
    case("mincore", "", Writes, |arena| [page(arena), 5000, arena.room(2), 0, 0, 0]),
    case("get_mempolicy", "", WritesIfAble, |arena| [arena.room(4), arena.room(128), 1024, 0, 0, 0]),
    case("get_mempolicy", "an odd number of nodes", WritesIfAble, |arena| {
        [arena.room(4), arena.room(16), 100, 0, 0, 0]
    }),
    case("move_pages", "only asking", WritesIfAble, |arena| {
        let page = page(arena);
        let pages = arena.put_words(&[page, page + 4096]);
        [ITSELF, 2, pages, 0, arena.room(8), 0]
    }),
    case("lsm_list_modules", "", WritesIfAble, |arena| [arena.room(80), arena.put_int(80), 0, 0, 0, 0]),
    case("lsm_list_modules", "in too little room", FailsWritingIfAble(libc::E2BIG), |arena| {
        [arena.room(1), arena.put_int(1), 0, 0, 0, 0]
    }),
    case("keyctl", "abilities", WritesIfAble, |arena| [31, arena.room(30), 30, 0, 0, 0]),
    case("modify_ldt", "reading the default", WritesIfAble, |arena| [2, arena.room(30), 30, 0, 0, 0]),
    case("perf_event_open", "too much", FailsWritingIfAble(libc::E2BIG), |arena| {
        [arena.put(&[&[0; 4], &4000_u32.to_le_bytes()[..], &[7; 3992]].concat()), 0, u64::MAX, u64::MAX, 0, 0]
    }),
];

fn told(arena: &mut Arena, question: i32, room: usize) -> [u64; 6] {
    [question as u64, arena.room(room), 0, 0, 0, 0]
}

/// The start of a page of the arena, inside of a room of three.
fn page(arena: &mut Arena) -> u64 {
    arena.room(3 * 4096).next_multiple_of(4096)
}

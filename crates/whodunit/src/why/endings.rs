//! How a run failed, and for a run that gave up by itself, which check made it do so.

use super::chain::{Fault, number};
use super::sites::Sites;
use session::rerun::{Ending, Origins, Outcome};

/// Faults of the program's own.
pub const CRASHES: [i32; 4] = [4, 7, 8, 11];
pub const ABORT: i32 = 6;

/// Functions of the C library that look after the heap, and give up where it is not as they left it.
const ALLOCATORS: [&str; 5] = ["malloc", "free", "alloc", "unlink_chunk", "tcache"];
/// Functions that give up, by how their names begin: they decide nothing.
const GIVES_UP: [&str; 16] = [
    "abort",
    "raise",
    "gsignal",
    "pthread_kill",
    "__pthread_kill",
    "__assert",
    "__stack_chk_fail",
    "__fortify_fail",
    "__chk_fail",
    "__libc_message",
    "__libc_fatal",
    "malloc_printerr",
    "std::terminate",
    "__cxxabiv1::",
    "__gnu_cxx::",
    "__cxa_",
];
/// The same of Rust.
const PANICS: [&str; 7] = [
    "core::panicking",
    "std::panicking",
    "std::process::abort",
    "rust_begin_unwind",
    "rust_panic",
    "__rust",
    "std::sys",
];

pub fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome.ending, Ending::Killed { signal, .. } if CRASHES.contains(&signal) || signal == ABORT)
}

pub fn fault_of(outcome: &Outcome, sites: &Sites) -> Fault {
    let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let pc = thread.and_then(|thread| thread.stack.first()).map(|frame| frame.pc.as_str());
    let failing = outcome.origins.as_ref().and_then(|origins| origins.failure.as_ref());
    match (&outcome.ending, failing) {
        (Ending::Killed { signal: ABORT, .. }, _) => {
            Fault::Abort { branch: outcome.origins.as_ref().and_then(|origins| deciding_branch(origins, sites)) }
        }
        (_, Some(failing)) if pc.is_some_and(|pc| pc != failing.pc) => Fault::Jump,
        (Ending::Killed { address: Some(_), .. }, _) => Fault::Access,
        _ => Fault::Operands,
    }
}

/// The last branch of the innermost function that had something to decide.
fn deciding_branch(origins: &Origins, sites: &Sites) -> Option<u32> {
    origins.branches.iter().copied().find(|branch| {
        let definition = origins.definitions.iter().find(|definition| definition.number == *branch);
        definition.is_some_and(|definition| decides(number(&definition.pc), sites))
    })
}

fn decides(pc: u64, sites: &Sites) -> bool {
    let frames = sites.frames(pc);
    let name = frames.last().and_then(|frame| frame.function.as_deref()).unwrap_or("");
    let gives_up = GIVES_UP.iter().chain(&PANICS).any(|start| name.starts_with(start));
    if sites.is_in_c_library(pc) {
        return !gives_up && ALLOCATORS.iter().any(|part| name.contains(part));
    }
    !gives_up
}

/// Whether the run failed in giving memory back.
pub fn is_in_release(outcome: &Outcome) -> bool {
    let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let mut names = thread.iter().flat_map(|thread| &thread.stack).filter_map(|frame| frame.function.as_deref());
    names.any(|name| matches!(name, "free" | "__libc_free" | "cfree" | "realloc" | "__GI___libc_free" | "__libc_realloc"))
}

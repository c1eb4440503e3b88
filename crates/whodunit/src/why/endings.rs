//! How a run failed, and for a run that gave up by itself, which check made it do so.

use super::chain::{Fault, number};
use super::sites::{Sites, is_library};
use session::rerun::{Definition, Ending, Outcome};
use std::collections::BTreeMap;

/// Faults of the program's own.
pub const CRASHES: [i32; 4] = [4, 7, 8, 11];
pub const ABORT: i32 = 6;
const BAD_ACCESS: i32 = 11;

/// Functions of the C library that look after the heap, and give up where it is not as they left it.
const ALLOCATORS: [&str; 5] = ["malloc", "free", "alloc", "unlink_chunk", "tcache"];
/// How the names of functions end that check the room which they are given.
const FORTIFIED: &str = "_chk";
/// Where these give up.
const FORTIFIED_FAILURE: &str = "__chk_fail";
/// Functions that give up, by how their names begin: they decide nothing.
const GIVES_UP: [&str; 17] = [
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
    "__malloc_assert",
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
        (Ending::Killed { signal: ABORT, .. }, _) => Fault::Abort { branch: deciding_branch(outcome, sites) },
        (_, Some(failing)) if pc.is_some_and(|pc| pc != failing.pc) => Fault::Jump,
        (Ending::Killed { address: Some(_), .. }, _) => Fault::Access,
        // The processor does not tell every address.
        (Ending::Killed { signal: BAD_ACCESS, .. }, Some(Definition { memory: Some(_), .. })) => Fault::Access,
        _ => Fault::Operands,
    }
}

/// The last branch of the innermost function that had something to decide.
fn deciding_branch(outcome: &Outcome, sites: &Sites) -> Option<u32> {
    branches(outcome).into_iter().find(|(_, pc)| decides(*pc, sites)).map(|(branch, _)| branch)
}

/// The last branches of functions that may have decided to give up. Where the C library did so about the heap, these are
/// all of its own: what they are called is often not known.
pub fn deciding_branches(outcome: &Outcome, sites: &Sites) -> Vec<u32> {
    if !is_about_heap(outcome) {
        return deciding_branch(outcome, sites).into_iter().collect();
    }
    let own = branches(outcome).into_iter().take_while(|(_, pc)| sites.is_in_c_library(*pc));
    own.filter(|(_, pc)| !gives_up(*pc, sites)).map(|(branch, _)| branch).collect()
}

/// The last branch of each function, the innermost first, and where it is.
fn branches(outcome: &Outcome) -> Vec<(u32, u64)> {
    let Some(origins) = &outcome.origins else { return Vec::new() };
    let by_number: BTreeMap<u32, &Definition> =
        origins.definitions.iter().map(|definition| (definition.number, definition)).collect();
    let known = origins.branches.iter().filter_map(|branch| Some((*branch, number(&by_number.get(branch)?.pc))));
    known.collect()
}

fn decides(pc: u64, sites: &Sites) -> bool {
    let frames = sites.frames(pc);
    let name = frames.last().and_then(|frame| frame.function.as_deref()).unwrap_or("");
    let is_check = name.ends_with(FORTIFIED) || ALLOCATORS.iter().any(|part| name.contains(part));
    !gives_up(pc, sites) && !sites.is_in_cpp_runtime(pc) && (is_check || !sites.is_in_c_library(pc))
}

/// Whether a function only carries out what others have decided.
fn gives_up(pc: u64, sites: &Sites) -> bool {
    let frames = sites.frames(pc);
    let name = frames.last().and_then(|frame| frame.function.as_deref()).unwrap_or("");
    let plain = name.trim_start_matches("__GI_");
    GIVES_UP.iter().chain(&PANICS).any(|start| name.starts_with(start) || plain.starts_with(start))
}

/// Whether the C library has found that a function has too little room for what it would write.
pub fn is_fortified(outcome: &Outcome) -> bool {
    let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let stack = thread.map_or(&[][..], |thread| &thread.stack);
    stack.iter().filter_map(|frame| frame.function.as_deref()).any(|name| name.ends_with(FORTIFIED_FAILURE))
}

/// Whether the C library gave up in a function that the program called for memory.
pub fn is_about_heap(outcome: &Outcome) -> bool {
    let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let stack = thread.map_or(&[][..], |thread| &thread.stack);
    let called = stack.iter().take_while(|frame| is_library(&frame.module)).last();
    let name = called.and_then(|called| called.function.as_deref()).unwrap_or("");
    ALLOCATORS.iter().any(|part| name.contains(part))
}

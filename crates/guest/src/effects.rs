//! Which guest memory each system call writes, and which bytes a sending call sends.
//!
//! A recorder saves the reported bytes after a call; a replayer puts them back instead of making the call. A reported
//! span is one that the call *may* have written: it holds every byte that the kernel changed, and may hold bytes that
//! it left alone (a whole `struct pollfd` where only `revents` is written). Saving such a byte costs space, never truth.
//! A span may reach into memory that cannot be read, when the guest promised more room than it has; the kernel wrote
//! none of that part either.
//!
//! A call is looked at twice: [`prepare`] notes the lengths that the call is about to overwrite, and [`of`] reports
//! when it has finished. Both are one look into a table for nearly every call, and neither allocates, save for
//! `recvmmsg`. Failed calls are answered too: most write nothing, some write regardless (`poll`, `waitid`, the timeout
//! of `select`), and one that failed with EFAULT may have come part of the way, so its whole room is reported.
//!
//! Outside of what is reported:
//! - what happens to mappings: pages that come, go or are zeroed by `mmap`, `brk`, `madvise` and their like;
//! - what the kernel writes on its own later: the `rseq` area, the word of `set_tid_address` when a thread ends, robust
//!   lists, rings that are mapped (perf, packet sockets);
//! - the memory of other processes, except that `process_vm_writev` is reported as if it were aimed at the caller;
//! - calls whose data overwrite the vectors or headers that told where the data go.

mod commands;
mod events;
mod files;
mod interprocess;
mod ioctl;
mod memory;
mod network;
mod prepared;
mod processes;
mod rules;
mod sent;
mod signals;
mod survey;
mod system;
mod table;
mod time;

pub use prepared::Prepared;
pub use sent::sent;

use rules::Rule;
use survey::{Gap, Survey};

/// The guest's memory, as far as it can be read.
pub trait Memory {
    /// Fills `buffer` from `address` on. False if not all of it can be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// A finished system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub number: u64,
    pub arguments: [u64; 6],
    /// As the kernel returns it: from -4095 to -1 an error.
    pub result: i64,
}

/// A piece of guest memory; never empty, and never past the end of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub address: u64,
    pub length: u64,
}

/// Nobody knows what the call wrote: whoever needs to know must find out in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// To be called before the call is made: notes what the call overwrites and [`of`] needs.
pub fn prepare(number: u64, arguments: &[u64; 6], memory: &dyn Memory) -> Prepared {
    match table::lookup(number) {
        Some(row) => Prepared::new(row.before, arguments, memory),
        None => Prepared::Nothing,
    }
}

/// Whether nobody could tell what the call wrote if it succeeded, though it writes no later than that: comparing memory would
/// tell.
pub fn is_unknown(number: u64, arguments: &[u64; 6], prepared: &Prepared, memory: &dyn Memory) -> bool {
    match table::lookup(number).map(|row| row.rule) {
        // Mostly rings, which the kernel fills at any time.
        Some(Rule::Outputs(_) | Rule::Unknown) => false,
        Some(Rule::Function(_)) | None => {
            of(&Call { number, arguments: *arguments, result: 0 }, prepared, memory, &mut |_| ()).is_err()
        }
    }
}

/// Hands each span that the finished `call` may have written to `each`. Spans may touch or overlap. After an error,
/// those handed over are not all.
pub fn of(call: &Call, prepared: &Prepared, memory: &dyn Memory, each: &mut dyn FnMut(Span)) -> Result<(), Unknown> {
    let mut survey = Survey::new(call, prepared, memory, each);
    let answer = match table::lookup(call.number).map(|row| row.rule) {
        Some(Rule::Outputs(outputs)) => rules::report(outputs, &mut survey),
        Some(Rule::Function(function)) => function(&mut survey),
        Some(Rule::Unknown) | None => Err(Gap::NotKnown),
    };
    answer.or_else(|gap| if survey.is_harmless(gap) { Ok(()) } else { Err(Unknown) })
}

#[cfg(test)]
mod tests;

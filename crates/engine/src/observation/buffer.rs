//! The buffer that a thread's translated code writes records into.
#![allow(unsafe_code)]

use crate::context::Context;

/// How much a thread writes before it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Small enough to stay in the processor's caches until it has been read.
    Ample,
    /// Where much is told only until it has been told often enough, which is looked at when the buffer is full.
    Scant,
}

impl Room {
    const fn bytes(self) -> u64 {
        match self {
            Room::Ample => 256 << 10,
            Room::Scant => 32 << 10,
        }
    }
}

/// Behind the buffer: more than any record, never accessible.
const GUARD: u64 = 64 << 10;

/// Gives the thread a buffer.
pub fn open_buffer(context: &mut Context, room: Room) {
    let room = room.bytes();
    // SAFETY: fresh mappings of our own; the last part is made inaccessible, so that running over the end faults.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let start = libc::mmap(std::ptr::null_mut(), (room + GUARD) as usize, protection, flags, -1, 0);
        assert!(start != libc::MAP_FAILED, "no memory is left for a trace buffer");
        libc::mprotect(start.add(room as usize), GUARD as usize, libc::PROT_NONE);
        context.trace_start = start as u64;
    }
    context.trace_end = context.trace_start + room;
    context.trace_next = context.trace_start;
}

pub fn close_buffer(context: &mut Context) {
    if context.trace_start != 0 {
        let length = context.trace_end - context.trace_start + GUARD;
        // SAFETY: mapped by `open_buffer`; the thread runs no guest code any more.
        unsafe { libc::munmap(context.trace_start as *mut libc::c_void, length as usize) };
        context.trace_start = 0;
        context.trace_next = 0;
    }
}

/// Whether the address is where a record runs over the end of the thread's buffer.
pub fn is_overrun(context: &Context, address: u64) -> bool {
    let end = context.trace_end;
    context.trace_start != 0 && (end..end + GUARD).contains(&address)
}

/// The complete records in the thread's buffer.
pub fn take_words(context: &mut Context) -> &'static [u64] {
    let length = (context.trace_next - context.trace_start) / 8;
    context.trace_next = context.trace_start;
    // SAFETY: the words were written by this thread's translated code, which does not run until they have been read.
    unsafe { std::slice::from_raw_parts(context.trace_start as *const u64, length as usize) }
}

/// Moves what an unfinished record that begins at `pointer` has in the buffer to the buffer's start.
pub fn move_to_start(context: &Context, pointer: u64) {
    let length = context.trace_end.saturating_sub(pointer);
    // SAFETY: both ranges lie in the thread's buffer; they may overlap.
    unsafe { std::ptr::copy(pointer as *const u8, context.trace_start as *mut u8, length as usize) };
}

/// Ends a record whose unit did not come to its end; there must be room for its first word.
pub fn end_record(context: &mut Context, number: u32, words: u16) {
    // SAFETY: the record's first word is where the unit would have written it itself.
    unsafe { (context.trace_next as *mut u64).write(u64::from(number)) };
    context.trace_next += 8 * u64::from(words);
}

/// Whether one more word fits.
pub fn has_room(context: &Context) -> bool {
    context.trace_next + 8 <= context.trace_end
}

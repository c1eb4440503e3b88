//! Maps the segments of the program and of its dynamic loader.

use crate::journal::Mapped;
use crate::kernel;
use crate::launch::LaunchError;
use crate::launch::files::{Files, Opened};
use crate::space::{GuestSpace, PAGE, Protection};
use guest::elf::{Placement, Segment};
use std::os::fd::AsRawFd;

/// Where things ended up.
pub struct Loaded {
    /// Where execution starts: in the dynamic loader if there is one.
    pub start: u64,
    /// The program's own entry.
    pub entry: u64,
    pub program_headers: u64,
    /// The dynamic loader's load address, or zero.
    pub loader_base: u64,
    /// What was mapped, and what was zeroed afterwards: address and length.
    pub mapped: Vec<Mapped>,
    pub zeroed: Vec<(u64, u64)>,
}

/// Maps everything.
pub fn load(space: &mut GuestSpace, files: &Files) -> Result<Loaded, LaunchError> {
    let program = &files.program;
    let bias = match program.image.placement {
        Placement::Fixed => 0,
        Placement::Relocatable => place(space, program, space.zones.program)?,
    };
    let mut made = Made::default();
    map(space, program, bias, &mut made)?;
    let entry = program.image.entry.wrapping_add(bias);
    let program_headers = program.image.program_headers.vaddr.map_or(0, |vaddr| vaddr.wrapping_add(bias));
    let Some(loader) = &files.interpreter else {
        let Made { mapped, zeroed } = made;
        return Ok(Loaded { start: entry, entry, program_headers, loader_base: 0, mapped, zeroed });
    };
    let (low, high) = loader.image.span();
    let start = space.find_high(space.zones.near, high - low, PAGE).ok_or_else(no_room)?;
    let loader_base = match loader.image.placement {
        Placement::Fixed => 0,
        Placement::Relocatable => start.wrapping_sub(low),
    };
    map(space, loader, loader_base, &mut made)?;
    let start = loader.image.entry.wrapping_add(loader_base);
    let Made { mapped, zeroed } = made;
    Ok(Loaded { start, entry, program_headers, loader_base, mapped, zeroed })
}

/// What has been done so far.
#[derive(Default)]
struct Made {
    mapped: Vec<Mapped>,
    zeroed: Vec<(u64, u64)>,
}

impl Made {
    fn add(&mut self, address: u64, length: u64, protection: u32, file: Option<(i32, u64)>) {
        let anonymous = if file.is_none() { libc::MAP_ANONYMOUS } else { 0 };
        let flags = (libc::MAP_PRIVATE | anonymous) as u32;
        self.mapped.push(Mapped { thread: 1, address, length, protection, flags, file });
    }
}

fn no_room() -> LaunchError {
    LaunchError::memory(std::io::Error::from_raw_os_error(libc::ENOMEM))
}

/// The load bias of a relocatable program: its usual place, or somewhere else if it is too large for that.
fn place(space: &GuestSpace, program: &Opened, usual: u64) -> Result<u64, LaunchError> {
    let (low, high) = program.image.span();
    let align = program.image.segments.iter().map(|segment| segment.align).max().unwrap_or(PAGE).max(PAGE);
    let start = usual.next_multiple_of(align);
    let length = high - low;
    if space.is_free(&(start..start + length)) && start + length < space.zones.heap.0 {
        return Ok(start.wrapping_sub(low));
    }
    space.find_place(length, align).map(|start| start.wrapping_sub(low)).ok_or_else(no_room)
}

fn map(space: &mut GuestSpace, opened: &Opened, bias: u64, made: &mut Made) -> Result<(), LaunchError> {
    for segment in &opened.image.segments {
        map_segment(space, opened, segment, bias, made)?;
    }
    Ok(())
}

fn protection(segment: &Segment) -> u32 {
    let bit = |set: bool, bit: i32| if set { bit as u32 } else { 0 };
    bit(segment.readable, libc::PROT_READ)
        | bit(segment.writable, libc::PROT_WRITE)
        | bit(segment.executable, libc::PROT_EXEC)
}

fn map_segment(
    space: &mut GuestSpace,
    opened: &Opened,
    segment: &Segment,
    bias: u64,
    made: &mut Made,
) -> Result<(), LaunchError> {
    let address = segment.vaddr.wrapping_add(bias);
    let in_page = address % PAGE;
    let start = address - in_page;
    let end = (address + segment.memory_size).next_multiple_of(PAGE);
    let protection = protection(segment);
    if space.is_reserved(&(start..end)) {
        return Err(no_room());
    }
    let file_end = if segment.file_size == 0 {
        start
    } else {
        let length = segment.file_size + in_page;
        let file = (opened.file.as_raw_fd(), segment.file_offset - in_page);
        map_fixed(start, length, protection, Some(file))?;
        made.add(start, length.next_multiple_of(PAGE), protection, Some(file));
        (start + length).next_multiple_of(PAGE)
    };
    if end > file_end {
        map_fixed(file_end, end - file_end, protection, None)?;
        made.add(file_end, end - file_end, protection, None);
    }
    space.insert(start..end, Protection(protection), None);
    if zero_tail(segment, address, file_end) {
        let from = address + segment.file_size;
        made.zeroed.push((from, file_end - from));
    }
    Ok(())
}

/// The rest of the file's last page belongs to the zero-initialised data; tells whether there is any.
fn zero_tail(segment: &Segment, address: u64, file_end: u64) -> bool {
    let from = address + segment.file_size;
    let has_tail =
        segment.writable && segment.memory_size > segment.file_size && segment.file_size > 0 && from < file_end;
    if has_tail {
        // A page that cannot be written faults in the guest later, as it would natively.
        let _ = kernel::write_bytes(from, &vec![0u8; (file_end - from) as usize]);
    }
    has_tail
}

fn map_fixed(start: u64, length: u64, protection: u32, file: Option<(i32, u64)>) -> Result<(), LaunchError> {
    let (descriptor, offset) = file.unwrap_or((-1, 0));
    let mut flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    if file.is_none() {
        flags |= libc::MAP_ANONYMOUS;
    }
    let arguments = [start, length, u64::from(protection), flags as u64, descriptor as i64 as u64, offset];
    let result = kernel::call(libc::SYS_mmap as u64, arguments);
    if result as u64 == start {
        return Ok(());
    }
    Err(LaunchError::memory(std::io::Error::from_raw_os_error(-result as i32)))
}

//! Files that would show the engine instead of the guest, and descriptors that are the engine's own.

use super::{error, filter, store, waiting};
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel::{self, Arguments};
use std::io::Write;

const LONGEST_PATH: usize = 4096;

/// The part of a path behind the guest's own directory in `/proc`, if it leads there.
fn own_proc(path: &[u8]) -> Option<&[u8]> {
    let rest = path.strip_prefix(b"/proc/")?;
    let pid = std::process::id().to_string();
    for own in [b"self/".as_slice(), b"thread-self/", format!("{pid}/").as_bytes()] {
        if let Some(rest) = rest.strip_prefix(own) {
            return Some(rest);
        }
    }
    None
}

/// Whether the path is the guest's name for its own program.
pub fn is_own_executable(path: &[u8]) -> bool {
    own_proc(path) == Some(b"exe")
}

/// The descriptor that a path names, if it is one of the names of a descriptor.
pub fn descriptor_named(path: &[u8]) -> Option<i32> {
    let number = match path {
        b"/dev/stdout" => b"1",
        b"/dev/stderr" => b"2",
        _ => path.strip_prefix(b"/dev/fd/").or_else(|| own_proc(path)?.strip_prefix(b"fd/"))?,
    };
    std::str::from_utf8(number).ok()?.parse().ok()
}

pub fn open(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    let (path_at, flags) = match number as i64 {
        libc::SYS_open => (arguments[0], arguments[1]),
        libc::SYS_openat => (arguments[1], arguments[2]),
        _ => (arguments[1], kernel::read::<u64>(arguments[2]).unwrap_or(0)),
    };
    let Ok(path) = kernel::read_string(path_at, LONGEST_PATH) else { return error(libc::EFAULT) };
    match own_proc(&path) {
        Some(b"maps") => return show(&maps(engine), flags),
        Some(b"cmdline") => return show(&engine.world().process.command_line.clone(), flags),
        Some(b"exe") => return open_executable(engine, flags),
        _ => {}
    }
    let directory = if number as i64 == libc::SYS_open { libc::AT_FDCWD as i64 as u64 } else { arguments[0] };
    let result = if engine.turn.is_alone() || may_wait(directory, path_at) {
        waiting::anything(engine, context, number, arguments)
    } else {
        kernel::call(number, arguments)
    };
    if result >= 0 && is_descriptor_directory(&path) {
        engine.world().process.directories.insert(result as i32);
    }
    result
}

/// Whether opening a file may wait for somebody: the other end of a FIFO, a device.
fn may_wait(directory: u64, path_at: u64) -> bool {
    let mut status = [0u64; 18];
    let arguments = [directory, path_at, status.as_mut_ptr() as u64, 0, 0, 0];
    let found = kernel::call(libc::SYS_newfstatat as u64, arguments) == 0;
    found && matches!(status[3] as u32 & libc::S_IFMT, libc::S_IFIFO | libc::S_IFCHR)
}

fn is_descriptor_directory(path: &[u8]) -> bool {
    path == b"/dev/fd" || own_proc(path).is_some_and(|rest| matches!(rest, b"fd" | b"fd/" | b"fdinfo"))
}

fn open_executable(engine: &Engine, flags: u64) -> i64 {
    let mut path = engine.world().process.executable.clone();
    path.push(0);
    kernel::call(libc::SYS_openat as u64, [libc::AT_FDCWD as i64 as u64, path.as_ptr() as u64, flags, 0, 0, 0])
}

/// A file in memory with this content, open for reading.
fn show(content: &[u8], flags: u64) -> i64 {
    let close = if flags & libc::O_CLOEXEC as u64 != 0 { libc::MFD_CLOEXEC } else { 0 };
    let name = c"proc";
    let fd = kernel::call(libc::SYS_memfd_create as u64, [name.as_ptr() as u64, u64::from(close), 0, 0, 0, 0]);
    if fd < 0 {
        return fd;
    }
    let arguments = [fd as u64, content.as_ptr() as u64, content.len() as u64, 0, 0, 0];
    kernel::call(libc::SYS_pwrite64 as u64, arguments);
    fd
}

/// The guest's mappings in the kernel's own words, without the engine's.
fn maps(engine: &Engine) -> Vec<u8> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let world = engine.world();
    let mut shown = Vec::new();
    for line in text.lines() {
        let Some(start) = line.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()) else {
            continue;
        };
        let Some((_, mapping)) = world.space.find(start) else { continue };
        let _ = match () {
            () if world.process.stack.contains(&start) => writeln!(shown, "{}[stack]", pad(line)),
            () if (world.space.zones.heap.0..world.space.heap_end).contains(&start) => {
                writeln!(shown, "{}[heap]", pad(line))
            }
            () if mapping.protection.writable() => writeln!(shown, "{}", line.replacen("r-x", "rwx", 1)),
            () => writeln!(shown, "{line}"),
        };
    }
    shown
}

/// The kernel puts names in column 74.
fn pad(line: &str) -> String {
    format!("{:<73}", line.trim_end())
}

pub fn read_link(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    let shift = usize::from(number as i64 == libc::SYS_readlinkat);
    let (path_at, buffer, size) = (arguments[shift], arguments[shift + 1], arguments[shift + 2]);
    let Ok(path) = kernel::read_string(path_at, LONGEST_PATH) else { return error(libc::EFAULT) };
    if !is_own_executable(&path) {
        return kernel::call(number, arguments);
    }
    if size as i32 <= 0 {
        return error(libc::EINVAL);
    }
    let target = engine.world().process.executable.clone();
    let length = target.len().min(size as usize);
    match kernel::write_bytes(buffer, &target[..length]) {
        Ok(()) => length as i64,
        Err(_) => error(libc::EFAULT),
    }
}

pub fn close(engine: &Engine, arguments: Arguments) -> i64 {
    let fd = arguments[0] as i32;
    if engine.private.contains(fd) {
        return error(libc::EBADF);
    }
    engine.world().process.directories.remove(&fd);
    kernel::call(libc::SYS_close as u64, arguments)
}

/// Closes around the engine's descriptors.
pub fn close_range(engine: &Engine, arguments: Arguments) -> i64 {
    let [first, last, flags, ..] = arguments;
    let (mut first, last) = (first as u32, last as u32);
    if first > last {
        return error(libc::EINVAL);
    }
    let part = |first: u32, last: u32| {
        kernel::call(libc::SYS_close_range as u64, [u64::from(first), u64::from(last), flags, 0, 0, 0])
    };
    for private in engine.private.sorted() {
        if (first..=last).contains(&private) {
            if private > first {
                let result = part(first, private - 1);
                if result < 0 {
                    return result;
                }
            }
            if private == last {
                return 0;
            }
            first = private + 1;
        }
    }
    part(first, last)
}

pub fn duplicate(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    if engine.private.contains(arguments[0] as i32) || engine.private.contains(arguments[1] as i32) {
        return error(libc::EBADF);
    }
    kernel::call(number, arguments)
}

/// Leaves the engine's descriptors out of listings of the guest's own descriptor directory.
pub fn list_directory(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    let [directory, buffer, size, ..] = arguments;
    let watched = engine.world().process.directories.contains(&(directory as i32));
    if !watched || number as i64 != libc::SYS_getdents64 {
        return kernel::call(number, arguments);
    }
    // The guest's own buffer gets no more than what is left, as from a directory without the engine's descriptors.
    let mut entries = vec![0u8; LARGEST_LISTING.min(size as u32 as usize)];
    loop {
        let own = [directory, entries.as_mut_ptr() as u64, entries.len() as u64, 0, 0, 0];
        let result = kernel::call(number, own);
        if result <= 0 {
            return result;
        }
        let kept = without_private(engine, &entries[..result as usize]);
        if kernel::write_bytes(buffer, &kept).is_err() {
            return error(libc::EFAULT);
        }
        if !kept.is_empty() {
            return kept.len() as i64;
        }
    }
}

/// More than the C library asks for at a time.
const LARGEST_LISTING: usize = 1 << 20;

fn without_private(engine: &Engine, entries: &[u8]) -> Vec<u8> {
    const NAME: usize = 19;
    let mut kept = Vec::new();
    let mut rest = entries;
    while rest.len() > NAME {
        let length = usize::from(u16::from_le_bytes([rest[16], rest[17]])).clamp(NAME + 1, rest.len());
        let (entry, after) = rest.split_at(length);
        let name = entry[NAME..].split(|&byte| byte == 0).next().unwrap_or(&[]);
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
        if !number.is_some_and(|number| engine.private.contains(number)) {
            kept.extend_from_slice(entry);
        }
        rest = after;
    }
    kept
}

/// `prctl`, where it concerns what the engine keeps.
pub fn process_control(engine: &Engine, context: &Context, arguments: Arguments) -> i64 {
    const SET_SYSCALL_USER_DISPATCH: i32 = 59;
    match arguments[0] as i32 {
        // The kernel's own is that of the host thread.
        libc::PR_GET_TID_ADDRESS => store(arguments[1], context.clear_tid),
        // The engine reads clocks by the time-stamp counter.
        libc::PR_SET_TSC if arguments[1] as i32 != libc::PR_TSC_ENABLE => error(libc::EINVAL),
        libc::PR_SET_SECCOMP => filter::set_by_control(engine, context, arguments),
        libc::PR_GET_SECCOMP => {
            filter::mode(engine, context).unwrap_or_else(|| kernel::call(libc::SYS_prctl as u64, arguments))
        }
        SET_SYSCALL_USER_DISPATCH => error(libc::EINVAL),
        _ => kernel::call(libc::SYS_prctl as u64, arguments),
    }
}

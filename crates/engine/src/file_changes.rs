//! Which part of a file a system call has changed.
//!
//! May miss: changes by other processes, and by requests that the kernel carries out later.

use crate::kernel;
use guest::effects::Call;
use std::ops::Range;

/// Tells the descriptor and the part. A part may be empty, where only the size has changed.
pub fn by(call: &Call, tell: impl FnOnce(i32, Range<u64>)) {
    if let Some((descriptor, part)) = by_descriptor(call) {
        tell(descriptor, part);
    } else if call.number as i64 == libc::SYS_truncate && call.result == 0 {
        // The path still leads to the file: the thread that has made the call has the turn.
        let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
        let arguments = [libc::AT_FDCWD as u64, call.arguments[0], flags, 0, 0, 0];
        let descriptor = kernel::call(libc::SYS_openat as u64, arguments);
        if descriptor >= 0 {
            tell(descriptor as i32, 0..0);
            kernel::call(libc::SYS_close as u64, [descriptor as u64, 0, 0, 0, 0, 0]);
        }
    }
}

fn by_descriptor(call: &Call) -> Option<(i32, Range<u64>)> {
    let length = u64::try_from(call.result).ok()?;
    let [first, second, third, fourth, ..] = call.arguments;
    let behind = |descriptor: u64, end: u64| Some((descriptor as i32, end.checked_sub(length)?..end));
    match call.number as i64 {
        libc::SYS_write | libc::SYS_writev => behind(first, position(first, 0)?),
        libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 if fourth as i64 >= 0 => {
            Some((first as i32, fourth..fourth.checked_add(length)?))
        }
        libc::SYS_pwritev2 => behind(first, position(first, 0)?),
        libc::SYS_sendfile => behind(first, position(first, 0)?),
        libc::SYS_splice | libc::SYS_copy_file_range => behind(third, position(third, fourth)?),
        libc::SYS_ftruncate => Some((first as i32, 0..0)),
        libc::SYS_fallocate => Some((first as i32, third..third.checked_add(fourth)?)),
        libc::SYS_open if second & TRUNCATES != 0 => Some((call.result as i32, 0..0)),
        libc::SYS_openat if third & TRUNCATES != 0 => Some((call.result as i32, 0..0)),
        // The flags are the first word of what the argument points to.
        libc::SYS_openat2 if kernel::read::<u64>(third).ok()? & TRUNCATES != 0 => Some((call.result as i32, 0..0)),
        libc::SYS_creat => Some((call.result as i32, 0..0)),
        _ => None,
    }
}

const TRUNCATES: u64 = libc::O_TRUNC as u64;

/// Where a call stopped to read or write: it tells at `offset_at`, or the descriptor itself does.
pub fn position(descriptor: u64, offset_at: u64) -> Option<u64> {
    if offset_at != 0 {
        return kernel::read(offset_at).ok();
    }
    let arguments = [descriptor, 0, libc::SEEK_CUR as u64, 0, 0, 0];
    u64::try_from(kernel::call(libc::SYS_lseek as u64, arguments)).ok()
}

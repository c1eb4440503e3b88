//! Files, directories, descriptors and mounts.

use super::commands::fcntl;
use super::ioctl::ioctl;
use super::rules::{Row, Size, always, bytes, decided, fixed, items, nothing, to, writes};
use super::survey::{Answer, EOVERFLOW, Gap, Outcome, Survey, bytes_at, u32_in, u64_in};

const STAT: u32 = 144;
const STATFS: u32 = 120;
const STATX: u32 = 256;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    writes(0, "read", &[to(1, bytes(2))]),
    nothing(1, "write"),
    nothing(2, "open"),
    nothing(3, "close"),
    writes(4, "stat", &[fixed(1, STAT)]),
    writes(5, "fstat", &[fixed(1, STAT)]),
    writes(6, "lstat", &[fixed(1, STAT)]),
    nothing(8, "lseek"),
    decided(16, "ioctl", ioctl),
    writes(17, "pread64", &[to(1, bytes(2))]),
    nothing(18, "pwrite64"),
    writes(19, "readv", &[to(1, Size::Vectors { count: 2 })]),
    nothing(20, "writev"),
    nothing(21, "access"),
    writes(22, "pipe", &[fixed(0, 8)]),
    nothing(32, "dup"),
    nothing(33, "dup2"),
    // The position is stored whatever came of the copying.
    writes(40, "sendfile", &[always(2, 8)]),
    decided(72, "fcntl", fcntl),
    nothing(73, "flock"),
    nothing(74, "fsync"),
    nothing(75, "fdatasync"),
    nothing(76, "truncate"),
    nothing(77, "ftruncate"),
    writes(78, "getdents", &[to(1, bytes(2))]),
    writes(79, "getcwd", &[to(0, bytes(1))]),
    nothing(80, "chdir"),
    nothing(81, "fchdir"),
    nothing(82, "rename"),
    nothing(83, "mkdir"),
    nothing(84, "rmdir"),
    nothing(85, "creat"),
    nothing(86, "link"),
    nothing(87, "unlink"),
    nothing(88, "symlink"),
    writes(89, "readlink", &[to(1, bytes(2))]),
    nothing(90, "chmod"),
    nothing(91, "fchmod"),
    nothing(92, "chown"),
    nothing(93, "fchown"),
    nothing(94, "lchown"),
    nothing(95, "umask"),
    nothing(132, "utime"),
    nothing(133, "mknod"),
    writes(136, "ustat", &[fixed(1, 32)]),
    writes(137, "statfs", &[fixed(1, STATFS)]),
    writes(138, "fstatfs", &[fixed(1, STATFS)]),
    decided(139, "sysfs", sysfs),
    nothing(155, "pivot_root"),
    nothing(161, "chroot"),
    nothing(162, "sync"),
    nothing(165, "mount"),
    nothing(166, "umount2"),
    nothing(187, "readahead"),
    nothing(188, "setxattr"),
    nothing(189, "lsetxattr"),
    nothing(190, "fsetxattr"),
    writes(191, "getxattr", &[to(2, bytes(3))]),
    writes(192, "lgetxattr", &[to(2, bytes(3))]),
    writes(193, "fgetxattr", &[to(2, bytes(3))]),
    writes(194, "listxattr", &[to(1, bytes(2))]),
    writes(195, "llistxattr", &[to(1, bytes(2))]),
    writes(196, "flistxattr", &[to(1, bytes(2))]),
    nothing(197, "removexattr"),
    nothing(198, "lremovexattr"),
    nothing(199, "fremovexattr"),
    nothing(212, "lookup_dcookie"),
    writes(217, "getdents64", &[to(1, bytes(2))]),
    nothing(221, "fadvise64"),
    nothing(235, "utimes"),
    nothing(257, "openat"),
    nothing(258, "mkdirat"),
    nothing(259, "mknodat"),
    nothing(260, "fchownat"),
    nothing(261, "futimesat"),
    writes(262, "newfstatat", &[fixed(2, STAT)]),
    nothing(263, "unlinkat"),
    nothing(264, "renameat"),
    nothing(265, "linkat"),
    nothing(266, "symlinkat"),
    writes(267, "readlinkat", &[to(2, bytes(3))]),
    nothing(268, "fchmodat"),
    nothing(269, "faccessat"),
    writes(275, "splice", &[always(1, 8), always(3, 8)]),
    nothing(276, "tee"),
    nothing(277, "sync_file_range"),
    // Reads from the vectors or fills them, by which end of a pipe the descriptor is.
    writes(278, "vmsplice", &[to(1, Size::Vectors { count: 2 })]),
    nothing(280, "utimensat"),
    nothing(285, "fallocate"),
    nothing(292, "dup3"),
    writes(293, "pipe2", &[fixed(0, 8)]),
    writes(295, "preadv", &[to(1, Size::Vectors { count: 2 })]),
    nothing(296, "pwritev"),
    decided(303, "name_to_handle_at", name_to_handle_at),
    nothing(304, "open_by_handle_at"),
    nothing(306, "syncfs"),
    nothing(316, "renameat2"),
    nothing(319, "memfd_create"),
    writes(326, "copy_file_range", &[always(1, 8), always(3, 8)]),
    writes(327, "preadv2", &[to(1, Size::Vectors { count: 2 })]),
    nothing(328, "pwritev2"),
    writes(332, "statx", &[fixed(4, STATX)]),
    nothing(428, "open_tree"),
    nothing(429, "move_mount"),
    nothing(430, "fsopen"),
    nothing(431, "fsconfig"),
    nothing(432, "fsmount"),
    nothing(433, "fspick"),
    nothing(436, "close_range"),
    nothing(437, "openat2"),
    nothing(439, "faccessat2"),
    nothing(442, "mount_setattr"),
    writes(451, "cachestat", &[fixed(2, 40)]),
    nothing(452, "fchmodat2"),
    writes(457, "statmount", &[to(1, Size::Argument { argument: 2, each: 1 })]),
    writes(458, "listmount", &[to(1, items(2, 8))]),
    nothing(463, "setxattrat"),
    decided(464, "getxattrat", getxattrat),
    writes(465, "listxattrat", &[to(3, bytes(4))]),
    nothing(466, "removexattrat"),
    nothing(467, "open_tree_attr"),
    writes(468, "file_getattr", &[to(2, Size::Argument { argument: 3, each: 1 })]),
    nothing(469, "file_setattr"),
];

/// One of its three questions is answered in memory: the name of a file system, with no length given.
fn sysfs(survey: &mut Survey) -> Answer {
    const GET_NAME: u32 = 2;
    const LONGEST: u64 = 256;
    if survey.int(0) != GET_NAME || !survey.may_have_written() {
        return Ok(());
    }
    let name = survey.argument(2);
    let mut byte = [0];
    for length in 1..=LONGEST {
        if survey.memory.read(name.wrapping_add(length - 1), &mut byte) && byte == [0] {
            survey.report(name, length);
            return Ok(());
        }
    }
    Err(Gap::NotKnown)
}

/// A handle that does not fit is told by its length alone.
fn name_to_handle_at(survey: &mut Survey) -> Answer {
    const HEADER: u64 = 8;
    const UNIQUE_MOUNT_ID: u32 = 1;
    let (handle, mount_id) = (survey.argument(2), survey.argument(3));
    let n_handle_bytes = match survey.outcome {
        Outcome::Done(_) | Outcome::Faulted => u64::from(survey.u32_at(handle)?),
        Outcome::Failed(EOVERFLOW) => 0,
        Outcome::Failed(_) => return Ok(()),
    };
    survey.report(handle, HEADER + n_handle_bytes);
    let is_unique = survey.int(4) & UNIQUE_MOUNT_ID != 0;
    survey.report(mount_id, if is_unique { 8 } else { 4 });
    Ok(())
}

/// Where the value goes stands in a structure: a pointer and a 32-bit size.
fn getxattrat(survey: &mut Survey) -> Answer {
    if !survey.may_have_written() {
        return Ok(());
    }
    let room: [u8; 12] = bytes_at(survey.memory, survey.argument(4))?;
    let length = survey.filled(u64::from(u32_in(&room, 8)));
    survey.report(u64_in(&room, 0), length);
    Ok(())
}

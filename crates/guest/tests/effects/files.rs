//! Files and descriptors.

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::arena::Expect::{Writes, WritesIfAble, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{Folder, HERE, call, fd, file_with, open_call, path, pipe_with};

pub const CASES: &[Case] = &[
    case("read", "from a pipe, less than asked for", Writes, |arena| {
        let pipe = pipe_with(b"hello");
        let reader = arena.keep(pipe).0.as_raw_fd() as u64;
        [reader, arena.room(100), 100, 0, 0, 0]
    }),
    case("read", "at the end of a file", WritesNothing, |arena| [fd(arena, file_with(b"")), arena.room(9), 9, 0, 0, 0]),
    case("pread64", "", Writes, |arena| [fd(arena, file_with(b"content")), arena.room(9), 9, 2, 0, 0]),
    case("readv", "three vectors, the second partly", Writes, |arena| vectored(arena, 0, 0)),
    case("preadv", "", Writes, |arena| vectored(arena, 0, 0)),
    case("preadv2", "at the file's own position", Writes, |arena| vectored(arena, u64::MAX, u64::MAX)),
    case("write", "", WritesNothing, output),
    case("pwrite64", "", WritesNothing, output),
    case("writev", "", WritesNothing, |arena| vectored(arena, 0, 0)),
    case("pwritev", "", WritesNothing, |arena| vectored(arena, 0, 0)),
    case("pwritev2", "", WritesNothing, |arena| vectored(arena, 0, 0)),
    case("open", "", WritesNothing, |arena| [path(arena, "file"), 0, 0, 0, 0, 0]),
    case("openat", "", WritesNothing, |arena| [HERE, path(arena, "file"), 0, 0, 0, 0]),
    case("openat2", "", WritesNothing, |arena| [HERE, path(arena, "file"), arena.put_words(&[0, 0, 0]), 24, 0, 0]),
    case("creat", "", WritesNothing, |arena| [path(arena, "new"), 0o600, 0, 0, 0, 0]),
    case("close", "", WritesNothing, |arena| {
        let other = call(libc::SYS_dup, &[fd(arena, file_with(b""))]);
        [other, 0, 0, 0, 0, 0]
    }),
    case("lseek", "", WritesNothing, |arena| [fd(arena, file_with(b"content")), 3, 0, 0, 0, 0]),
    case("dup", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 0, 0, 0, 0, 0]),
    case("dup2", "", WritesNothing, onto_another),
    case("dup3", "", WritesNothing, onto_another),
    case("stat", "", Writes, |arena| [path(arena, "file"), arena.room(144), 0, 0, 0, 0]),
    case("lstat", "", Writes, |arena| [path(arena, "file"), arena.room(144), 0, 0, 0, 0]),
    case("fstat", "", Writes, |arena| [fd(arena, file_with(b"")), arena.room(144), 0, 0, 0, 0]),
    case("newfstatat", "", Writes, |arena| [HERE, path(arena, "file"), arena.room(144), 0, 0, 0]),
    case("statx", "", Writes, |arena| [HERE, path(arena, "file"), 0, 0xfff, arena.room(256), 0]),
    case("statfs", "", Writes, |arena| [arena.put_string("/"), arena.room(120), 0, 0, 0, 0]),
    case("fstatfs", "", Writes, |arena| [fd(arena, file_with(b"")), arena.room(120), 0, 0, 0, 0]),
    case("ustat", "", WritesIfAble, |arena| {
        let device = std::fs::metadata("/proc").unwrap().dev();
        [device, arena.room(32), 0, 0, 0, 0]
    }),
    case("sysfs", "name of a file system", WritesIfAble, |arena| [2, 0, arena.room(256), 0, 0, 0]),
    case("access", "", WritesNothing, |arena| [path(arena, "file"), 0, 0, 0, 0, 0]),
    case("faccessat", "", WritesNothing, |arena| [HERE, path(arena, "file"), 0, 0, 0, 0]),
    case("faccessat2", "", WritesNothing, |arena| [HERE, path(arena, "file"), 0, 0, 0, 0]),
    case("getdents", "", Writes, |arena| [folder(arena), arena.room(500), 500, 0, 0, 0]),
    case("getdents64", "", Writes, |arena| [folder(arena), arena.room(500), 500, 0, 0, 0]),
    case("getcwd", "", Writes, |arena| [arena.room(4096), 4096, 0, 0, 0, 0]),
    case("readlink", "", Writes, |arena| [arena.put_string("/proc/self/exe"), arena.room(4096), 4096, 0, 0, 0]),
    case("readlink", "cut off", Writes, |arena| [arena.put_string("/proc/self/exe"), arena.room(3), 3, 0, 0, 0]),
    case("readlinkat", "", Writes, |arena| [HERE, arena.put_string("/proc/self/exe"), arena.room(4096), 4096, 0, 0]),
    case("mkdir", "", WritesNothing, |arena| [path(arena, "new"), 0o700, 0, 0, 0, 0]),
    case("mkdirat", "", WritesNothing, |arena| [HERE, path(arena, "new"), 0o700, 0, 0, 0]),
    case("unlink", "", WritesNothing, |arena| [path(arena, "file"), 0, 0, 0, 0, 0]),
    case("unlinkat", "", WritesNothing, |arena| [HERE, path(arena, "file"), 0, 0, 0, 0]),
    case("symlink", "", WritesNothing, |arena| [arena.put_string("target"), path(arena, "new"), 0, 0, 0, 0]),
    case("mknod", "a FIFO", WritesNothing, |arena| [path(arena, "new"), 0o10600, 0, 0, 0, 0]),
    case("rename", "", WritesNothing, |arena| two_paths(arena, |from, to| [from, to, 0, 0, 0, 0])),
    case("renameat2", "", WritesNothing, |arena| two_paths(arena, |from, to| [HERE, from, HERE, to, 0, 0])),
    case("link", "", WritesNothing, |arena| two_paths(arena, |from, to| [from, to, 0, 0, 0, 0])),
    case("chmod", "", WritesNothing, |arena| [path(arena, "file"), 0o600, 0, 0, 0, 0]),
    case("fchmod", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 0o600, 0, 0, 0, 0]),
    case("truncate", "", WritesNothing, |arena| [path(arena, "file"), 3, 0, 0, 0, 0]),
    case("ftruncate", "", WritesNothing, |arena| [fd(arena, file_with(b"content")), 3, 0, 0, 0, 0]),
    case("fallocate", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 0, 0, 100, 0, 0]),
    case("fadvise64", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 0, 100, 0, 0, 0]),
    case("fsync", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 0, 0, 0, 0, 0]),
    case("fdatasync", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 0, 0, 0, 0, 0]),
    case("flock", "", WritesNothing, |arena| [fd(arena, file_with(b"")), 1, 0, 0, 0, 0]),
    case("utimensat", "", WritesNothing, |arena| [HERE, path(arena, "file"), arena.put_words(&[1, 2, 3, 4]), 0, 0, 0]),
    case("memfd_create", "", WritesNothing, |arena| [arena.put_string("name"), 0, 0, 0, 0, 0]),
    case("pipe", "", Writes, |arena| [arena.room(8), 0, 0, 0, 0, 0]),
    case("pipe2", "", Writes, |arena| [arena.room(8), 0, 0, 0, 0, 0]),
    case("sendfile", "with a position", Writes, |arena| {
        let (from, to) = (fd(arena, file_with(b"content")), fd(arena, file_with(b"")));
        [to, from, arena.put_words(&[2]), 100, 0, 0]
    }),
    case("copy_file_range", "with two positions", Writes, |arena| {
        let (from, to) = (fd(arena, file_with(b"content")), fd(arena, file_with(b"")));
        [from, arena.put_words(&[1]), to, arena.put_words(&[9]), 4, 0]
    }),
    case("splice", "from a file into a pipe", Writes, |arena| {
        let from = fd(arena, file_with(b"content"));
        let pipe = pipe_with(b"");
        let to = arena.keep(pipe).1.as_raw_fd() as u64;
        [from, arena.put_words(&[2]), to, 0, 4, 0]
    }),
    case("vmsplice", "out of a pipe", Writes, |arena| {
        let pipe = pipe_with(b"hello");
        let reader = arena.keep(pipe).0.as_raw_fd() as u64;
        let (first, second) = (arena.room(3), arena.room(100));
        [reader, arena.put_words(&[first, 3, second, 100]), 2, 0, 0, 0]
    }),
    case("name_to_handle_at", "", WritesIfAble, |arena| {
        let room = [&128_u32.to_le_bytes()[..], &[0; 132]].concat();
        [HERE, path(arena, "file"), arena.put(&room), arena.room(4), 0, 0]
    }),
    case("getxattr", "", WritesIfAble, |arena| extended(arena, |file, name, value| [file, name, value, 40, 0, 0])),
    case("lgetxattr", "", WritesIfAble, |arena| extended(arena, |file, name, value| [file, name, value, 40, 0, 0])),
    case("listxattr", "", WritesIfAble, |arena| extended(arena, |file, _, value| [file, value, 40, 0, 0, 0])),
    case("llistxattr", "", WritesIfAble, |arena| extended(arena, |file, _, value| [file, value, 40, 0, 0, 0])),
    case("getxattrat", "", WritesIfAble, |arena| {
        let [file, name, value, ..] = extended(arena, |file, name, value| [file, name, value, 40, 0, 0]);
        [HERE, file, 0, name, arena.put_words(&[value, 40]), 16]
    }),
    case("listxattrat", "", WritesIfAble, |arena| extended(arena, |file, _, value| [HERE, file, 0, value, 40, 0])),
    case("cachestat", "", WritesIfAble, |arena| {
        let file = fd(arena, file_with(&[1; 9000]));
        [file, arena.put_words(&[0, 9000]), arena.room(40), 0, 0, 0]
    }),
    case("listmount", "", WritesIfAble, |arena| [arena.put_words(&[24, u64::MAX, 0]), arena.room(80), 10, 0, 0, 0]),
    case("statmount", "of the root", WritesIfAble, |arena| {
        let mount = root_mount();
        [arena.put_words(&[24, mount, 0x3f]), arena.room(4096), 4096, 0, 0, 0]
    }),
    case("file_getattr", "", WritesIfAble, |arena| [HERE, path(arena, "file"), arena.room(64), 64, 0, 0]),
];

/// Three vectors of 3, 10 and 10 bytes for a file of seven.
fn vectored(arena: &mut Arena, position_low: u64, position_high: u64) -> [u64; 6] {
    let file = fd(arena, file_with(b"content"));
    let rooms = [(arena.room(3), 3), (arena.room(10), 10), (arena.room(10), 10)];
    let words: Vec<u64> = rooms.iter().flat_map(|&(room, length)| [room, length]).collect();
    [file, arena.put_words(&words), 3, position_low, position_high, 0]
}

fn output(arena: &mut Arena) -> [u64; 6] {
    [fd(arena, file_with(b"")), arena.put(b"output"), 6, 0, 0, 0]
}

fn onto_another(arena: &mut Arena) -> [u64; 6] {
    let other = fd(arena, file_with(b""));
    [fd(arena, file_with(b"")), other, 0, 0, 0, 0]
}

fn folder(arena: &mut Arena) -> u64 {
    let folder = std::fs::File::open(arena.keep(Folder::new()).path("")).unwrap();
    fd(arena, folder)
}

fn two_paths(arena: &mut Arena, arguments: fn(u64, u64) -> [u64; 6]) -> [u64; 6] {
    let folder = arena.keep(Folder::new());
    let (from, to) = (folder.path("file"), folder.path("new"));
    arguments(arena.put_string(&from), arena.put_string(&to))
}

/// The path of a file with one extended attribute, the name of that, and room for an answer. Where the file system
/// has no such attributes, the call fails accordingly.
fn extended(arena: &mut Arena, arguments: fn(u64, u64, u64) -> [u64; 6]) -> [u64; 6] {
    let file = path(arena, "file");
    let name = arena.put_string("user.name");
    // SAFETY: both strings are in the arena and end.
    unsafe { libc::setxattr(file as *const _, name as *const _, b"value".as_ptr().cast(), 5, 0) };
    arguments(file, name, arena.room(40))
}

/// The number of the root mount as `statmount` wants it; 0 if the kernel does not tell.
fn root_mount() -> u64 {
    const UNIQUE_MOUNT_ID: u64 = 0x4000;
    let mut answer = [0_u64; 32];
    let root = open_call(libc::SYS_open, &[c"/".as_ptr() as u64, libc::O_PATH as u64]);
    let empty = c"".as_ptr() as u64;
    call(
        libc::SYS_statx,
        &[root.as_raw_fd() as u64, empty, libc::AT_EMPTY_PATH as u64, UNIQUE_MOUNT_ID, answer.as_mut_ptr() as u64],
    );
    answer[18]
}

//! Calls that fail for bad addresses or bad descriptors, and may have come part of the way.

use std::os::fd::AsRawFd;

use super::arena::Expect::{Fails, FailsWriting, FailsWritingIfAble, Writes};
use super::arena::{Case, case};
use super::scene::{HERE, fd, file_with, path, pipe_with};

const NOWHERE: u64 = 8;
const NO_FILE: u64 = 0xffff_ff00;

pub const CASES: &[Case] = &[
    case("read", "no file", Fails(libc::EBADF), |arena| [NO_FILE, arena.room(10), 10, 0, 0, 0]),
    case("read", "a file into room that ends", Writes, |arena| {
        [fd(arena, file_with(&[1; 9000])), arena.room_that_ends(20, 9000), 9000, 0, 0, 0]
    }),
    case("read", "a pipe into room that ends", FailsWriting(libc::EFAULT), |arena| {
        let pipe = pipe_with(&[1; 100]);
        let reader = arena.keep(pipe).0.as_raw_fd() as u64;
        [reader, arena.room_that_ends(20, 100), 100, 0, 0, 0]
    }),
    case("readv", "a pipe into room that ends", FailsWriting(libc::EFAULT), |arena| {
        let pipe = pipe_with(&[1; 100]);
        let reader = arena.keep(pipe).0.as_raw_fd() as u64;
        let (first, second) = (arena.room(30), arena.room_that_ends(20, 100));
        [reader, arena.put_words(&[first, 30, second, 100]), 2, 0, 0, 0]
    }),
    case("stat", "into room that ends", FailsWriting(libc::EFAULT), |arena| {
        [path(arena, "file"), arena.room_that_ends(64, 144), 0, 0, 0, 0]
    }),
    case("stat", "no such file", Fails(libc::ENOENT), |arena| [path(arena, "none"), arena.room(144), 0, 0, 0, 0]),
    case("uname", "into room that ends", FailsWriting(libc::EFAULT), |arena| {
        [arena.room_that_ends(100, 390), 0, 0, 0, 0, 0]
    }),
    case("getcwd", "in too little room", Fails(libc::ERANGE), |arena| [arena.room(1), 1, 0, 0, 0, 0]),
    case("getresuid", "one of three is nowhere", FailsWriting(libc::EFAULT), |arena| {
        let end = arena.room_that_ends(0, 4);
        [arena.room(4), end, arena.room(4), 0, 0, 0]
    }),
    case("select", "a bad descriptor: the timeout alone", FailsWriting(libc::EBADF), |arena| {
        let set = arena.put_words(&[1 << 63, 0, 0, 0]);
        [64, set, 0, 0, arena.put_words(&[1000, 0]), 0]
    }),
    case("sendfile", "no file", Fails(libc::EBADF), |arena| [NO_FILE, NO_FILE, arena.put_words(&[2]), 10, 0, 0]),
    case("name_to_handle_at", "a handle that does not fit", FailsWritingIfAble(libc::EOVERFLOW), |arena| {
        [HERE, path(arena, "file"), arena.put_words(&[0]), arena.room(4), 0, 0]
    }),
    case("readlink", "no link", Fails(libc::EINVAL), |arena| [path(arena, "file"), arena.room(9), 9, 0, 0, 0]),
    case("pipe2", "bad flags", Fails(libc::EINVAL), |arena| [arena.room(8), NOWHERE, 0, 0, 0, 0]),
    case("getsockopt", "no socket", Fails(libc::ENOTSOCK), |arena| {
        [fd(arena, file_with(b"")), 1, 8, arena.room(4), arena.put_int(4), 0]
    }),
    case("recvmsg", "no header", Fails(libc::EFAULT), |arena| {
        [fd(arena, std::net::UdpSocket::bind("127.0.0.1:0").unwrap()), NOWHERE, 0, 0, 0, 0]
    }),
];

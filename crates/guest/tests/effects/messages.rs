//! Messages with headers, alone and in numbers.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use super::arena::Expect::{Fails, Writes, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{call, fd};

pub const CASES: &[Case] = &[
    case("sendmsg", "", WritesNothing, |arena| {
        let (here, there) = UnixDatagram::pair().unwrap();
        arena.keep(there);
        let data = arena.put(b"message");
        let message = Message { data: [(data, 4), (data + 4, 3)], ..Message::default() };
        [fd(arena, here), message.put(arena), 0, 0, 0, 0]
    }),
    case("recvmsg", "data in two vectors, and the sender's address", Writes, |arena| receiving(arena, 5, 16, 0, 0)),
    case("recvmsg", "an address that does not fit", Writes, |arena| receiving(arena, 5, 7, 0, 0)),
    case("recvmsg", "data that do not fit, the true length as result", Writes, |arena| {
        receiving(arena, 1, 0, 0, libc::MSG_TRUNC)
    }),
    case("recvmsg", "a time stamp in ancillary data", Writes, |arena| receiving(arena, 5, 16, 200, 0)),
    case("recvmsg", "ancillary data that do not fit", Writes, |arena| receiving(arena, 5, 16, 20, 0)),
    case("recvmsg", "descriptors in ancillary data", Writes, |arena| {
        let (here, there) = UnixDatagram::pair().unwrap();
        let control = [20, 1 | 1 << 32, there.as_raw_fd() as u64];
        let data = arena.put(b"message");
        let mut message = Message { data: [(data, 7), (0, 0)], ..Message::default() };
        message.control = (arena.put_words(&control), 24);
        call(libc::SYS_sendmsg, &[there.as_raw_fd() as u64, message.put(arena), 0]);
        arena.keep(there);
        [fd(arena, here), Message::with_room(arena, 50, 0, 100).put(arena), 0, 0, 0, 0]
    }),
    case("recvmsg", "nothing there", Fails(libc::EAGAIN), |arena| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let message = Message::with_room(arena, 50, 16, 100).put(arena);
        [fd(arena, socket), message, libc::MSG_DONTWAIT as u64, 0, 0, 0]
    }),
    case("sendmmsg", "", Writes, |arena| {
        let (here, there) = UnixDatagram::pair().unwrap();
        arena.keep(there);
        let data = arena.put(b"message");
        let message = Message { data: [(data, 4), (data + 4, 3)], ..Message::default() };
        let messages = put_all(arena, &[message, message]);
        [fd(arena, here), messages, 2, 0, 0, 0]
    }),
    case("recvmmsg", "two of three, addresses of either length, and a timeout", Writes, |arena| {
        let socket = received(arena, 2);
        let messages = [
            Message::with_room(arena, 50, 16, 100),
            Message::with_room(arena, 2, 3, 20),
            Message::with_room(arena, 50, 16, 0),
        ];
        let messages = put_all(arena, &messages);
        [socket, messages, 3, libc::MSG_DONTWAIT as u64, arena.put_words(&[100, 0]), 0]
    }),
    case("recvmmsg", "nothing there", Fails(libc::EAGAIN), |arena| {
        let socket = received(arena, 0);
        let message = Message::with_room(arena, 50, 16, 100);
        [socket, put_all(arena, &[message]), 1, libc::MSG_DONTWAIT as u64, 0, 0]
    }),
];

/// A message header: addresses with lengths.
#[derive(Clone, Copy, Default)]
struct Message {
    name: (u64, u64),
    data: [(u64, u64); 2],
    control: (u64, u64),
}

impl Message {
    /// Room for 4 bytes and `rest` more of data, and for so much of an address and of ancillary data.
    fn with_room(arena: &mut Arena, rest: usize, name: usize, control: usize) -> Message {
        let mut room = |length: usize| match length {
            0 => (0, 0),
            length => (arena.room(length), length as u64),
        };
        Message { data: [room(4), room(rest)], name: room(name), control: room(control) }
    }

    fn words(&self, arena: &mut Arena) -> [u64; 7] {
        let [first, second] = self.data;
        let vectors = arena.put_words(&[first.0, first.1, second.0, second.1]);
        [self.name.0, self.name.1, vectors, 2, self.control.0, self.control.1, 0x7777_7777]
    }

    fn put(&self, arena: &mut Arena) -> u64 {
        let words = self.words(arena);
        arena.put_words(&words)
    }
}

fn put_all(arena: &mut Arena, messages: &[Message]) -> u64 {
    let mut all = Vec::new();
    for message in messages {
        all.extend(message.words(arena));
        all.push(u64::MAX);
    }
    arena.put_words(&all)
}

/// A socket that asks for time stamps and at which so many datagrams have arrived.
fn received(arena: &mut Arena, n_datagrams: usize) -> u64 {
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let there = UdpSocket::bind("127.0.0.1:0").unwrap();
    let yes = 1_i32;
    let (level, option) = (libc::SOL_SOCKET as u64, libc::SO_TIMESTAMP as u64);
    call(libc::SYS_setsockopt, &[here.as_raw_fd() as u64, level, option, &raw const yes as u64, 4]);
    for _ in 0..n_datagrams {
        there.send_to(b"datagram", here.local_addr().unwrap()).unwrap();
    }
    fd(arena, here)
}

fn receiving(arena: &mut Arena, rest: usize, name: usize, control: usize, flags: i32) -> [u64; 6] {
    let socket = received(arena, 1);
    let message = Message::with_room(arena, rest, name, control).put(arena);
    [socket, message, flags as u64, 0, 0, 0]
}

//! Sockets, all of them on this machine.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

use super::arena::Expect::{FailsWriting, Writes, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{call, fd};

const SOL_SOCKET: u64 = 1;
const IPV4: u64 = libc::AF_INET as u64;
const LOCAL: u64 = libc::AF_UNIX as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;

pub const CASES: &[Case] = &[
    case("socket", "", WritesNothing, |_| [IPV4, DATAGRAM, 0, 0, 0, 0]),
    case("socketpair", "", Writes, |arena| [LOCAL, DATAGRAM, 0, arena.room(8), 0, 0]),
    case("bind", "", WritesNothing, |arena| {
        let socket = call(libc::SYS_socket, &[IPV4, DATAGRAM, 0]);
        [socket, loopback(arena, 0), 16, 0, 0, 0]
    }),
    case("listen", "", WritesNothing, |arena| [fd(arena, listener()), 3, 0, 0, 0, 0]),
    case("connect", "", WritesNothing, |arena| {
        let port = udp().local_addr().unwrap().port();
        [fd(arena, udp()), loopback(arena, port), 16, 0, 0, 0]
    }),
    case("accept", "the whole address", Writes, |arena| accepting(arena, 16)),
    case("accept", "an address that does not fit", Writes, |arena| accepting(arena, 5)),
    case("accept", "no address wanted", WritesNothing, |arena| {
        let [listener, ..] = accepting(arena, 16);
        [listener, 0, 0, 0, 0, 0]
    }),
    case("accept4", "more room than needed", Writes, |arena| accepting(arena, 100)),
    case("getsockname", "", Writes, |arena| [fd(arena, udp()), arena.room(16), arena.put_int(16), 0, 0, 0]),
    case("getsockname", "cut off", Writes, |arena| [fd(arena, udp()), arena.room(6), arena.put_int(6), 0, 0, 0]),
    case("getpeername", "", Writes, |arena| {
        let (here, there) = tcp_pair();
        arena.keep(there);
        [fd(arena, here), arena.room(30), arena.put_int(30), 0, 0, 0]
    }),
    case("shutdown", "", WritesNothing, |arena| [fd(arena, tcp_pair().0), 0, 0, 0, 0, 0]),
    case("sendto", "", WritesNothing, |arena| {
        let port = udp().local_addr().unwrap().port();
        [fd(arena, udp()), arena.put(b"data"), 4, 0, loopback(arena, port), 16]
    }),
    case("recvfrom", "with the sender's address", Writes, |arena| {
        [received(arena, b"datagram"), arena.room(100), 100, 0, arena.room(16), arena.put_int(16)]
    }),
    case("recvfrom", "an address that does not fit", Writes, |arena| {
        [received(arena, b"datagram"), arena.room(100), 100, 0, arena.room(3), arena.put_int(3)]
    }),
    case("recvfrom", "cut off, with the true length as result", Writes, |arena| {
        [received(arena, b"datagram"), arena.room(3), 3, libc::MSG_TRUNC as u64, 0, 0]
    }),
    case("recvfrom", "a stream, whose address has no length", Writes, |arena| {
        let (here, mut there) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut there, b"stream").unwrap();
        arena.keep(there);
        [fd(arena, here), arena.room(100), 100, 0, arena.room(30), arena.put_int(30)]
    }),
    case("recvfrom", "a negative length of address", FailsWriting(libc::EINVAL), |arena| {
        [received(arena, b"datagram"), arena.room(8), 8, 0, arena.room(16), arena.put_int(-1)]
    }),
    case("setsockopt", "", WritesNothing, |arena| {
        [fd(arena, udp()), SOL_SOCKET, libc::SO_REUSEADDR as u64, arena.put_int(1), 4, 0]
    }),
    case("getsockopt", "a number in too much room", Writes, |arena| option(arena, libc::SO_RCVBUF, 50)),
    case("getsockopt", "a number in too little room", Writes, |arena| option(arena, libc::SO_RCVBUF, 2)),
    case("getsockopt", "credentials", Writes, |arena| option(arena, libc::SO_PEERCRED, 12)),
    case("getsockopt", "a filter, counted in instructions", Writes, |arena| {
        const ACCEPT_ALL: [u64; 1] = [0xffff_ffff_0000_0006];
        let socket = fd(arena, udp());
        let program = [1, ACCEPT_ALL.as_ptr() as u64];
        let attach = libc::SO_ATTACH_FILTER as u64;
        call(libc::SYS_setsockopt, &[socket, SOL_SOCKET, attach, program.as_ptr() as u64, 16]);
        [socket, SOL_SOCKET, libc::SO_GET_FILTER as u64, arena.room(16), arena.put_int(2), 0]
    }),
    case("getsockopt", "state of a connection", Writes, |arena| {
        let socket = fd(arena, tcp_pair().0);
        [socket, libc::SOL_TCP as u64, libc::TCP_INFO as u64, arena.room(400), arena.put_int(400), 0]
    }),
    case("getsockopt", "name of an algorithm", Writes, |arena| {
        let socket = fd(arena, tcp_pair().0);
        [socket, libc::SOL_TCP as u64, libc::TCP_CONGESTION as u64, arena.room(16), arena.put_int(16), 0]
    }),
];

fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = listener();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (here, listener.accept().unwrap().0)
}

fn loopback(arena: &mut Arena, port: u16) -> u64 {
    let [high, low] = port.to_be_bytes();
    arena.put(&[libc::AF_INET as u8, 0, high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// A listener on which somebody waits, with so much room for an address.
fn accepting(arena: &mut Arena, room: i32) -> [u64; 6] {
    let listener = listener();
    arena.keep(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    [fd(arena, listener), arena.room(room as usize), arena.put_int(room), 0, 0, 0]
}

/// A socket at which a datagram has arrived.
fn received(arena: &mut Arena, data: &[u8]) -> u64 {
    let (here, there) = (udp(), udp());
    there.send_to(data, here.local_addr().unwrap()).unwrap();
    fd(arena, here)
}

fn option(arena: &mut Arena, name: i32, room: i32) -> [u64; 6] {
    let socket = fd(arena, UnixStream::pair().unwrap().0);
    [socket, SOL_SOCKET, name as u64, arena.room(room as usize), arena.put_int(room), 0]
}

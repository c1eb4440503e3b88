//! `ioctl` and `fcntl`.

use std::fs::{File, OpenOptions};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::arena::Expect::{Fails, Writes, WritesIfAble, WritesNothing};
use super::arena::{Arena, Case, case};
use super::scene::{call, fd, file_with, pipe_with};

const F_GETOWN_EX: i32 = 16;
const F_GET_RW_HINT: i32 = 1035;

pub const CASES: &[Case] = &[
    case("fcntl", "a lock", Writes, |arena| locked(arena, libc::F_GETLK)),
    case("fcntl", "a lock of a description", Writes, |arena| locked(arena, libc::F_OFD_GETLK)),
    case("fcntl", "an owner", Writes, |arena| control_of(arena, file_with(b""), F_GETOWN_EX, 8)),
    case("fcntl", "a hint", WritesIfAble, |arena| control_of(arena, file_with(b""), F_GET_RW_HINT, 8)),
    case("fcntl", "flags", WritesNothing, |arena| control_of(arena, file_with(b""), libc::F_GETFL, 8)),
    case("fcntl", "no command", Fails(libc::EINVAL), |arena| control_of(arena, file_with(b""), 999, 8)),
    case("ioctl", "TCGETS", Writes, |arena| terminal(arena, 0x5401, 36)),
    case("ioctl", "TCGETS of no terminal", Fails(libc::ENOTTY), |arena| control_of(arena, file_with(b""), 0x5401, 36)),
    case("ioctl", "TCGETS2", Writes, |arena| terminal(arena, 0x802c_542a, 44)),
    case("ioctl", "TCGETA", Writes, |arena| terminal(arena, 0x5405, 18)),
    case("ioctl", "TIOCGWINSZ", Writes, |arena| terminal(arena, 0x5413, 8)),
    case("ioctl", "TIOCGPTN", Writes, |arena| terminal(arena, 0x8004_5430, 4)),
    case("ioctl", "TIOCGPTLCK", Writes, |arena| terminal(arena, 0x8004_5439, 4)),
    case("ioctl", "TIOCOUTQ", Writes, |arena| terminal(arena, 0x5411, 4)),
    case("ioctl", "TIOCGETD", Writes, |arena| terminal(arena, 0x5424, 4)),
    case("ioctl", "TIOCSWINSZ", WritesNothing, |arena| terminal(arena, 0x5414, 8)),
    case("ioctl", "FIONREAD", Writes, |arena| {
        let pipe = pipe_with(b"hello");
        let reader = arena.keep(pipe).0.as_raw_fd() as u64;
        [reader, 0x541b, arena.room(4), 0, 0, 0]
    }),
    case("ioctl", "FIONBIO", WritesNothing, |arena| [fd(arena, socket()), 0x5421, arena.put_int(1), 0, 0, 0]),
    case("ioctl", "FIOQSIZE", WritesIfAble, |arena| control_of(arena, file_with(b"content"), 0x5460, 8)),
    case("ioctl", "FIGETBSZ", WritesIfAble, |arena| control_of(arena, this_program(), 2, 4)),
    case("ioctl", "FS_IOC_GETFLAGS", WritesIfAble, |arena| control_of(arena, this_program(), 0x8008_6601u32 as i32, 4)),
    case("ioctl", "FS_IOC_FIEMAP", WritesIfAble, |arena| {
        let header = [0, u64::MAX, 0, 3];
        let room = [&header[..], &[7; 21]].concat();
        [fd(arena, this_program()), 0xc020_660b, arena.put_words(&room), 0, 0, 0]
    }),
    case("ioctl", "PROCMAP_QUERY", WritesIfAble, |arena| {
        let maps = fd(arena, File::open("/proc/self/maps").unwrap());
        let (name, build) = (arena.room(300), arena.room(40));
        let address = CASES.as_ptr() as u64;
        let query = [104, 0, address, 0, 0, 0, 0, 0, 0, 0, 300 | 40 << 32, name, build];
        [maps, 0xc068_6611, arena.put_words(&query), 0, 0, 0]
    }),
    case("ioctl", "PAGEMAP_SCAN", WritesIfAble, |arena| {
        let maps = fd(arena, File::open("/proc/self/pagemap").unwrap());
        let regions = arena.room(24 * 4);
        let start = arena.room(8192).next_multiple_of(4096);
        const PRESENT: u64 = 1 << 3;
        let wishes = [96, 0, start, start + 4096, 0, regions, 4, 0, 0, PRESENT, 0, PRESENT];
        [maps, 0xc060_6610, arena.put_words(&wishes), 0, 0, 0]
    }),
    case("ioctl", "RNDGETENTCNT", Writes, |arena| {
        control_of(arena, File::open("/dev/urandom").unwrap(), 0x8004_5200u32 as i32, 4)
    }),
    case("ioctl", "SIOCATMARK", Writes, |arena| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        arena.keep(listener);
        control_of(arena, here, 0x8905, 4)
    }),
    case("ioctl", "SIOCGIFCONF", Writes, |arena| {
        let list = arena.room(400);
        [fd(arena, socket()), 0x8912, arena.put_words(&[400, list]), 0, 0, 0]
    }),
    case("ioctl", "SIOCGIFCONF, only how many", Writes, |arena| {
        [fd(arena, socket()), 0x8912, arena.put_words(&[400, 0]), 0, 0, 0]
    }),
    case("ioctl", "SIOCGIFNAME", Writes, |arena| {
        let mut request = [0; 40];
        request[16] = 1;
        [fd(arena, socket()), 0x8910, arena.put(&request), 0, 0, 0]
    }),
    case("ioctl", "SIOCGIFFLAGS", Writes, |arena| interface(arena, 0x8913)),
    case("ioctl", "SIOCGIFMTU", Writes, |arena| interface(arena, 0x8921)),
    case("ioctl", "SIOCGIFINDEX", Writes, |arena| interface(arena, 0x8933)),
    case("ioctl", "SIOCGIFHWADDR", Writes, |arena| interface(arena, 0x8927)),
    case("ioctl", "SIOCOUTQ of a local socket", Writes, |arena| {
        control_of(arena, UnixStream::pair().unwrap().0, 0x5411, 4)
    }),
    case("ioctl", "NS_GET_OWNER_UID", WritesIfAble, |arena| {
        control_of(arena, File::open("/proc/self/ns/user").unwrap(), 0xb704, 4)
    }),
];

fn control_of<T: AsRawFd + 'static>(arena: &mut Arena, thing: T, command: i32, room: usize) -> [u64; 6] {
    [fd(arena, thing), u64::from(command as u32), arena.room(room), 0, 0, 0]
}

/// Asks for a lock on a file that somebody else has locked.
fn locked(arena: &mut Arena, command: i32) -> [u64; 6] {
    const WRITE_LOCK: u64 = 1;
    let file = file_with(b"content");
    let lock = arena.put_words(&[WRITE_LOCK, 0, 0, 0]);
    let other = OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    call(libc::SYS_fcntl, &[fd(arena, other), libc::F_OFD_SETLK as u64, lock]);
    let question = arena.put_words(&[WRITE_LOCK, 0, 0, 0]);
    [fd(arena, file), command as u64, question, 0, 0, 0]
}

fn terminal(arena: &mut Arena, request: u32, room: usize) -> [u64; 6] {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/ptmx").unwrap();
    control_of(arena, terminal, request as i32, room)
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn this_program() -> File {
    File::open(std::env::current_exe().unwrap()).unwrap()
}

fn interface(arena: &mut Arena, request: u64) -> [u64; 6] {
    let request_for_loopback = [b"lo".as_slice(), &[0; 14], &[0xcc; 24]].concat();
    [fd(arena, socket()), request, arena.put(&request_for_loopback), 0, 0, 0]
}

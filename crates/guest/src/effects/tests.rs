//! The table is complete, and what it says in cases that a test cannot bring about with real calls.

use super::table::TABLE;
use super::*;
use crate::syscall;

/// Memory of a few bytes from [`BASE`] on.
struct Bytes(Vec<u8>);

const BASE: u64 = 0x1000;
const EFAULT: i64 = -14;

impl Memory for Bytes {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let found = address.checked_sub(BASE).and_then(|start| self.0.get(start as usize..)?.get(..buffer.len()));
        found.inspect(|bytes| buffer.copy_from_slice(bytes)).is_some()
    }
}

fn number_of(name: &str) -> u64 {
    let syscall = syscall::all().iter().find(|syscall| syscall.name == name);
    syscall.unwrap_or_else(|| panic!("no call {name}")).number.into()
}

fn words(words: &[u64]) -> Bytes {
    Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// The spans as pairs of address and length, when nothing was noted beforehand.
fn spans(name: &str, arguments: [u64; 6], result: i64, memory: &Bytes) -> Result<Vec<(u64, u64)>, Unknown> {
    spans_with(name, arguments, result, &Prepared::Nothing, memory)
}

fn spans_with(
    name: &str,
    arguments: [u64; 6],
    result: i64,
    prepared: &Prepared,
    memory: &Bytes,
) -> Result<Vec<(u64, u64)>, Unknown> {
    let mut found = Vec::new();
    let call = Call { number: number_of(name), arguments, result };
    of(&call, prepared, memory, &mut |span| found.push((span.address, span.length)))?;
    Ok(found)
}

#[test]
fn every_call_has_its_row() {
    assert_eq!(TABLE.len(), syscall::all().len());
    for (row, syscall) in TABLE.iter().zip(syscall::all()) {
        assert_eq!((row.number, row.name), (syscall.number, syscall.name));
    }
}

#[test]
fn absent_calls_write_nothing() {
    for syscall in syscall::all().iter().filter(|syscall| syscall.class == syscall::Class::Absent) {
        assert_eq!(spans(syscall.name, [BASE; 6], -38, &words(&[])), Ok(vec![]), "{}", syscall.name);
    }
}

#[test]
fn numbers_without_a_row_are_unknown() {
    let call = |result| Call { number: 400, arguments: [0; 6], result };
    let memory = words(&[]);
    assert_eq!(of(&call(0), &Prepared::Nothing, &memory, &mut |_| ()), Err(Unknown));
    assert_eq!(of(&call(-38), &Prepared::Nothing, &memory, &mut |_| ()), Ok(()));
    assert_eq!(prepare(400, &[0; 6], &memory), Prepared::Nothing);
}

#[test]
fn calls_with_rings_are_unknown_unless_refused() {
    for name in ["io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup"] {
        assert_eq!(spans(name, [BASE; 6], 3, &words(&[])), Err(Unknown), "{name}");
        assert_eq!(spans(name, [BASE; 6], -1, &words(&[])), Ok(vec![]), "{name}");
    }
}

#[test]
fn comparing_tells_what_is_written_at_once() {
    let is_unknown = |number, arguments| super::is_unknown(number, &arguments, &Prepared::Nothing, &words(&[]));
    assert!(is_unknown(400, [0; 6]));
    assert!(is_unknown(number_of("ioctl"), [3, 0x8946, BASE, 0, 0, 0]));
    assert!(!is_unknown(number_of("ioctl"), [3, 0x5401, BASE, 0, 0, 0]));
    assert!(!is_unknown(number_of("read"), [3, BASE, 8, 0, 0, 0]));
    assert!(!is_unknown(number_of("io_uring_enter"), [3, 1, 1, 0, 0, 0]));
}

#[test]
fn reads_fill_what_they_say() {
    let nothing = words(&[]);
    assert_eq!(spans("read", [3, 0x5000, 100, 0, 0, 0], 7, &nothing), Ok(vec![(0x5000, 7)]));
    assert_eq!(spans("read", [3, 0x5000, 100, 0, 0, 0], 0, &nothing), Ok(vec![]));
    assert_eq!(spans("read", [3, 0x5000, 100, 0, 0, 0], -11, &nothing), Ok(vec![]));
}

#[test]
fn a_fault_may_have_filled_all_the_room() {
    let nothing = words(&[]);
    assert_eq!(spans("read", [3, 0x5000, 100, 0, 0, 0], EFAULT, &nothing), Ok(vec![(0x5000, 100)]));
    assert_eq!(spans("getgroups", [5, 0x5000, 0, 0, 0, 0], EFAULT, &nothing), Ok(vec![(0x5000, 20)]));
    let vectors = words(&[0x5000, 10, 0x6000, 20]);
    let filled = spans("readv", [3, BASE, 2, 0, 0, 0], EFAULT, &vectors);
    assert_eq!(filled, Ok(vec![(0x5000, 10), (0x6000, 20)]));
    // Where the vectors cannot be read, the kernel could not follow them either.
    assert_eq!(spans("readv", [3, 0x9000, 2, 0, 0, 0], EFAULT, &vectors), Ok(vec![]));
    assert_eq!(spans("readv", [3, 0x9000, 2, 0, 0, 0], 5, &vectors), Err(Unknown));
}

#[test]
fn vectors_are_filled_one_after_the_other() {
    let lengths: Vec<u64> = (1..=40).flat_map(|index| [0x10_000 * index, 3]).collect();
    let filled = spans("readv", [3, BASE, 40, 0, 0, 0], 100, &words(&lengths)).unwrap();
    assert_eq!(filled.len(), 34);
    assert_eq!(filled[0], (0x10_000, 3));
    assert_eq!(filled[33], (0x10_000 * 34, 1));
}

#[test]
fn spans_stay_inside_the_address_space() {
    let top = u64::MAX - 15;
    let found = spans("read", [3, top, u64::MAX, 0, 0, 0], EFAULT, &words(&[]));
    assert_eq!(found, Ok(vec![(top, 15)]));
}

#[test]
fn an_address_that_did_not_fit_is_told_by_the_length_noted_before() {
    let number = number_of("accept");
    let arguments = [3, 0x5000, BASE, 0, 0, 0];
    let prepared = prepare(number, &arguments, &words(&[4]));
    assert_eq!(prepared, Prepared::Length(4));
    let found = spans_with("accept", arguments, 5, &prepared, &words(&[16]));
    assert_eq!(found, Ok(vec![(0x5000, 4), (BASE, 4)]));
    // Without an address the length is not looked at.
    let found = spans_with("accept", [3, 0, BASE, 0, 0, 0], 5, &prepared, &words(&[16]));
    assert_eq!(found, Ok(vec![]));
}

#[test]
fn data_precede_the_error_on_a_bad_address_length() {
    let found = spans("recvfrom", [3, 0x5000, 10, 0, 0x6000, BASE], -22, &words(&[u64::MAX]));
    assert_eq!(found, Ok(vec![(0x5000, 10)]));
}

#[test]
fn futexes_are_written_by_few_operations() {
    let arguments = |operation| [0x5000, operation, 1, 0, 0x6000, 0];
    let nothing = words(&[]);
    assert_eq!(spans("futex", arguments(0), 0, &nothing), Ok(vec![]));
    assert_eq!(spans("futex", arguments(128 | 6), -110, &nothing), Ok(vec![(0x5000, 4)]));
    assert_eq!(spans("futex", arguments(128 | 5), 1, &nothing), Ok(vec![(0x6000, 4)]));
}

#[test]
fn finished_reads_of_asynchronous_requests_are_reported() {
    const READ_DATA: u64 = 0x7000;
    let event_at = BASE;
    let request_at = BASE + 32;
    let mut memory = vec![0; 12];
    memory[1] = request_at;
    memory[2] = 5; // bytes read
    memory[4 + 3] = READ_DATA;
    memory[4 + 4] = 100;
    let memory = words(&memory);
    let found = spans("io_getevents", [1, 1, 8, event_at, 0, 0], 1, &memory);
    assert_eq!(found, Ok(vec![(event_at, 32), (READ_DATA, 5)]));
}

#[test]
fn commands_that_nobody_knows_are_unknown_only_if_they_did_something() {
    let nothing = words(&[]);
    for (name, arguments) in [
        ("prctl", [0x7fff_0001, 0x5000, 0, 0, 0, 0]),
        ("fcntl", [3, 0x7000, 0x5000, 0, 0, 0]),
        ("keyctl", [77, 0x5000, 0, 0, 0, 0]),
        ("semctl", [1, 0, 13, 0x5000, 0, 0]),
    ] {
        assert_eq!(spans(name, arguments, 0, &nothing), Err(Unknown), "{name}");
        assert_eq!(spans(name, arguments, -22, &nothing), Ok(vec![]), "{name}");
    }
    let ioctl = [3, 0xc040_6400, 0x5000, 0, 0, 0];
    assert_eq!(spans("ioctl", ioctl, 0, &nothing), Err(Unknown));
    assert_eq!(spans("ioctl", ioctl, -22, &nothing), Err(Unknown));
    assert_eq!(spans("ioctl", ioctl, -25, &nothing), Ok(vec![]));
}

#[test]
fn thread_ids_go_where_the_flags_say() {
    let nothing = words(&[]);
    let clone = |flags| spans("clone", [flags, 0, 0x5000, 0x6000, 0, 0], 77, &nothing);
    assert_eq!(clone(17), Ok(vec![]));
    assert_eq!(clone(0x10_0000 | 0x100_0000), Ok(vec![(0x5000, 4), (0x6000, 4)]));
    let wishes = words(&[0x1000 | 0x10_0000, 0x5000, 0x6000, 0x7000]);
    let found = spans("clone3", [BASE, 88, 0, 0, 0, 0], 77, &wishes);
    assert_eq!(found, Ok(vec![(0x5000, 4), (0x7000, 4)]));
}

#[test]
fn what_is_sent_ends_with_the_result() {
    let sent_by = |name, arguments, result, memory: &Bytes| {
        let mut found = Vec::new();
        let call = Call { number: number_of(name), arguments, result };
        sent(&call, memory, &mut |span| found.push((span.address, span.length))).unwrap();
        found
    };
    let vectors = words(&[0x5000, 10, 0x6000, 20]);
    assert_eq!(sent_by("write", [1, 0x5000, 100, 0, 0, 0], 7, &vectors), [(0x5000, 7)]);
    assert_eq!(sent_by("write", [1, 0x5000, 100, 0, 0, 0], -4, &vectors), []);
    assert_eq!(sent_by("read", [1, 0x5000, 100, 0, 0, 0], 7, &vectors), []);
    assert_eq!(sent_by("writev", [1, BASE, 2, 0, 0, 0], 12, &vectors), [(0x5000, 10), (0x6000, 2)]);
    let message = words(&[0, 0, BASE + 56, 2, 0, 0, 0, 0x5000, 10, 0x6000, 20]);
    assert_eq!(sent_by("sendmsg", [1, BASE, 0, 0, 0, 0], 30, &message), [(0x5000, 10), (0x6000, 20)]);
    let messages = words(&[0, 0, BASE + 64, 1, 0, 0, 0, 3, 0x5000, 10]);
    assert_eq!(sent_by("sendmmsg", [1, BASE, 1, 0, 0, 0], 1, &messages), [(0x5000, 3)]);
}

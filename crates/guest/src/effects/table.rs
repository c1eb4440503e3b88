//! The table of all system calls, put together by number while compiling.
//!
//! A call that no family lists, or that two list, does not compile.

use super::rules::{Row, nothing};
use super::{events, files, interprocess, memory, network, processes, signals, system, time};

/// The block of numbers that 64-bit x86 gave out alone, and the block in which all architectures count alike.
const LOWER_END: u32 = 337;
const UPPER_START: u32 = 424;
const UPPER_END: u32 = 472;
const N_ROWS: usize = (LOWER_END + UPPER_END - UPPER_START) as usize;

const FAMILIES: &[&[Row]] = &[
    events::ROWS,
    files::ROWS,
    interprocess::ROWS,
    memory::ROWS,
    network::ROWS,
    processes::ROWS,
    signals::ROWS,
    system::ROWS,
    time::ROWS,
];

pub(super) static TABLE: [Row; N_ROWS] = assembled();

/// The row of a system call. Like the kernel, looks at the lower 32 bits alone.
pub(super) fn lookup(number: u64) -> Option<&'static Row> {
    place_of(number as u32).map(|place| &TABLE[place])
}

const fn place_of(number: u32) -> Option<usize> {
    match number {
        0..LOWER_END => Some(number as usize),
        UPPER_START..UPPER_END => Some((number - UPPER_START + LOWER_END) as usize),
        _ => None,
    }
}

const fn assembled() -> [Row; N_ROWS] {
    let mut table = [nothing(u32::MAX, ""); N_ROWS];
    let mut n_placed = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].len() {
            let row = FAMILIES[family][index];
            let Some(place) = place_of(row.number) else { panic!("a row has a number that no call has") };
            assert!(table[place].number == u32::MAX, "two rows have the same number");
            table[place] = row;
            n_placed += 1;
            index += 1;
        }
        family += 1;
    }
    assert!(n_placed == N_ROWS, "a call has no row");
    table
}

//! Where the tested guest code lives: memory at fixed addresses, in and out of the code cache's reach.
#![allow(unsafe_code)]

use crate::code::cache::CodeCache;
use crate::code::memory::{BranchTable, CodeMemory};
use crate::code::path::{GuestCode, Limits};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

pub const CODE_SIZE: u64 = 0x1_0000;
pub const DATA_SIZE: u64 = 0x8000;
/// Offsets into a home's data: the made-up thread area, where operands lie, and the stack pointer at the start.
pub const THREAD_AREA: u64 = 0x1000;
pub const OPERANDS: u64 = 0x2000;
pub const OPERANDS_SIZE: u64 = 0x2000;
pub const STACK: u64 = 0x6000;

/// A place for guest code with its data in reach of RIP-relative operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    pub name: &'static str,
    pub code: u64,
    pub data: u64,
}

/// Data in the low two gigabytes: 32-bit and absolute addresses can name it, and return addresses are short constants.
pub const LOW: Home = Home { name: "low", code: 0x1800_0000, data: 0x1802_0000 };
/// Within two gigabytes of every cache.
pub const NEAR: Home = Home { name: "near", code: 0x2fff_e000_0000, data: 0x2fff_e002_0000 };
/// RIP-relative operands cannot reach it from the cache.
pub const FAR: Home = Home { name: "far", code: 0x2000_0000_0000, data: 0x2000_0002_0000 };
pub const HOMES: [Home; 3] = [LOW, NEAR, FAR];

const CACHES: u64 = 0x3000_0000_0000;
const CACHE_SIZE: u64 = 16 << 20;
const TABLES: u64 = 0x1000_0000;
const TABLE_STRIDE: u64 = 0x10_0000;

impl Home {
    /// The data as it is now. Only the holder of the machine's lock calls this.
    pub fn data(&self) -> &'static mut [u8] {
        // SAFETY: `map_homes` has mapped it for good; the machine's lock keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.data as *mut u8, DATA_SIZE as usize) }
    }

    /// Places code to be run by the processor itself.
    pub fn write_code(&self, at: u64, bytes: &[u8]) {
        assert!(at >= self.code && at + bytes.len() as u64 <= self.code + CODE_SIZE);
        // SAFETY: the range lies in the code mapping, and no code of this home runs at the moment.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }
}

/// Maps every home, once for all tests of the process.
pub fn map_homes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for home in HOMES {
            map(home.code, CODE_SIZE, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
            map(home.data, DATA_SIZE, libc::PROT_READ | libc::PROT_WRITE);
        }
    });
}

fn map(address: u64, size: u64, protection: i32) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a fresh mapping at an address that the kernel refuses if anything is there.
    let got = unsafe { libc::mmap(address as *mut libc::c_void, size as usize, protection, flags, -1, 0) };
    assert_eq!(got as u64, address, "the test's memory at {address:#x} is free");
}

/// A cache of its own at an address of its own.
pub fn new_cache(limits: Limits) -> CodeCache {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let address = CACHES + COUNT.fetch_add(1, Ordering::SeqCst) * 2 * CACHE_SIZE;
    let memory = CodeMemory::reserve(address, CACHE_SIZE).expect("the cache's memory is free");
    let candidates = (0..96).map(|n| TABLES + n * TABLE_STRIDE);
    CodeCache::new(memory, BranchTable::reserve(candidates).expect("low memory is free"), limits)
}

/// Guest code held in a buffer: what the translator reads need not be what the processor runs.
pub struct Bytes {
    pub start: u64,
    pub bytes: Vec<u8>,
}

impl GuestCode for Bytes {
    fn fetch(&self, pc: u64) -> &[u8] {
        pc.checked_sub(self.start).and_then(|offset| self.bytes.get(offset as usize..)).unwrap_or(&[])
    }

    fn pointer(&self, address: u64) -> Option<u64> {
        self.fetch(address).first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

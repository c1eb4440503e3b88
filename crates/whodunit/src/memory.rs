//! This process's memory, read so that no address can do harm.

use program::unwind::Memory;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;

/// The guest's memory is our own. It must not change any more: pages are kept.
pub struct OwnMemory {
    /// Absent where `/proc` is not mounted; nothing can be read then.
    file: Option<File>,
    pages: RefCell<BTreeMap<u64, Option<Box<[u8; PAGE]>>>>,
}

impl OwnMemory {
    pub fn open() -> OwnMemory {
        OwnMemory { file: File::open("/proc/self/mem").ok(), pages: RefCell::default() }
    }

    fn read_page(&self, start: u64) -> Option<Box<[u8; PAGE]>> {
        let mut page = Box::new([0; PAGE]);
        self.file.as_ref()?.read_exact_at(&mut page[..], start).ok()?;
        Some(page)
    }

    /// As many bytes from `address` on as can be read, up to `limit`.
    pub fn read_up_to(&self, address: u64, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while bytes.len() < limit && self.read(address.wrapping_add(bytes.len() as u64), &mut byte) {
            bytes.push(byte[0]);
        }
        bytes
    }

    pub fn read_u32(&self, address: u64) -> Option<u32> {
        let mut word = [0; 4];
        self.read(address, &mut word).then(|| u32::from_le_bytes(word))
    }
}

impl Memory for OwnMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let mut pages = self.pages.borrow_mut();
        let mut done = 0;
        while done < buffer.len() {
            let Some(place) = address.checked_add(done as u64) else { return false };
            let within = (place % PAGE as u64) as usize;
            let start = place - within as u64;
            let Some(page) = pages.entry(start).or_insert_with(|| self.read_page(start)) else { return false };
            let length = (PAGE - within).min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&page[within..within + length]);
            done += length;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_bytes_across_pages() {
        let data: Vec<u8> = (0..3 * PAGE).map(|index| (index % 251) as u8).collect();
        let memory = OwnMemory::open();
        let mut copy = vec![0; data.len()];
        assert!(memory.read(data.as_ptr() as u64, &mut copy));
        assert_eq!(copy, data);
        assert_eq!(memory.read_up_to(data.as_ptr() as u64, 15), data[..15]);
    }

    #[test]
    fn no_address_does_harm() {
        let memory = OwnMemory::open();
        for address in [0, 0xfff, 1 << 47, u64::MAX - 3, u64::MAX] {
            assert!(!memory.read(address, &mut [0; 8]), "{address:#x}");
            assert_eq!(memory.read_up_to(address, 15), [0_u8; 0]);
        }
    }
}

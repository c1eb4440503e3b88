//! Reading the guest's instructions where they are.
#![allow(unsafe_code)]

use crate::code::path::GuestCode;
use crate::kernel;
use crate::space::GuestSpace;

/// The guest's code in its own address space.
pub struct LiveCode<'a>(pub &'a GuestSpace);

impl GuestCode for LiveCode<'_> {
    fn fetch(&self, pc: u64) -> &[u8] {
        /// Enough for a straight run of instructions.
        const WINDOW: u64 = 128;
        match self.0.code_around(pc) {
            // SAFETY: the range is mapped and executable by the guest's own mappings, which the kernel makes readable
            // on this machine; only the thread with the turn can change them, and it is busy here.
            Some((_, end)) => unsafe { std::slice::from_raw_parts(pc as *const u8, (end - pc).min(WINDOW) as usize) },
            None => &[],
        }
    }

    fn pointer(&self, address: u64) -> Option<u64> {
        kernel::read(address).ok()
    }
}

//! Writes machine code into a buffer whose final address is known.
//!
//! Only the handful of forms that the engine itself emits; guest instructions are copied or go through the encoder.

use crate::context::Slot;

/// A conditional jump's condition, as the low four bits of its opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition(pub u8);

impl Condition {
    pub const NOT_ZERO: Condition = Condition(5);
    pub const NOT_POSITIVE: Condition = Condition(14);

    pub fn inverted(self) -> Condition {
        Condition(self.0 ^ 1)
    }
}

/// Machine code under construction, to be placed at `base`.
#[derive(Default)]
pub struct Assembler {
    base: u64,
    bytes: Vec<u8>,
}

/// A place whose four-byte displacement is filled in later.
#[derive(Clone, Copy, Debug)]
pub struct Patch(u64);

impl Patch {
    /// The address of the four displacement bytes.
    pub fn address(self) -> u64 {
        self.0
    }
}

/// A jump over a few bytes, whose end is filled in later.
#[derive(Clone, Copy, Debug)]
#[must_use = "the jump has to land somewhere"]
pub struct Hop(usize);

fn rex_w(reg: u8, base: u8) -> u8 {
    0x48 | ((reg >> 3) << 2) | (base >> 3)
}

impl Assembler {
    pub fn new(base: u64) -> Assembler {
        Assembler { base, bytes: Vec::with_capacity(512) }
    }

    /// Starts over at another address, keeping the allocation.
    pub fn restart(&mut self, base: u64) {
        self.base = base;
        self.bytes.clear();
    }

    /// The address of the next byte.
    pub fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn i32(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    fn fs_absolute(&mut self, opcode: u8, register: u8, slot: Slot) {
        self.raw(&[0x64, rex_w(register, 0), opcode, 0x04 | ((register & 7) << 3), 0x25]);
        self.i32(slot.0);
    }

    /// `mov fs:[slot], register`
    pub fn store_slot(&mut self, slot: Slot, register: u8) {
        self.fs_absolute(0x89, register, slot);
    }

    /// `mov register, fs:[slot]`
    pub fn load_slot(&mut self, register: u8, slot: Slot) {
        self.fs_absolute(0x8b, register, slot);
    }

    /// `jmp fs:[slot]`
    pub fn jump_slot(&mut self, slot: Slot) {
        self.raw(&[0x64, 0xff, 0x24, 0x25]);
        self.i32(slot.0);
    }

    /// `sub qword fs:[slot], amount`: clobbers all arithmetic flags.
    pub fn subtract_slot(&mut self, slot: Slot, amount: i8) {
        self.raw(&[0x64, 0x48, 0x83, 0x2c, 0x25]);
        self.i32(slot.0);
        self.raw(&[amount as u8]);
    }

    /// `add qword fs:[slot], amount`: clobbers all arithmetic flags.
    pub fn add_to_slot(&mut self, slot: Slot, amount: i8) {
        self.raw(&[0x64, 0x48, 0x83, 0x04, 0x25]);
        self.i32(slot.0);
        self.raw(&[amount as u8]);
    }

    /// `dec qword fs:[slot]`: clobbers all arithmetic flags but carry.
    pub fn decrement_slot(&mut self, slot: Slot) {
        self.raw(&[0x64, 0x48, 0xff, 0x0c, 0x25]);
        self.i32(slot.0);
    }

    /// `mov register, value` in its shortest form; leaves flags alone.
    pub fn load_constant(&mut self, register: u8, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            if register >= 8 {
                self.raw(&[0x41]);
            }
            self.raw(&[0xb8 | (register & 7)]);
            self.raw(&value.to_le_bytes());
        } else {
            self.raw(&[0x48 | (register >> 3), 0xb8 | (register & 7)]);
            self.raw(&value.to_le_bytes());
        }
    }

    /// `mov to, from`
    pub fn copy(&mut self, to: u8, from: u8) {
        self.raw(&[rex_w(from, to), 0x89, 0xc0 | ((from & 7) << 3) | (to & 7)]);
    }

    /// `lea register, [register + displacement]`: addition that leaves flags alone.
    pub fn add_displacement(&mut self, register: u8, displacement: i32) {
        self.memory_form(0x8d, register, register, displacement);
    }

    /// `mov register, [base + displacement]`
    pub fn load(&mut self, register: u8, base: u8, displacement: i32) {
        self.memory_form(0x8b, register, base, displacement);
    }

    /// `mov [base + displacement], register`
    pub fn store(&mut self, base: u8, displacement: i32, register: u8) {
        self.memory_form(0x89, register, base, displacement);
    }

    /// `mov qword [base + displacement], sign-extended value`
    pub fn store_constant(&mut self, base: u8, displacement: i32, value: i32) {
        self.memory_form(0xc7, 0, base, displacement);
        self.i32(value);
    }

    fn memory_form(&mut self, opcode: u8, register: u8, base: u8, displacement: i32) {
        let short = i8::try_from(displacement).ok();
        let mode = if short.is_some() { 0x40 } else { 0x80 };
        self.raw(&[rex_w(register, base), opcode, mode | ((register & 7) << 3) | (base & 7)]);
        if base & 7 == 4 {
            self.raw(&[0x24]);
        }
        match short {
            Some(short) => self.raw(&[short as u8]),
            None => self.i32(displacement),
        }
    }

    /// `jmp target`
    pub fn jump(&mut self, target: u64) -> Patch {
        self.raw(&[0xe9]);
        self.relative(target)
    }

    /// `jcc target`
    pub fn jump_if(&mut self, condition: Condition, target: u64) -> Patch {
        self.raw(&[0x0f, 0x80 | condition.0]);
        self.relative(target)
    }

    /// `jrcxz`, to where it will [land](Assembler::land).
    pub fn hop_if_rcx_is_zero(&mut self) -> Hop {
        self.raw(&[0xe3, 0]);
        Hop(self.bytes.len())
    }

    /// The next byte is where a hop leads.
    pub fn land(&mut self, hop: Hop) {
        let distance = i8::try_from(self.bytes.len() - hop.0).expect("hops are short");
        self.bytes[hop.0 - 1] = distance as u8;
    }

    /// The displacement of a target that ends the instruction.
    pub fn relative(&mut self, target: u64) -> Patch {
        let patch = Patch(self.here());
        self.i32(target.wrapping_sub(self.here() + 4) as i32);
        patch
    }

    /// Redirects a jump emitted earlier into this buffer.
    pub fn aim(&mut self, patch: Patch, target: u64) {
        let at = (patch.0 - self.base) as usize;
        let displacement = target.wrapping_sub(patch.0 + 4) as i32;
        self.bytes[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
    }

    /// Fills with single-byte no-operations.
    pub fn pad(&mut self, count: usize) {
        const NOPS: [&[u8]; 5] = [&[], &[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0x00], &[0x0f, 0x1f, 0x40, 0x00]];
        let mut left = count;
        while left > 0 {
            let n = left.min(4);
            self.raw(NOPS[n]);
            left -= n;
        }
    }
}

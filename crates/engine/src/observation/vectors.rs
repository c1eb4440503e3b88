//! What the saved vector state tells: lanes of registers, masks, and how much memory saving it takes.

use crate::signals::frame::XState;
use iced_x86::{Instruction, Mnemonic, Register};
use std::arch::x86_64::__cpuid_count;
use std::ops::Range;

const COMPONENTS_IN_USE: usize = 512;
const FIRST_XMM: usize = 160;
const HEADER_END: u64 = 576;
/// Component numbers: the SSE registers, upper halves, masks, upper halves of the wide, and the second sixteen.
const SSE: u32 = 1;
const AVX: u32 = 2;
const MASKS: u32 = 5;
const UPPER_ZMM: u32 = 6;
const MORE_ZMM: u32 = 7;

/// A thread's vector state in the processor's standard format.
pub struct VectorState<'a>(pub &'a [u8]);

impl VectorState<'_> {
    fn bytes(&self, component: u32, offset: usize, size: usize) -> u64 {
        let in_use = u64::from_le_bytes(self.array(COMPONENTS_IN_USE));
        if in_use & 1 << component == 0 {
            return 0;
        }
        let start = if component == SSE { FIRST_XMM } else { __cpuid_count(0xd, component).ebx as usize };
        let mut value = [0; 8];
        value[..size].copy_from_slice(&self.0[start + offset..start + offset + size]);
        u64::from_le_bytes(value)
    }

    fn array(&self, at: usize) -> [u8; 8] {
        self.0[at..at + 8].try_into().expect("eight bytes are eight bytes")
    }

    /// The lane of `size` bytes in an XMM, YMM or ZMM register.
    pub fn lane(&self, register: Register, lane: usize, size: usize) -> u64 {
        let number = register.number();
        let offset = lane * size;
        match (number, offset) {
            (16.., _) => self.bytes(MORE_ZMM, 64 * (number - 16) + offset, size),
            (_, 0..16) => self.bytes(SSE, 16 * number + offset, size),
            (_, 16..32) => self.bytes(AVX, 16 * number + offset - 16, size),
            _ => self.bytes(UPPER_ZMM, 32 * number + offset - 32, size),
        }
    }

    /// Which elements of `size` bytes a gather or scatter still has to touch.
    pub fn is_wanted(&self, instruction: &Instruction, lane: usize, size: usize) -> bool {
        if instruction.has_op_mask() {
            return self.bytes(MASKS, 8 * instruction.op_mask().number(), 8) >> lane & 1 != 0;
        }
        // Otherwise the third operand's sign bits are the mask.
        self.lane(instruction.op2_register(), lane, size) >> (8 * size - 1) & 1 != 0
    }
}

/// How many elements of `size` bytes a gather or scatter with indices of `index_size` bytes has.
pub fn lanes(instruction: &Instruction, size: usize, index_size: usize) -> usize {
    let data = [instruction.op0_register(), instruction.op1_register()];
    let data = data.into_iter().find(|register| register.is_vector_register()).map_or(0, Register::size);
    (data / size).min(instruction.memory_index().size() / index_size)
}

/// Bytes that an instruction of the XSAVE family accesses; `header` is what is at its place in memory.
pub fn save_area(instruction: &Instruction, requested: u64, xstate: XState, header: [u64; 2]) -> Option<u64> {
    const COMPACT: u64 = 1 << 63;
    let components = requested & xstate.shown_components;
    match instruction.mnemonic() {
        Mnemonic::Xsave | Mnemonic::Xsave64 | Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => Some(standard(components)),
        Mnemonic::Xsavec | Mnemonic::Xsavec64 => Some(compact(components)),
        Mnemonic::Xrstor | Mnemonic::Xrstor64 if header[1] & COMPACT != 0 => Some(compact(header[1])),
        Mnemonic::Xrstor | Mnemonic::Xrstor64 => Some(standard(components & header[0])),
        _ => None,
    }
}

/// Components behind the header.
fn extended(components: u64) -> impl Iterator<Item = u32> {
    (2..63).filter(move |component| components & 1 << component != 0)
}

/// Where an area with these components holds those that lie behind the header.
pub fn component_places(components: u64, is_compact: bool) -> Vec<(u32, Range<u64>)> {
    let mut end = HEADER_END;
    let place = |component| {
        let facts = __cpuid_count(0xd, component);
        let start = match is_compact {
            true if facts.ecx & 2 != 0 => end.next_multiple_of(64),
            true => end,
            false => u64::from(facts.ebx),
        };
        end = start + u64::from(facts.eax);
        (component, start..end)
    };
    extended(components).map(place).collect()
}

fn standard(components: u64) -> u64 {
    let places = component_places(components, false);
    places.iter().map(|(_, place)| place.end).max().unwrap_or(0).max(HEADER_END)
}

fn compact(components: u64) -> u64 {
    component_places(components, true).last().map_or(HEADER_END, |(_, place)| place.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decode(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode()
    }

    #[test]
    fn lanes_are_found_where_the_processor_saves_them() {
        let mut area = vec![0; 4096];
        area[COMPONENTS_IN_USE] = 1 << SSE;
        area[FIRST_XMM + 16 * 3 + 4..FIRST_XMM + 16 * 3 + 8].copy_from_slice(&0x1234_5678u32.to_le_bytes());
        area[FIRST_XMM + 16 * 4 + 7] = 0x80;
        let state = VectorState(&area);
        assert_eq!(state.lane(Register::XMM3, 1, 4), 0x1234_5678);
        assert_eq!(state.lane(Register::YMM3, 5, 4), 0, "upper halves are not in use");
        let gather = decode(&[0xc4, 0xe2, 0x59, 0x90, 0x14, 0x88]); // vpgatherdd xmm2, [rax + xmm1*4], xmm4
        assert_eq!((lanes(&gather, 4, 4), lanes(&gather, 8, 4)), (4, 2));
        let wanted: Vec<bool> = (0..4).map(|lane| state.is_wanted(&gather, lane, 4)).collect();
        assert_eq!(wanted, [false, true, false, false]);
    }

    #[test]
    fn saving_takes_as_much_memory_as_the_components_asked_for() {
        let xstate = XState { size: 4096, components: 7, shown_size: 4096, shown_components: 7 };
        let save = decode(&[0x0f, 0xae, 0x20]); // xsave [rax]
        let avx = u64::from(__cpuid_count(0xd, AVX).eax);
        assert_eq!(save_area(&save, 3, xstate, [0; 2]), Some(HEADER_END));
        assert_eq!(save_area(&save, u64::MAX, xstate, [0; 2]), Some(HEADER_END + avx));
        assert_eq!(save_area(&decode(&[0x0f, 0xae, 0x00]), 7, xstate, [0; 2]), None, "fxsave has a size of its own");
    }
}

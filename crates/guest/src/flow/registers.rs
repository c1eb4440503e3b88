//! Registers by the byte: one numbering for all that instructions keep outside memory.

use crate::instruction::register_number;
use iced_x86::{Register, RflagsBits};

/// Bytes of the register file that lie together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    pub start: u16,
    pub length: u16,
}

const GENERAL: u16 = 8;
const FIRST_VECTOR: u16 = 16 * GENERAL;
const VECTOR: u16 = 64;
const FIRST_MASK: u16 = FIRST_VECTOR + 32 * VECTOR;
const X87: u16 = FIRST_MASK + 8 * 8;
const TILES: u16 = X87 + 1;
const FIRST_FLAG: u16 = TILES + 1;
/// Flags that instructions compute with, each standing for a byte.
const FLAGS: [u32; 7] =
    [RflagsBits::CF, RflagsBits::PF, RflagsBits::AF, RflagsBits::ZF, RflagsBits::SF, RflagsBits::DF, RflagsBits::OF];
/// How many bytes the register file has.
pub const REGISTER_BYTES: usize = FIRST_FLAG as usize + FLAGS.len();

impl Span {
    /// The bytes of a register. The x87 and MMX registers count as one byte together, since their numbers move, and so do
    /// tiles. Nothing for registers whose values are no data: segments, the instruction pointer, those of the system.
    pub fn of(register: Register) -> Option<Span> {
        let size = register.size() as u16;
        if let Some(number) = register_number(register) {
            let is_high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
            return Some(Span { start: u16::from(number) * GENERAL + u16::from(is_high), length: size });
        }
        let number = register.number() as u16;
        match register {
            _ if register.is_vector_register() => Some(Span { start: FIRST_VECTOR + number * VECTOR, length: size }),
            _ if register.is_k() => Some(Span { start: FIRST_MASK + number * 8, length: 8 }),
            _ if register.is_st() || register.is_mm() => Some(Span { start: X87, length: 1 }),
            _ if register.is_tmm() => Some(Span { start: TILES, length: 1 }),
            _ => None,
        }
    }

    /// The whole of a general register, by its encoding number.
    pub fn general(number: u8) -> Span {
        Span { start: u16::from(number) * GENERAL, length: GENERAL }
    }

    /// One byte for each of these flags that is data.
    pub fn flags(bits: u32) -> impl Iterator<Item = Span> {
        let wanted = (FIRST_FLAG..).zip(FLAGS).filter(move |(_, flag)| bits & flag != 0);
        wanted.map(|(start, _)| Span { start, length: 1 })
    }

    /// The state of the x87 unit as a whole.
    pub fn x87() -> Span {
        Span { start: X87, length: 1 }
    }

    /// The general register that the bytes belong to, by its encoding number.
    pub fn general_register(self) -> Option<u8> {
        (self.start < FIRST_VECTOR).then_some((self.start / GENERAL) as u8)
    }

    pub fn bytes(self) -> impl Iterator<Item = usize> {
        usize::from(self.start)..usize::from(self.start) + usize::from(self.length)
    }

    pub fn covers(self, other: Span) -> bool {
        self.start <= other.start && other.start + other.length <= self.start + self.length
    }
}

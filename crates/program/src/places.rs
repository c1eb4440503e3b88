//! Where a value is, and how to get at its bytes.

use std::fmt;

use crate::registers::{DWARF_NUMBERS, Registers};
use crate::space::{GuestAddress, ModuleIdx};
use crate::unwind::Memory;

/// Larger values are not read at once.
const MAX_VALUE: u64 = 1 << 16;

/// Where a value is at some moment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Address(GuestAddress),
    /// Bytes from the start of the block that every thread has for a module.
    ThreadLocal {
        module: ModuleIdx,
        offset: u64,
    },
    Register(RegisterNumber),
    /// The value itself, lowest byte first; it is nowhere in the program.
    Constant(Vec<u8>),
    /// In several parts, first byte first. No part is itself in pieces.
    Pieces(Vec<Piece>),
    /// The debug information cannot tell where the value is here, or that it is anywhere.
    OptimisedOut,
}

/// `size` bytes of a value that start `offset` bytes into `place`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub place: Place,
    pub offset: u64,
    pub size: u64,
}

/// A register by DWARF's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisterNumber(pub u16);

impl RegisterNumber {
    /// The position in [`Registers::general`].
    pub fn general(self) -> Option<usize> {
        DWARF_NUMBERS.iter().position(|number| number.0 == self.0)
    }
}

impl fmt::Display for RegisterNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match gimli::X86_64::register_name(gimli::Register(self.0)) {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "register {}", self.0),
        }
    }
}

/// In words for people: `0x4010`, `rax`, `optimised out`.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Address(address) => write!(formatter, "{:#x}", address.0),
            Place::ThreadLocal { offset, .. } => write!(formatter, "thread-local storage + {offset:#x}"),
            Place::Register(register) => write!(formatter, "{register}"),
            Place::Constant(_) => formatter.write_str("a constant"),
            Place::Pieces(pieces) => write!(formatter, "{} pieces", pieces.len()),
            Place::OptimisedOut => formatter.write_str("optimised out"),
        }
    }
}

impl Place {
    /// The place of `size` bytes that start at `offset` of the value here.
    pub fn part(&self, offset: u64, size: u64) -> Place {
        match self {
            Place::Address(address) => Place::Address(GuestAddress(address.0.wrapping_add(offset))),
            Place::ThreadLocal { module, offset: start } => {
                Place::ThreadLocal { module: *module, offset: start.wrapping_add(offset) }
            }
            Place::Register(_) if offset == 0 => self.clone(),
            Place::Register(_) => Place::Pieces(vec![Piece { place: self.clone(), offset, size }]),
            Place::Constant(bytes) => {
                let start = usize::try_from(offset).ok();
                let end = start.and_then(|start| start.checked_add(usize::try_from(size).ok()?));
                let part = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
                part.map_or(Place::OptimisedOut, |part| Place::Constant(part.to_vec()))
            }
            Place::Pieces(pieces) => part_of_pieces(pieces, offset, size),
            Place::OptimisedOut => Place::OptimisedOut,
        }
    }

    /// The first `size` bytes of the value, if all of them can be had.
    pub fn read(&self, size: u64, registers: Option<&Registers>, memory: Option<&dyn Memory>) -> Option<Vec<u8>> {
        let length = usize::try_from(size.min(MAX_VALUE + 1)).ok().filter(|_| size <= MAX_VALUE)?;
        match self {
            Place::Address(address) => {
                let mut bytes = vec![0; length];
                memory?.read(address.0, &mut bytes).then_some(bytes)
            }
            Place::Register(register) => {
                let value = registers?.general[register.general()?]?;
                value.to_le_bytes().get(..length).map(<[u8]>::to_vec)
            }
            Place::Constant(bytes) => bytes.get(..length).map(<[u8]>::to_vec),
            Place::Pieces(pieces) => read_pieces(pieces, length, registers, memory),
            Place::ThreadLocal { .. } | Place::OptimisedOut => None,
        }
    }
}

fn read_pieces(
    pieces: &[Piece],
    length: usize,
    registers: Option<&Registers>,
    memory: Option<&dyn Memory>,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let skipped = usize::try_from(piece.offset).ok()?;
        let whole = piece.place.read(piece.offset.checked_add(piece.size)?, registers, memory)?;
        bytes.extend_from_slice(whole.get(skipped..)?);
        if bytes.len() >= length {
            bytes.truncate(length);
            return Some(bytes);
        }
    }
    None
}

fn part_of_pieces(pieces: &[Piece], offset: u64, size: u64) -> Place {
    let end = offset.saturating_add(size);
    let mut position = 0u64;
    let mut parts = Vec::new();
    for piece in pieces {
        let (start, next) = (position, position.saturating_add(piece.size));
        position = next;
        let (first, last) = (start.max(offset), next.min(end));
        if first < last {
            let skipped = piece.offset.saturating_add(first - start);
            parts.push(Piece { place: piece.place.clone(), offset: skipped, size: last - first });
        }
    }
    match parts.as_slice() {
        [] => Place::OptimisedOut,
        [only] if only.size == size => match (&only.place, only.offset) {
            (Place::Register(_), 1..) => Place::Pieces(parts),
            (place, offset) => place.part(offset, size),
        },
        _ => Place::Pieces(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAX: Place = Place::Register(RegisterNumber(0));

    fn at(address: u64) -> Place {
        Place::Address(GuestAddress(address))
    }

    #[test]
    fn parts_of_a_value_in_pieces() {
        let piece = |place, size| Piece { place, offset: 0, size };
        let whole = Place::Pieces(vec![piece(RAX, 8), piece(at(0x100), 4), piece(Place::Constant(vec![7, 8]), 2)]);
        assert_eq!(whole.part(0, 8), RAX);
        assert_eq!(whole.part(4, 4), Place::Pieces(vec![Piece { place: RAX, offset: 4, size: 4 }]));
        assert_eq!(whole.part(10, 2), at(0x102));
        assert_eq!(whole.part(13, 1), Place::Constant(vec![8]));
        assert_eq!(whole.part(14, 1), Place::OptimisedOut);
        let mut registers = Registers::new(0, 0, 0);
        registers.general[0] = Some(0x0807_0605_0403_0201);
        assert_eq!(whole.part(4, 4).read(4, Some(&registers), None), Some(vec![5, 6, 7, 8]));
        assert_eq!(whole.part(4, 6).read(6, Some(&registers), None), None);
    }

    #[test]
    fn registers_have_names() {
        assert_eq!(RAX.to_string(), "rax");
        assert_eq!(RegisterNumber(17).to_string(), "xmm0");
        assert_eq!((RegisterNumber(7).general(), RegisterNumber(17).general()), (Some(4), None));
    }
}

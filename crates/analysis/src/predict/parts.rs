//! The pieces of an access that are looked at one by one.

use trace::stream::{Access, Values};

/// The longest access whose parts are looked at.
pub const LONGEST_ACCESS: u64 = 256;
pub const POINTER_SIZE: u64 = 8;

/// A piece of an access, of the size of a pointer at most.
pub struct Part {
    pub address: u64,
    pub size: u64,
    /// What was there before, as far as it is known.
    pub before: Option<u64>,
    /// What is there after.
    pub after: Option<u64>,
    pub reads: bool,
    pub writes: bool,
}

/// Whether a piece of a value is zero.
pub fn has_null(bytes: &[u8]) -> bool {
    let looked_at = &bytes[..bytes.len().min(LONGEST_ACCESS as usize)];
    looked_at.chunks(POINTER_SIZE as usize).any(|piece| number_of(piece) == 0)
}

/// The number that up to eight bytes stand for.
#[inline]
pub fn number_of(bytes: &[u8]) -> u64 {
    match *bytes {
        [byte] => u64::from(byte),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// The pieces of an access that are looked at.
pub fn parts(access: &Access, values: Values<'_>) -> impl Iterator<Item = Part> {
    let size = u64::from(access.size).min(LONGEST_ACCESS);
    let kind = access.kind;
    let number = |bytes: Option<&[u8]>, from: u64, to: u64| {
        let bytes = bytes.and_then(|bytes| bytes.get(from as usize..to as usize))?;
        Some(number_of(bytes))
    };
    (0..size).step_by(POINTER_SIZE as usize).map(move |from| {
        let to = (from + POINTER_SIZE).min(size);
        let before = number(values.before, from, to);
        let after = if kind.writes() { number(values.after, from, to) } else { before };
        Part {
            address: access.address.wrapping_add(from),
            size: to - from,
            before,
            after,
            reads: kind.reads(),
            writes: kind.writes(),
        }
    })
}

//! How single values become bytes and come back.
//!
//! Numbers are little-endian base-128 varints, signed ones in zigzag order; text and byte strings have their length in
//! front; an optional value has a byte 0 or 1 in front. Reading checks every length against what is there and takes no
//! memory of its own.

use crate::checksum::Digest;
use crate::clocks::Clocks;

/// The most bytes that a varint of 64 bits takes.
const LONGEST_VARINT: usize = 10;

/// A place to write to.
pub trait Buffer {
    fn varint(&mut self, value: u64);
    fn raw(&mut self, bytes: &[u8]);
}

/// A value with a place on the wire.
pub trait Wire<'a>: Sized {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>);
    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed>;
}

/// The bytes are not what they should be: too short, too long, or out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// A buffer with the clocks that clocks are stored relative to.
pub struct Output<'c, B> {
    pub buffer: B,
    clocks: &'c Clocks,
}

impl<'c, B: Buffer> Output<'c, B> {
    pub fn new(buffer: B, clocks: &'c Clocks) -> Self {
        Output { buffer, clocks }
    }

    pub fn clock(&mut self, thread: u32, clock: u64) {
        let difference = clock.wrapping_sub(self.clocks.base(thread));
        self.buffer.varint(zigzag(difference as i64));
    }
}

/// Writes into a slice. What does not fit is dropped, and [`Room::used`] then has no answer.
pub struct Room<'b> {
    bytes: &'b mut [u8],
    at: usize,
    overflowed: bool,
}

impl<'b> Room<'b> {
    pub fn new(bytes: &'b mut [u8]) -> Room<'b> {
        Room { bytes, at: 0, overflowed: false }
    }

    /// How many bytes were written, if all fitted.
    pub fn used(&self) -> Option<usize> {
        (!self.overflowed).then_some(self.at)
    }
}

impl Buffer for Room<'_> {
    /// Asks for room for the longest varint, so that the loop needs no checks: a few bytes at the end stay unused.
    #[inline]
    fn varint(&mut self, value: u64) {
        let Some(place) = self.bytes.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut::<LONGEST_VARINT>())
        else {
            self.overflowed = true;
            return;
        };
        self.at += put_varint(place, value);
    }

    #[inline]
    fn raw(&mut self, bytes: &[u8]) {
        let Some(place) = self.bytes.get_mut(self.at..).and_then(|rest| rest.get_mut(..bytes.len())) else {
            self.overflowed = true;
            return;
        };
        place.copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

impl Buffer for &mut Vec<u8> {
    fn varint(&mut self, value: u64) {
        let mut place = [0; LONGEST_VARINT];
        let length = put_varint(&mut place, value);
        self.extend_from_slice(&place[..length]);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[inline]
fn put_varint(place: &mut [u8; LONGEST_VARINT], mut value: u64) -> usize {
    let mut length = 0;
    while value >= 0x80 && length < LONGEST_VARINT - 1 {
        place[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    place[length] = value as u8;
    length + 1
}

/// Bytes to read from, with the clocks that clocks are stored relative to.
pub struct Input<'a, 'c> {
    rest: &'a [u8],
    clocks: &'c Clocks,
}

/// For values without clocks.
pub static NO_CLOCKS: Clocks = Clocks::new();

impl<'a, 'c> Input<'a, 'c> {
    pub fn new(rest: &'a [u8], clocks: &'c Clocks) -> Self {
        Input { rest, clocks }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().enumerate().take(LONGEST_VARINT) {
            let bits = u64::from(byte & 0x7f);
            if index == LONGEST_VARINT - 1 && byte > 1 {
                return Err(Malformed);
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    pub fn clock(&mut self, thread: u32) -> Result<u64, Malformed> {
        let difference = unzigzag(self.varint()?);
        Ok(self.clocks.base(thread).wrapping_add(difference as u64))
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed)
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl<'a> Wire<'a> for u64 {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.varint(*self);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        input.varint()
    }
}

impl<'a> Wire<'a> for i64 {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.varint(zigzag(*self));
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        input.varint().map(unzigzag)
    }
}

impl<'a> Wire<'a> for u32 {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        u64::from(*self).put(out);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        u32::try_from(u64::take(input)?).map_err(|_| Malformed)
    }
}

impl<'a> Wire<'a> for i32 {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        i64::from(*self).put(out);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        i32::try_from(i64::take(input)?).map_err(|_| Malformed)
    }
}

impl<'a> Wire<'a> for u8 {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.raw(&[*self]);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        Ok(input.raw(1)?[0])
    }
}

impl<'a> Wire<'a> for Digest {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.raw(&self.0.to_le_bytes());
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        let bytes = input.raw(8)?.try_into().map_err(|_| Malformed)?;
        Ok(Digest(u64::from_le_bytes(bytes)))
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.varint(self.len() as u64);
        out.buffer.raw(self);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        let length = input.length()?;
        input.raw(length)
    }
}

impl<'a> Wire<'a> for &'a str {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        self.as_bytes().put(out);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        std::str::from_utf8(Wire::take(input)?).map_err(|_| Malformed)
    }
}

impl<'a, const N: usize> Wire<'a> for &'a [u8; N] {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.raw(&self[..]);
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        input.raw(N)?.try_into().map_err(|_| Malformed)
    }
}

impl<'a> Wire<'a> for [u64; 6] {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        let mut values = [0; 6];
        for value in &mut values {
            *value = input.varint()?;
        }
        Ok(values)
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        u8::from(self.is_some()).put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        match u8::take(input)? {
            0 => Ok(None),
            1 => T::take(input).map(Some),
            _ => Err(Malformed),
        }
    }
}

/// Makes a structure wire its fields in the given order. `clock since thread` stores a clock relative to the thread's last;
/// `field if any` may be missing at the end of an event, which an older version has written.
macro_rules! wire_fields {
    ($lifetime:lifetime, $type:ty { $($field:ident $(since $thread:ident)? $(if $any:ident)?),* $(,)? }) => {
        impl<$lifetime> $crate::wire::Wire<$lifetime> for $type {
            #[inline]
            fn put<B: $crate::wire::Buffer>(&self, out: &mut $crate::wire::Output<'_, B>) {
                $($crate::wire::wire_fields!(@put out, self.$field $(, self.$thread)?);)*
            }

            fn take(
                input: &mut $crate::wire::Input<$lifetime, '_>,
            ) -> Result<Self, $crate::wire::Malformed> {
                $(let $field = $crate::wire::wire_fields!(@take input $(, $thread)? $(; $any)?);)*
                Ok(Self { $($field),* })
            }
        }
    };
    (@put $out:ident, $value:expr) => { $crate::wire::Wire::put(&$value, $out) };
    (@put $out:ident, $value:expr, $thread:expr) => { $out.clock($thread, $value) };
    (@take $input:ident) => { $crate::wire::Wire::take($input)? };
    (@take $input:ident, $thread:ident) => { $input.clock($thread)? };
    (@take $input:ident; any) => {
        if $input.rest().is_empty() { Default::default() } else { $crate::wire::Wire::take($input)? }
    };
}
pub(crate) use wire_fields;

/// Makes an enumeration wire a byte. Bytes that a newer minor version has added are kept as `Other`.
macro_rules! wire_codes {
    ($type:ident { $($code:literal $name:ident),* $(,)? }) => {
        impl<'a> $crate::wire::Wire<'a> for $type {
            fn put<B: $crate::wire::Buffer>(&self, out: &mut $crate::wire::Output<'_, B>) {
                let code: u8 = match *self {
                    $($type::$name => $code,)*
                    $type::Other(code) => code,
                };
                code.put(out);
            }

            fn take(input: &mut $crate::wire::Input<'a, '_>) -> Result<Self, $crate::wire::Malformed> {
                Ok(match u8::take(input)? {
                    $($code => $type::$name,)*
                    code => $type::Other(code),
                })
            }
        }
    };
}
pub(crate) use wire_codes;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<'a>(value: impl Wire<'a>) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.put(&mut Output::new(&mut bytes, &NO_CLOCKS));
        bytes
    }

    fn read<'a, T: Wire<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
        T::take(&mut Input::new(bytes, &NO_CLOCKS))
    }

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        for (value, length) in [(0, 1), (0x7f, 1), (0x80, 2), (0x3fff, 2), (0x4000, 3), (u64::MAX, 10)] {
            assert_eq!(bytes_of(value).len(), length, "{value:#x}");
            assert_eq!(read(&bytes_of(value)), Ok(value));
        }
        for (value, length) in [(0, 1), (-1, 1), (63, 1), (-64, 1), (64, 2), (i64::MIN, 10), (i64::MAX, 10)] {
            assert_eq!(bytes_of(value).len(), length, "{value}");
            assert_eq!(read(&bytes_of(value)), Ok(value));
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(read::<u64>(&[0xff; 10]), Err(Malformed));
        assert_eq!(read::<u64>(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), Err(Malformed));
        assert_eq!(read::<u64>(&[0x80]), Err(Malformed));
        assert_eq!(read::<u32>(&bytes_of(1_u64 << 32)), Err(Malformed));
        assert_eq!(read::<i32>(&bytes_of(i64::from(i32::MIN) - 1)), Err(Malformed));
        assert_eq!(read::<Option<u8>>(&[2, 1]), Err(Malformed));
    }

    #[test]
    fn claimed_lengths_are_checked_against_what_is_there() {
        assert_eq!(read::<&[u8]>(&[3, 1, 2]), Err(Malformed));
        assert_eq!(read::<&[u8]>(&bytes_of(u64::MAX)), Err(Malformed));
        assert_eq!(read::<&[u8]>(&[2, 1, 2, 3]), Ok(&[1, 2][..]));
        assert_eq!(read::<&str>(&[1, 0xff]), Err(Malformed));
        assert_eq!(read::<&[u8; 4]>(&[1, 2, 3]), Err(Malformed));
    }

    #[test]
    fn a_room_too_small_says_so_and_drops_the_rest() {
        let mut bytes = [0; 16];
        let mut room = Room::new(&mut bytes);
        room.raw(&[1; 6]);
        room.varint(7);
        assert_eq!(room.used(), Some(7));
        room.varint(7);
        assert_eq!(room.used(), None);
        room.raw(&[9]);
        assert_eq!(room.used(), None);
    }
}

//! What must be noted before a call because the call overwrites it.
//!
//! The socket calls use one word for two lengths: of the room going in, of the answer coming out. An answer that did
//! not fit is longer than what was written.

use super::Memory;
use super::survey::{bytes_at, u32_at, u32_in, u64_in};

/// The most messages that one call takes.
const MAX_MESSAGES: u64 = 1024;
pub(super) const MESSAGE_HEADER_SIZE: u64 = 56;
/// A message header followed by the length of the message.
const MESSAGE_STRIDE: u64 = 64;

/// What a row of the table wants noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// The 32-bit length that this argument points to.
    Length(u8),
    /// The lengths in the message header that argument 1 points to.
    Message,
    /// The same for all the headers at argument 1, of which there are as many as argument 2 says.
    Messages,
}

/// What was noted before a call. Belongs to that call alone.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Prepared {
    #[default]
    Nothing,
    Length(u32),
    Message(Room),
    Messages(Vec<Room>),
}

/// How much room a message header offers for the sender's address and for ancillary data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub(super) name: u32,
    pub(super) control: u64,
}

impl Prepared {
    pub(super) fn new(before: Before, arguments: &[u64; 6], memory: &dyn Memory) -> Prepared {
        match before {
            Before::Nothing => Prepared::Nothing,
            Before::Length(argument) => Prepared::length_at(arguments[usize::from(argument)], memory),
            Before::Message => room_at(arguments[1], memory).map_or(Prepared::Nothing, Prepared::Message),
            Before::Messages => Prepared::messages(arguments[1], arguments[2] as u32, memory),
        }
    }

    fn length_at(address: u64, memory: &dyn Memory) -> Prepared {
        if address == 0 {
            return Prepared::Nothing;
        }
        u32_at(memory, address).map_or(Prepared::Nothing, Prepared::Length)
    }

    fn messages(address: u64, count: u32, memory: &dyn Memory) -> Prepared {
        let headers = (0..MAX_MESSAGES.min(count.into())).map(|index| message_header(address, index));
        Prepared::Messages(headers.map_while(|header| room_at(header, memory)).collect())
    }

    pub(super) fn length(&self) -> Option<u32> {
        match self {
            Prepared::Length(length) => Some(*length),
            Prepared::Nothing | Prepared::Message(_) | Prepared::Messages(_) => None,
        }
    }

    /// The room in the message header with this index.
    pub(super) fn room(&self, index: usize) -> Option<Room> {
        match self {
            Prepared::Message(room) => Some(*room),
            Prepared::Messages(rooms) => rooms.get(index).copied(),
            Prepared::Nothing | Prepared::Length(_) => None,
        }
    }
}

/// Where in the array at `address` the header with this index lies.
pub(super) fn message_header(address: u64, index: u64) -> u64 {
    address.wrapping_add(index * MESSAGE_STRIDE)
}

fn room_at(header: u64, memory: &dyn Memory) -> Option<Room> {
    let header: [u8; MESSAGE_HEADER_SIZE as usize] = bytes_at(memory, header).ok()?;
    Some(Room { name: u32_in(&header, 8), control: u64_in(&header, 40) })
}

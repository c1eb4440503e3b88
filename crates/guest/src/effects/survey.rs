//! One finished call under examination: its outcome, its arguments, the memory they point to, and who wants the spans.

use super::{Call, Memory, Prepared, Span};

const EPERM: u16 = 1;
const EBADF: u16 = 9;
const EFAULT: u16 = 14;
pub(super) const EINVAL: u16 = 22;
const ENOTTY: u16 = 25;
const ENOSYS: u16 = 38;
pub(super) const EOVERFLOW: u16 = 75;

/// The most vectors that one call takes.
const MAX_VECTORS: u64 = 1024;
const VECTOR_SIZE: usize = 16;
/// How many vectors are fetched at a time.
const VECTOR_BATCH: usize = 16;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    NotKnown,
    /// The memory that says where the answer went cannot be read.
    Unreadable,
}

pub(super) type Answer = Result<(), Gap>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(u64),
    /// EFAULT: anything may have been written before the kernel met the bad address.
    Faulted,
    Failed(u16),
}

impl Outcome {
    pub(super) fn new(result: i64) -> Outcome {
        match result {
            -4095..=-1 if result == -i64::from(EFAULT) => Outcome::Faulted,
            -4095..=-1 => Outcome::Failed(result.unsigned_abs() as u16),
            _ => Outcome::Done(result as u64),
        }
    }
}

pub(super) struct Survey<'a> {
    pub(super) outcome: Outcome,
    pub(super) prepared: &'a Prepared,
    pub(super) memory: &'a dyn Memory,
    call: &'a Call,
    each: &'a mut dyn FnMut(Span),
}

impl<'a> Survey<'a> {
    pub(super) fn new(
        call: &'a Call,
        prepared: &'a Prepared,
        memory: &'a dyn Memory,
        each: &'a mut dyn FnMut(Span),
    ) -> Survey<'a> {
        Survey { outcome: Outcome::new(call.result), prepared, memory, call, each }
    }

    pub(super) fn argument(&self, index: u8) -> u64 {
        self.call.arguments[usize::from(index)]
    }

    /// An argument of which the kernel looks at the lower half alone.
    pub(super) fn int(&self, index: u8) -> u32 {
        self.argument(index) as u32
    }

    /// Reports memory as written. There is nothing at the null pointer: it says that the guest wants no answer.
    pub(super) fn report(&mut self, address: u64, length: u64) {
        report(address, length, self.each);
    }

    /// Whether the call may have written what it writes on success.
    pub(super) fn may_have_written(&self) -> bool {
        !matches!(self.outcome, Outcome::Failed(_))
    }

    /// How much of a room of `capacity` was filled, by a call that returns how much it filled or would have filled.
    pub(super) fn filled(&self, capacity: u64) -> u64 {
        match self.outcome {
            Outcome::Done(result) => result.min(capacity),
            Outcome::Faulted => capacity,
            Outcome::Failed(_) => 0,
        }
    }

    /// Reports a structure of `size` bytes that `argument` points to, unless the call failed.
    pub(super) fn report_structure(&mut self, argument: u8, size: u64) -> Answer {
        if self.may_have_written() {
            self.report(self.argument(argument), size);
        }
        Ok(())
    }

    /// The answer to a command that is not known here. If the kernel does not know it either, it did nothing.
    pub(super) fn strange_command(&self) -> Answer {
        if self.may_have_written() { Err(Gap::NotKnown) } else { Ok(()) }
    }

    /// Whether the kernel turned the call away before it did anything.
    pub(super) fn was_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(EPERM | EBADF | ENOTTY | ENOSYS))
    }

    /// Whether the call wrote nothing that is missed because of `gap`: the kernel turned it away, or could not read
    /// either what cannot be read here.
    pub(super) fn is_harmless(&self, gap: Gap) -> bool {
        self.was_refused() || self.outcome == Outcome::Faulted && gap == Gap::Unreadable
    }

    pub(super) fn u32_at(&self, address: u64) -> Result<u32, Gap> {
        u32_at(self.memory, address)
    }

    pub(super) fn u64_at(&self, address: u64) -> Result<u64, Gap> {
        u64_at(self.memory, address)
    }

    /// Reports the first `limit` bytes of the room that `count` vectors at `address` describe.
    pub(super) fn report_vectors(&mut self, address: u64, count: u64, limit: u64) -> Answer {
        vectors(self.memory, address, count, limit, self.each)
    }
}

pub(super) fn report(address: u64, length: u64, each: &mut dyn FnMut(Span)) {
    let length = length.min(u64::MAX - address);
    if address != 0 && length != 0 {
        each(Span { address, length });
    }
}

pub(super) fn bytes_at<const N: usize>(memory: &dyn Memory, address: u64) -> Result<[u8; N], Gap> {
    let mut bytes = [0; N];
    if memory.read(address, &mut bytes) { Ok(bytes) } else { Err(Gap::Unreadable) }
}

pub(super) fn u32_at(memory: &dyn Memory, address: u64) -> Result<u32, Gap> {
    bytes_at(memory, address).map(u32::from_le_bytes)
}

pub(super) fn u64_at(memory: &dyn Memory, address: u64) -> Result<u64, Gap> {
    bytes_at(memory, address).map(u64::from_le_bytes)
}

/// The little-endian word at `offset` of a structure that has been read.
pub(super) fn u64_in(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[offset + index]))
}

/// The little-endian half word at `offset` of a structure that has been read.
pub(super) fn u32_in(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[offset + index]))
}

/// Hands the first `limit` bytes of what `count` vectors at `address` describe to `each`.
pub(super) fn vectors(memory: &dyn Memory, address: u64, count: u64, limit: u64, each: &mut dyn FnMut(Span)) -> Answer {
    let mut batch = [0; VECTOR_SIZE * VECTOR_BATCH];
    let mut left = limit;
    let mut index = 0;
    let count = count.min(MAX_VECTORS);
    while index < count && left > 0 {
        let n_fetched = (count - index).min(VECTOR_BATCH as u64);
        let fetched = &mut batch[..n_fetched as usize * VECTOR_SIZE];
        if !memory.read(address.wrapping_add(index * VECTOR_SIZE as u64), fetched) {
            return Err(Gap::Unreadable);
        }
        for vector in fetched.chunks_exact(VECTOR_SIZE) {
            let length = u64_in(vector, 8).min(left);
            report(u64_in(vector, 0), length, each);
            left -= length;
        }
        index += n_fetched;
    }
    Ok(())
}

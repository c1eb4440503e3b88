//! Lists inside events: given as a slice when written, and read in place when they come out of a recording.

use std::fmt;
use std::marker::PhantomData;

use crate::wire::{Buffer, Input, Malformed, NO_CLOCKS, Output, Wire};

/// A list of `T`, of a slice or still encoded. Both are iterated in the same way and compare by their items.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Form<'a, T>);

#[derive(Clone, Copy)]
enum Form<'a, T> {
    Slice(&'a [T]),
    /// `bytes` was read once from end to end and holds `count` items.
    Encoded {
        count: usize,
        bytes: &'a [u8],
    },
}

impl<'a, T> List<'a, T> {
    pub const EMPTY: Self = List(Form::Slice(&[]));

    pub fn of(items: &'a [T]) -> Self {
        List(Form::Slice(items))
    }

    pub fn len(&self) -> usize {
        match self.0 {
            Form::Slice(items) => items.len(),
            Form::Encoded { count, .. } => count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Wire<'a> + Copy> List<'a, T> {
    pub fn iter(&self) -> Items<'a, T> {
        match self.0 {
            Form::Slice(items) => Items { slice: items.iter(), left: 0, input: &[], item: PhantomData },
            Form::Encoded { count, bytes } => Items { slice: [].iter(), left: count, input: bytes, item: PhantomData },
        }
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        List::of(items)
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        List::EMPTY
    }
}

impl<'a, T: Wire<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Wire<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Wire<'a> + Copy> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

/// The items of a [`List`], one after the other.
#[derive(Clone)]
pub struct Items<'a, T> {
    slice: std::slice::Iter<'a, T>,
    left: usize,
    input: &'a [u8],
    item: PhantomData<T>,
}

impl<'a, T: Wire<'a> + Copy> Iterator for Items<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some(item) = self.slice.next() {
            return Some(*item);
        }
        self.left = self.left.checked_sub(1)?;
        let mut input = Input::new(self.input, &NO_CLOCKS);
        // Cannot fail: the bytes were read through when the list was made.
        let item = T::take(&mut input).ok()?;
        self.input = input.rest();
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.slice.len() + self.left;
        (left, Some(left))
    }
}

impl<'a, T: Wire<'a> + Copy> ExactSizeIterator for Items<'a, T> {}

impl<'a, T: Wire<'a> + Copy> Wire<'a> for List<'a, T> {
    fn put<B: Buffer>(&self, out: &mut Output<'_, B>) {
        out.buffer.varint(self.len() as u64);
        match self.0 {
            Form::Slice(items) => items.iter().for_each(|item| item.put(out)),
            Form::Encoded { bytes, .. } => out.buffer.raw(bytes),
        }
    }

    /// Reads all items once, so that iterating cannot fail. Every item takes at least a byte: a claimed count beyond the
    /// bytes that are there ends in an error soon.
    fn take(input: &mut Input<'a, '_>) -> Result<Self, Malformed> {
        let count = usize::try_from(input.varint()?).map_err(|_| Malformed)?;
        let start = input.rest();
        if count > start.len() {
            return Err(Malformed);
        }
        for _ in 0..count {
            T::take(input)?;
        }
        let bytes = &start[..start.len() - input.rest().len()];
        Ok(List(Form::Encoded { count, bytes }))
    }
}

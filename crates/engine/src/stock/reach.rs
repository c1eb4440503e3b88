//! The memory that calls may write to while they are being made.

use crate::context::{Context, RAX};
use crate::journal::GuestMemory;
use crate::space::PAGE;
use crate::syscalls;
use guest::effects::{self, Call, Span};
use std::ops::Range;

/// Pages that may be written to at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    Pages(Vec<Range<u64>>),
    /// Nobody knows which.
    Everything,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach::Pages(Vec::new())
    }
}

impl Reach {
    /// Of the call that a thread is about to make.
    pub fn of_call(context: &Context) -> Reach {
        let (number, arguments) = (context.gpr[RAX], syscalls::arguments_of(context));
        let prepared = effects::prepare(number, &arguments, &GuestMemory);
        // A call that fails in this way may have written to all the room that it has.
        let call = Call { number, arguments, result: syscalls::error(libc::EFAULT) };
        let mut pages = Vec::new();
        let known = effects::of(&call, &prepared, &GuestMemory, &mut |span| pages.push(pages_of(span)));
        known.map_or(Reach::Everything, |()| Reach::Pages(pages))
    }

    /// What either of them reaches.
    pub fn and(self, other: &Reach) -> Reach {
        match (self, other) {
            (Reach::Pages(mut pages), Reach::Pages(others)) => {
                pages.extend_from_slice(others);
                Reach::Pages(pages)
            }
            _ => Reach::Everything,
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Reach::Pages(pages) if pages.is_empty())
    }

    pub fn contains(&self, address: u64) -> bool {
        match self {
            Reach::Pages(pages) => pages.iter().any(|range| range.contains(&address)),
            Reach::Everything => true,
        }
    }

    /// The parts of the ranges that are not reached.
    pub fn leave_out_of(&self, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let Reach::Pages(pages) = self else { return Vec::new() };
        pages.iter().fold(ranges, |ranges, hole| {
            let around = |range: Range<u64>| {
                let (before, after) = (range.start..range.end.min(hole.start), range.start.max(hole.end)..range.end);
                [before, after].into_iter().filter(|part| part.start < part.end)
            };
            ranges.into_iter().flat_map(around).collect()
        })
    }
}

fn pages_of(span: Span) -> Range<u64> {
    let end = span.address.saturating_add(span.length);
    span.address & !(PAGE - 1)..end.checked_next_multiple_of(PAGE).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reached_is_left_out() {
        let reach = Reach::Pages(vec![0x3000..0x4000, 0x8000..0xb000]);
        assert_eq!(
            reach.leave_out_of(vec![0x1000..0x6000, 0x9000..0xa000, 0xa000..0xc000]),
            [0x1000..0x3000, 0x4000..0x6000, 0xb000..0xc000,]
        );
        assert!(reach.contains(0x3fff) && !reach.contains(0x4000));
        let all = [0x1000..0x2000, 0x4000..0x6000];
        assert_eq!(Reach::default().leave_out_of(all.to_vec()), all);
    }

    #[test]
    fn everything_is_more_than_some_pages() {
        let pages = vec![0x1000..0x2000, 0x4000..0x6000];
        let some = Reach::Pages(pages.clone());
        assert_eq!(some.clone().and(&Reach::Everything), Reach::Everything);
        assert_eq!(Reach::default().and(&some), some);
        assert!(Reach::Everything.leave_out_of(pages).is_empty());
        assert!(Reach::default().is_empty() && !some.is_empty());
    }

    #[test]
    fn spans_become_whole_pages() {
        assert_eq!(pages_of(Span { address: 0x1ffc, length: 8 }), 0x1000..0x3000);
    }
}

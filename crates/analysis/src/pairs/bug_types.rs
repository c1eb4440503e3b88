//! Which of the fifteen types of LOCON's table 1 pairs have: three of order violations, four of atomicity violations of one
//! variable, eight of those of two.

use super::collected::Occurrence;
use super::runs::PairKey;
use super::{Deed, End};

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BugType(pub u8);

impl BugType {
    /// A pair by itself.
    pub fn of_pair(pair: PairKey) -> Option<BugType> {
        match deeds(pair) {
            (Deed::Write, Deed::Read) => Some(BugType(1)),
            (Deed::Read, Deed::Write) => Some(BugType(2)),
            (Deed::Write, Deed::Write) => Some(BugType(3)),
            (Deed::Read, Deed::Read) => None,
        }
    }

    /// Two accesses of a thread with one of another's in between, to one variable.
    pub fn of_triple(before: End, between: End, after: End) -> Option<BugType> {
        match (before.deed, between.deed, after.deed) {
            (Deed::Write, Deed::Write, Deed::Read) => Some(BugType(4)),
            (Deed::Read, Deed::Write, Deed::Write) => Some(BugType(5)),
            (Deed::Read, Deed::Write, Deed::Read) => Some(BugType(6)),
            (Deed::Write, Deed::Read, Deed::Write) => Some(BugType(7)),
            _ => None,
        }
    }

    /// Two pairs of two variables, one from a thread to another and one back.
    pub fn of_couple(one: (PairKey, &Occurrence), other: (PairKey, &Occurrence)) -> Option<BugType> {
        let (first, second) = if one.1.head.order <= other.1.head.order { (one, other) } else { (other, one) };
        // In the other thread, the first pair ends before the second starts, or crosses it.
        let is_in_order = first.1.tail.order <= second.1.head.order;
        let row = |in_order, crossed| Some(BugType(if is_in_order { in_order } else { crossed }));
        const READ_WRITE: (Deed, Deed) = (Deed::Read, Deed::Write);
        const WRITE_READ: (Deed, Deed) = (Deed::Write, Deed::Read);
        const WRITE_WRITE: (Deed, Deed) = (Deed::Write, Deed::Write);
        match (deeds(first.0), deeds(second.0)) {
            (READ_WRITE, READ_WRITE) => row(8, 9),
            (WRITE_READ, WRITE_READ) => Some(BugType(8)),
            (WRITE_READ, READ_WRITE) | (READ_WRITE, WRITE_READ) => row(10, 13),
            (WRITE_WRITE, READ_WRITE) | (READ_WRITE, WRITE_WRITE) => row(11, 14),
            (WRITE_WRITE, WRITE_READ) | (WRITE_READ, WRITE_WRITE) => Some(BugType(11)),
            (WRITE_WRITE, WRITE_WRITE) => row(12, 15),
            _ => None,
        }
    }

    pub fn is_order_violation(self) -> bool {
        self.0 <= 3
    }

    /// What the table says of the row.
    pub fn description(self) -> &'static str {
        match self.0 {
            1 => "a value is read that was written too early",
            2 => "a value is read before it is written",
            3 => "a write is covered by one that should have come before it",
            4 => "a thread's write is covered by another's before it is read",
            5 => "a write of another thread is covered, since it was not read",
            6 => "two reads that belong together see different values",
            7 => "a value is read that was not to be seen by others",
            _ => "two variables that belong together are accessed apart",
        }
    }
}

fn deeds(pair: PairKey) -> (Deed, Deed) {
    (pair.head.deed, pair.tail.deed)
}

//! The two methods that the ConMem paper compares itself with, on the same order and lock sets.
//!
//! - *Race*: two accesses, one of them a write, that no synchronisation orders and that share no lock.
//! - *Atom*: an access that another thread's could come right before, so that no serial order of this access and the
//!   thread's own one before explains what they see.
//!
//! Both tell what could be another way round, harmful or not, and so are not tried out. Only the last access of each thread
//! to a location is remembered.

use super::deeds::{Happening, excludes_any};
use super::found::{Collected, Kind, Suspicion};
use super::locations::{Location, Touch};
use super::order::Order;
use serde::{Deserialize, Serialize};

/// How predictions are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// By what would be fatal.
    #[default]
    Fatal,
    Race,
    Atom,
}

/// An access, what it is to, and who keeps what is found.
pub struct Comparison<'a> {
    pub location: &'a Location,
    pub size: u64,
    pub access: &'a Happening,
    pub writes: bool,
    pub order: &'a Order,
    pub collected: &'a mut Collected,
}

impl Comparison<'_> {
    pub fn by(&mut self, method: Method) {
        let location = self.location;
        let is_open = |touch: &&Touch| !self.order.is_before(&touch.last, self.access.slot);
        let others: Vec<&Touch> = location.others(self.access.thread).filter(is_open).collect();
        for other in others {
            match method {
                Method::Fatal => {}
                Method::Race => self.race(other),
                Method::Atom => self.atomicity(other),
            }
        }
    }

    fn race(&mut self, other: &Touch) {
        if (self.writes || other.last_wrote) && !excludes_any(other.last.locks(), self.access.locks()) {
            self.add(Kind::Race, &other.last, self.access);
        }
    }

    fn atomicity(&mut self, other: &Touch) {
        let own = self.location.own(self.access.thread);
        let breaks_own = own.is_some_and(|own| cannot_be_serial(own.last_wrote, other.last_wrote, self.writes));
        if breaks_own && !self.access.is_shielded_from(&other.last) {
            self.add(Kind::Atomicity, &other.last, self.access);
        }
        let earlier = other.earlier_wrote;
        let breaks_other = earlier.is_some_and(|earlier| cannot_be_serial(earlier, self.writes, other.last_wrote));
        if breaks_other && !other.last.is_shielded_from(self.access) {
            self.add(Kind::Atomicity, self.access, &other.last);
        }
    }

    fn add(&mut self, kind: Kind, early: &Happening, late: &Happening) {
        let (address, size) = (self.location.address, self.size);
        self.collected.add(&Suspicion { kind, address, size, block: None, early, late, renewal: None });
    }
}

/// Whether two accesses of one thread, with another thread's in between, are as in no serial order. Each either writes or
/// reads.
fn cannot_be_serial(first: bool, foreign: bool, second: bool) -> bool {
    if foreign { !second || !first } else { first && second }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_orders_are_not_serial() {
        let (read, write) = (false, true);
        let broken = [(read, write, read), (write, write, read), (write, read, write), (read, write, write)];
        for (first, foreign, second) in broken {
            assert!(cannot_be_serial(first, foreign, second));
        }
        let serial = [(read, read, read), (read, read, write), (write, read, read), (write, write, write)];
        for (first, foreign, second) in serial {
            assert!(!cannot_be_serial(first, foreign, second));
        }
    }
}

//! Pairs of two threads as if there were no others.
//!
//! Where many threads update a variable in turn, a thread's access is next to that of whoever was last, and what two threads
//! do to each other shows in few runs. Here each thread's last accesses are kept, so that every two threads have their own pairs.

use super::Deed;
use super::last::Past;
use trace::stream::Thread;

/// The last accesses of one thread. The orders of those that never came are 0.
#[derive(Clone, Copy, Debug)]
struct Own {
    thread: Thread,
    read: Option<Past>,
    write: Option<Past>,
}

impl Own {
    fn read_order(&self) -> u64 {
        self.read.map_or(0, |read| read.order())
    }

    fn write_order(&self) -> u64 {
        self.write.map_or(0, |write| write.order())
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct TwoByTwo {
    threads: Vec<Own>,
}

impl TwoByTwo {
    /// The place of a thread's own accesses.
    fn place(&mut self, thread: Thread) -> usize {
        let place = self.threads.iter().position(|own| own.thread == thread);
        place.unwrap_or_else(|| {
            self.threads.push(Own { thread, read: None, write: None });
            self.threads.len() - 1
        })
    }

    fn others(&self, thread: Thread) -> impl Iterator<Item = &Own> {
        self.threads.iter().filter(move |own| own.thread != thread)
    }
}

impl TwoByTwo {
    pub fn read(&mut self, past: Past, mut pair: impl FnMut(Past, Deed)) {
        let place = self.place(past.thread);
        let own = self.threads[place];
        let last = own.read_order().max(own.write_order());
        for write in self.others(past.thread).filter_map(|other| other.write).filter(|write| write.order() > last) {
            pair(write, Deed::Write);
        }
        self.threads[place].read = Some(past);
    }

    pub fn write(&mut self, past: Past, mut pair: impl FnMut(Past, Deed)) {
        let place = self.place(past.thread);
        let own = self.threads[place];
        for other in self.others(past.thread) {
            let covered = own.write_order().max(other.write_order());
            match (other.read.filter(|read| read.order() > covered), other.write) {
                (Some(read), _) => pair(read, Deed::Read),
                (None, Some(write)) if write.order() > own.write_order().max(own.read_order()) => {
                    pair(write, Deed::Write);
                }
                (None, _) => {}
            }
        }
        self.threads[place].write = Some(past);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::Stamp;
    use super::*;

    /// The orders of heads and tails of what threads do, counted from one.
    fn pairs(accesses: &[(Thread, Deed)]) -> Vec<(u64, u64)> {
        let (mut history, mut pairs) = (TwoByTwo::default(), Vec::new());
        for (&(thread, deed), order) in accesses.iter().zip(1..) {
            let past = Past { thread, stamp: Stamp::new(1, order) };
            let pair = |head: Past, _| pairs.push((head.order(), order));
            match deed {
                Deed::Read => history.read(past, pair),
                Deed::Write => history.write(past, pair),
            }
        }
        pairs
    }

    #[test]
    fn a_third_thread_does_not_stand_between_two() {
        use Deed::{Read, Write};
        assert_eq!(pairs(&[(1, Read), (2, Write), (3, Write)]), [(1, 2), (1, 3), (2, 3)]);
        assert_eq!(pairs(&[(1, Write), (2, Write), (3, Read)]), [(1, 2), (1, 3), (2, 3)]);
    }

    #[test]
    fn of_two_threads_the_nearest_accesses_are_paired() {
        use Deed::{Read, Write};
        assert_eq!(pairs(&[(1, Write), (2, Read), (2, Read)]), [(1, 2)]);
        assert_eq!(pairs(&[(1, Write), (1, Read), (2, Write)]), [(2, 3)]);
        assert_eq!(pairs(&[(1, Write), (2, Read), (2, Write)]), [(1, 2)]);
        assert_eq!(pairs(&[(1, Read), (2, Read), (1, Write), (1, Write)]), [(2, 3)]);
    }
}

//! The last clock of each thread, so that clocks are stored as differences.
//!
//! Writer and reader keep equal tables: both start empty at each chunk and note the same events. The table has a fixed
//! size so that writing needs no memory: threads whose numbers share a place displace each other, which costs a few bytes
//! and nothing else.

const PLACES: usize = 64;

#[derive(Clone)]
pub struct Clocks([(u32, u64); PLACES]);

impl Clocks {
    pub const fn new() -> Clocks {
        Clocks([(0, 0); PLACES])
    }

    pub fn reset(&mut self) {
        self.0.fill((0, 0));
    }

    /// What a clock of `thread` is stored relative to.
    pub fn base(&self, thread: u32) -> u64 {
        let (holder, clock) = self.0[thread as usize % PLACES];
        if holder == thread { clock } else { 0 }
    }

    /// Notes what an event said, once it is written or read for good.
    pub fn note(&mut self, mark: Option<(u32, u64)>) {
        if let Some((thread, clock)) = mark {
            self.0[thread as usize % PLACES] = (thread, clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_place_displace_each_other() {
        let mut clocks = Clocks::new();
        assert_eq!(clocks.base(3), 0);
        clocks.note(Some((3, 100)));
        clocks.note(Some((4, 7)));
        assert_eq!((clocks.base(3), clocks.base(4)), (100, 7));
        clocks.note(Some((3 + PLACES as u32, 5)));
        assert_eq!((clocks.base(3), clocks.base(4)), (0, 7));
        clocks.reset();
        assert_eq!(clocks.base(4), 0);
    }
}

//! What the stamps of accesses stand for: who made them, and when in their thread.

use super::cells::{MOST_WHOS, Stamp};
use super::collected::Moment;
use rustc_hash::FxHashMap;
use trace::stream::Thread;

/// The position of accesses whose iterations nobody asked for.
pub(super) const UNPLACED: u32 = u32::MAX;

/// A thread with one of its instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Who {
    pub thread: Thread,
    /// That of its instruction.
    pub number: u32,
    /// In which iterations the thread was, if that is wanted.
    pub position: u32,
}

/// Everybody who has made accesses, by numbers from 1.
pub(super) struct Whos {
    whos: Vec<Who>,
    threads: Vec<Thread>,
    /// By thread and instruction, of those without a position; zero for nobody.
    numbers: Vec<Vec<u32>>,
    placed: FxHashMap<Who, u32>,
}

impl Default for Whos {
    fn default() -> Whos {
        let nobody = Who { thread: 0, number: 0, position: UNPLACED };
        Whos { whos: vec![nobody], threads: vec![0], numbers: Vec::new(), placed: FxHashMap::default() }
    }
}

impl Whos {
    #[inline]
    pub fn number(&mut self, who: Who) -> u32 {
        let own = self.numbers.get(who.thread as usize);
        match own.and_then(|own| own.get(who.number as usize)).filter(|_| who.position == UNPLACED) {
            Some(number) if *number != 0 => *number,
            _ => self.add(who),
        }
    }

    #[cold]
    fn add(&mut self, who: Who) -> u32 {
        assert!(self.whos.len() < MOST_WHOS, "a run has too many threads and instructions to tell apart");
        let fresh = self.whos.len() as u32;
        let number = if who.position == UNPLACED {
            let (thread, number) = (who.thread as usize, who.number as usize);
            self.numbers.resize(self.numbers.len().max(thread + 1), Vec::new());
            let own = &mut self.numbers[thread];
            own.resize(own.len().max(number + 1), 0);
            own[number] = fresh;
            fresh
        } else {
            *self.placed.entry(who).or_insert(fresh)
        };
        if number == fresh {
            self.whos.push(who);
            self.threads.push(who.thread);
        }
        number
    }

    pub fn of(&self, stamp: Stamp) -> Who {
        self.whos[stamp.who() as usize]
    }

    /// The threads of all, by number.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }
}

/// Accesses of one thread that nobody else's stand between.
struct Turn {
    /// How many accesses of all threads were before.
    from: u64,
    /// How many of its own.
    ordinal: u64,
}

/// When threads made their accesses.
#[derive(Default)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    /// Of each thread that is not running.
    ordinals: FxHashMap<Thread, u64>,
    running: Thread,
    start: Stamp,
    order: u64,
}

impl Turns {
    /// Accesses of all threads so far.
    pub fn order(&self) -> u64 {
        self.order
    }

    /// What comes before all accesses of the turn that is going on.
    #[inline]
    pub fn start(&self) -> Stamp {
        self.start
    }

    /// Counts accesses of a thread.
    #[inline]
    pub fn count(&mut self, thread: Thread, accesses: u64) {
        if self.running != thread {
            self.change(thread);
        }
        self.order += accesses;
    }

    #[cold]
    fn change(&mut self, thread: Thread) {
        if let Some(turn) = self.turns.last() {
            self.ordinals.insert(self.running, turn.ordinal + (self.order - turn.from));
        }
        let ordinal = self.ordinals.get(&thread).copied().unwrap_or(0);
        self.turns.push(Turn { from: self.order, ordinal });
        self.running = thread;
        self.start = Stamp::after(self.order);
    }

    pub fn moment(&self, thread: Thread, order: u64) -> Moment {
        let place = self.turns.partition_point(|turn| turn.from < order);
        let turn = place.checked_sub(1).map(|place| &self.turns[place]);
        let ordinal = turn.map_or(0, |turn| turn.ordinal + (order - turn.from));
        Moment { thread, ordinal, order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_become_moments_of_threads() {
        let mut turns = Turns::default();
        for (thread, accesses) in [(1, 3), (2, 2), (1, 1), (2, 5)] {
            turns.count(thread, accesses);
        }
        let ordinals: Vec<u64> =
            [(1, 1), (1, 3), (2, 4), (1, 6), (2, 7), (2, 11)].map(|(who, at)| turns.moment(who, at).ordinal).into();
        assert_eq!(ordinals, [1, 3, 1, 4, 3, 7]);
        assert_eq!(turns.order(), 11);
    }

    #[test]
    fn everybody_has_one_number() {
        let mut whos = Whos::default();
        let who = |thread, number, position| Who { thread, number, position };
        let several = [who(1, 0, UNPLACED), who(2, 0, UNPLACED), who(1, 7, UNPLACED), who(1, 0, 3)];
        let numbers = several.map(|one| whos.number(one));
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(several.map(|one| whos.number(one)), numbers);
        assert_eq!(numbers.map(|number| whos.of(Stamp::new(number, 5))), several);
        assert_eq!(whos.threads(), [0, 1, 2, 1, 1]);
    }
}

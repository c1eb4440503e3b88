//! Which event of one thread another thread's event comes after: releases and acquisitions, ends and joins, and the
//! beginning of threads.
//!
//! May be too simple: an acquisition comes after the last release of another thread only, though a barrier waits for all.

use crate::study::lines::{Line, What};
use std::collections::BTreeMap;

/// Inside the slice of an event.
const WITHIN: u64 = 100;
/// Inside the slice that marks the start of a thread.
const WITHIN_START: u64 = 220;

/// A place on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub thread: u32,
    /// In nanoseconds.
    pub at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    pub number: u64,
    pub name: &'static str,
    pub from: End,
    pub to: End,
}

#[derive(Default)]
pub struct Arrows {
    count: u64,
    /// The last release of each object.
    released: BTreeMap<u64, End>,
    /// Ends of threads.
    ended: BTreeMap<u32, End>,
}

impl Arrows {
    /// The arrows that lead to an event at this time, or from the making of a thread to its start.
    pub fn hear(&mut self, line: &Line, at: u64) -> Option<Arrow> {
        let here = End { thread: line.thread, at: at.saturating_add(WITHIN) };
        match line.what {
            What::Unlock { object, .. } | What::Release { object, .. } => {
                self.released.insert(object, here);
                None
            }
            What::Lock { object, .. } => self.after_release(object, "unlock to lock", here),
            What::Acquire { object, .. } => self.after_release(object, "release to acquire", here),
            What::Forget { object } => {
                self.released.remove(&object);
                None
            }
            What::End => {
                self.ended.insert(line.thread, here);
                None
            }
            What::Join { other } => {
                let from = *self.ended.get(&other)?;
                Some(self.arrow("end to join", from, here))
            }
            What::Create { child } => {
                let to = End { thread: child, at: at.saturating_add(WITHIN_START) };
                Some(self.arrow("create to start", here, to))
            }
            _ => None,
        }
    }

    fn after_release(&mut self, object: u64, name: &'static str, to: End) -> Option<Arrow> {
        let from = *self.released.get(&object).filter(|from| from.thread != to.thread)?;
        Some(self.arrow(name, from, to))
    }

    fn arrow(&mut self, name: &'static str, from: End, to: End) -> Arrow {
        self.count += 1;
        Arrow { number: self.count, name, from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(thread: u32, what: What) -> Line {
        Line { ordinal: 1, event: 1, inherited: false, thread, block: None, frame: None, what }
    }

    #[test]
    fn arrows_lead_from_the_last_release_of_another_thread() {
        let mut arrows = Arrows::default();
        let lock = |thread| line(thread, What::Lock { object: 8, is_shared: false, site: 0 });
        let unlock = |thread| line(thread, What::Unlock { object: 8, site: 0 });
        assert_eq!(arrows.hear(&lock(1), 1000), None);
        assert_eq!(arrows.hear(&unlock(1), 2000), None);
        assert_eq!(arrows.hear(&lock(1), 3000), None);
        assert_eq!(arrows.hear(&unlock(1), 4000), None);
        let arrow = arrows.hear(&lock(2), 5000).expect("an arrow");
        assert_eq!((arrow.from, arrow.to), (End { thread: 1, at: 4100 }, End { thread: 2, at: 5100 }));
        assert_eq!(arrows.hear(&line(2, What::Forget { object: 8 }), 6000), None);
        assert_eq!(arrows.hear(&lock(1), 7000), None);
    }

    #[test]
    fn threads_begin_and_end() {
        let mut arrows = Arrows::default();
        let start = arrows.hear(&line(1, What::Create { child: 2 }), 1000).expect("an arrow");
        assert_eq!((start.name, start.to.thread, start.number), ("create to start", 2, 1));
        assert_eq!(arrows.hear(&line(1, What::Join { other: 2 }), 2000), None);
        arrows.hear(&line(2, What::End), 3000);
        let join = arrows.hear(&line(1, What::Join { other: 2 }), 4000).expect("an arrow");
        assert_eq!((join.from.thread, join.to.thread, join.number), (2, 1, 2));
    }
}

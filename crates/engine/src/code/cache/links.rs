//! Which jumps lead to which translations. When there is a new translation, they are led there: otherwise each one that code is made anew would be one more jump on the
//! way, for as long as the code that jumps is not made anew as well.

use rustc_hash::FxHashMap;

/// A jump that is written over the beginning of a translation has so many bytes.
const JUMP: u64 = 5;

#[derive(Default)]
pub struct Links {
    /// Where the displacements of jumps are, by the guest's address that they lead to.
    to: FxHashMap<u64, Vec<u64>>,
    /// Beginnings that a jump to another translation of the same code was written over.
    overwritten: FxHashMap<u64, u64>,
}

impl Links {
    /// The jump whose displacement is at `at` leads to the translation of `target`.
    pub fn add(&mut self, at: u64, target: u64) {
        self.to.entry(target).or_default().push(at);
    }

    /// What was there at `host`, where a translation of `pc` began, is now a jump to another one.
    pub fn overwrite(&mut self, host: u64, pc: u64) {
        self.overwritten.insert(host, pc);
        self.add(host + 1, pc);
    }

    /// The displacements of all jumps to `target`.
    pub fn to(&mut self, target: u64) -> &[u64] {
        let Links { to, overwritten } = self;
        let Some(links) = to.get_mut(&target) else { return &[] };
        links.sort_unstable();
        links.dedup();
        // What was written over is no longer the jump that it was.
        let is_gone = |at: u64| {
            let jump = (at + 1 - JUMP..=at).find_map(|host| overwritten.get(&host).map(|pc| (host, *pc)));
            jump.is_some_and(|jump| jump != (at - 1, target))
        };
        links.retain(|at| !is_gone(*at));
        links
    }

    pub fn clear(&mut self) {
        self.to.clear();
        self.overwritten.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: u64 = 0x40;
    const OTHER: u64 = 0x80;

    #[test]
    fn jumps_are_known_until_they_are_written_over() {
        let mut links = Links::default();
        for at in [0x1001, 0x2002, 0x1001, 0x3005] {
            links.add(at, LOOP);
        }
        links.add(0x2007, OTHER);
        assert_eq!(links.to(LOOP), [0x1001, 0x2002, 0x3005]);
        // The first and the second jump began a translation of something else, the third comes right behind such a beginning.
        for host in [0x1000, 0x2000, 0x3000] {
            links.overwrite(host, OTHER);
        }
        assert_eq!(links.to(LOOP), [0x3005]);
        assert_eq!(links.to(OTHER), [0x1001, 0x2001, 0x2007, 0x3001]);
        links.overwrite(0x3001 + 3, LOOP);
        assert_eq!(links.to(LOOP), [0x3005], "it is the jump that was written there");
        assert!(links.to(0).is_empty());
    }
}

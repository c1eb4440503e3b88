//! In what order delays try the instructions at shared memory.

use std::collections::{BTreeMap, BTreeSet};

/// So many sites are tried in the first pass of delays.
const FIRST_PASS: u64 = 8;

/// Sites in the order in which delays try them: by turns one of the program's own, which lie above those of its libraries,
/// and one at the memory that threads take from each other most often.
pub fn by_promise(points: &BTreeMap<u64, u64>) -> Vec<u64> {
    let mut contended: Vec<u64> = points.keys().copied().collect();
    contended.sort_by_key(|site| std::cmp::Reverse(points.get(site)));
    let both = points.keys().rev().zip(&contended).flat_map(|(&own, &contended)| [own, contended]);
    let mut seen = BTreeSet::new();
    both.filter(|&site| seen.insert(site)).collect()
}

/// One delay: at which site (its place in the order of promise), how many times it was tried before, and whether threads have
/// priorities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub site: u64,
    pub times: u64,
    pub ranked: bool,
}

/// Delays go through the sites again and again, each time through twice as many of them, so that those of most promise are tried
/// several times before the last is tried at all. In each pass those that were tried come first, under a random walk or under priorities;
/// then the new ones, under both. Nothing if there are no sites.
pub fn attempt(round: u64, sites: u64) -> Option<Attempt> {
    if sites == 0 {
        return None;
    }
    let end = |pass: u32| (FIRST_PASS << pass.min(32)).min(sites);
    let (mut pass, mut known, mut left) = (0, 0, round);
    loop {
        if left < known {
            let times = (0..pass).filter(|&earlier| end(earlier) > left).count() as u64;
            return Some(Attempt { site: left, times, ranked: (left + times) % 2 == 1 });
        }
        left -= known;
        let new = end(pass) - known;
        if left < 2 * new {
            return Some(Attempt { site: known + left / 2, times: 0, ranked: left % 2 == 1 });
        }
        left -= 2 * new;
        known = end(pass);
        pass += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_come_by_turns_from_above_and_by_contention() {
        let points = BTreeMap::from([(10, 1), (20, 9), (30, 2), (40, 1), (50, 5)]);
        assert_eq!(by_promise(&points), [50, 20, 40, 30, 10]);
        assert!(by_promise(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn sites_of_promise_come_again_before_the_last_comes() {
        let first = |site, ranked| Some(Attempt { site, times: 0, ranked });
        let again = |site, times, ranked| Some(Attempt { site, times, ranked });
        assert_eq!(attempt(5, 0), None);
        assert_eq!((attempt(0, 100), attempt(1, 100)), (first(0, false), first(0, true)));
        assert_eq!(attempt(2 * FIRST_PASS, 100), again(0, 1, true));
        assert_eq!(attempt(2 * FIRST_PASS + 1, 100), again(1, 1, false));
        assert_eq!(attempt(3 * FIRST_PASS, 100), first(FIRST_PASS, false));
        assert_eq!(attempt(5 * FIRST_PASS, 100), again(0, 2, false));
        assert_eq!(attempt(6 * FIRST_PASS, 100), again(FIRST_PASS, 1, true));
        assert_eq!(attempt(6, 3), again(0, 1, true));
        assert_eq!(attempt(9, 3), again(0, 2, false));
    }
}

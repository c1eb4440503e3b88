//! Sets of instructions. Granules with the same ones share a set, so a granule needs only its number.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use trace::stream::Site;

/// A set with more members becomes part of the one that holds the rest of its neighbourhood.
const MOST_MEMBERS: usize = 64;
/// All sets together have so many members at most.
const MOST_KEPT: usize = 1 << 22;
/// How many results are remembered of each site, by a few bits of the set's number.
const REMEMBERED: usize = 8;

/// The number of the empty set. Those that hold the rest follow.
const EMPTY: u32 = 0;
/// Neighbourhoods are told apart by so many bits of their numbers.
const N_RESTS: u32 = 1 << 12;

pub struct SiteSets {
    /// By number, sorted; those that hold the rest in the order of arrival.
    sets: Vec<Vec<u32>>,
    numbers: FxHashMap<Vec<u32>, u32>,
    n_kept: usize,
    larger: FxHashMap<(u32, u32), u32>,
    /// For each site the sets that it was added to of late, and the results.
    latest: Vec<[(u32, u32); REMEMBERED]>,
    wanted: BTreeSet<u32>,
}

impl Default for SiteSets {
    fn default() -> SiteSets {
        SiteSets {
            sets: vec![Vec::new(); 1 + N_RESTS as usize],
            numbers: FxHashMap::default(),
            n_kept: 0,
            larger: FxHashMap::default(),
            latest: Vec::new(),
            wanted: BTreeSet::new(),
        }
    }
}

impl SiteSets {
    /// A site that may be added from now on.
    pub fn name(&mut self, site: Site) {
        let length = self.latest.len().max(site.0 as usize + 1);
        self.latest.resize(length, [(u32::MAX, EMPTY); REMEMBERED]);
    }

    /// The set with one more member, which has been named. The neighbourhood counts if the set grows too large.
    #[inline]
    pub fn with(&mut self, set: u32, site: u32, neighbourhood: u64) -> u32 {
        let (before, after) = self.latest[site as usize][set as usize % REMEMBERED];
        if before == set { after } else { self.look_up(set, site, neighbourhood) }
    }

    fn look_up(&mut self, set: u32, site: u32, neighbourhood: u64) -> u32 {
        let after = match self.larger.get(&(set, site)) {
            Some(after) => *after,
            None => match self.add(set, site) {
                Some(after) => {
                    self.larger.insert((set, site), after);
                    after
                }
                None => return self.join_rest(set, site, neighbourhood),
            },
        };
        self.latest[site as usize][set as usize % REMEMBERED] = (set, after);
        after
    }

    /// None if the result would be too large.
    fn add(&mut self, set: u32, site: u32) -> Option<u32> {
        if is_rest(set) {
            self.sets[set as usize].push(site);
            return Some(set);
        }
        let members = &self.sets[set as usize];
        let Err(place) = members.binary_search(&site) else { return Some(set) };
        let mut larger = members.clone();
        larger.insert(place, site);
        if let Some(known) = self.numbers.get(&larger) {
            return Some(*known);
        }
        if larger.len() > MOST_MEMBERS || self.n_kept > MOST_KEPT {
            return None;
        }
        self.n_kept += larger.len();
        let number = self.sets.len() as u32;
        self.numbers.insert(larger.clone(), number);
        self.sets.push(larger);
        Some(number)
    }

    fn join_rest(&mut self, set: u32, site: u32, neighbourhood: u64) -> u32 {
        let rest = 1 + (neighbourhood % u64::from(N_RESTS)) as u32;
        let members = self.sets[set as usize].clone();
        for member in members.into_iter().chain([site]) {
            self.with(rest, member, neighbourhood);
        }
        rest
    }

    pub fn want(&mut self, set: u32) {
        self.wanted.insert(set);
    }

    /// The members of all wanted sets.
    pub fn wanted(&self) -> impl Iterator<Item = u32> {
        self.wanted.iter().flat_map(|set| &self.sets[*set as usize]).copied()
    }
}

fn is_rest(set: u32) -> bool {
    (1..=N_RESTS).contains(&set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(n_sites: u32) -> SiteSets {
        let mut sets = SiteSets::default();
        (0..n_sites).for_each(|site| sets.name(Site(site)));
        sets
    }

    #[test]
    fn only_wanted_sets_count() {
        let mut sets = named(4);
        let one = sets.with(EMPTY, 1, 0);
        let both = sets.with(one, 2, 0);
        assert_eq!(sets.with(both, 1, 0), both);
        let other = sets.with(EMPTY, 2, 0);
        assert_eq!(sets.with(other, 1, 0), both, "in whatever order");
        let third = sets.with(EMPTY, 3, 0);
        sets.want(both);
        assert_eq!(sets.wanted().collect::<Vec<_>>(), [1, 2]);
        sets.want(third);
        assert_eq!(sets.wanted().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn large_sets_of_a_neighbourhood_become_one() {
        let n_sites = MOST_MEMBERS as u32 + 10;
        let mut sets = named(n_sites + 1);
        let large = (0..n_sites).fold(EMPTY, |set, site| sets.with(set, site, 7));
        let other = (1..=n_sites).fold(EMPTY, |set, site| sets.with(set, site, 8));
        assert!(is_rest(large) && is_rest(other) && large != other);
        sets.want(large);
        let members: BTreeSet<u32> = sets.wanted().collect();
        assert_eq!(members, (0..n_sites).collect());
    }
}

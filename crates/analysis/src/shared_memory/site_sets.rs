//! Sets of instructions. Granules with the same ones share a set, so a granule needs only its number.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use trace::stream::Site;

/// A set with more members becomes part of the one that holds all the rest.
const MOST_MEMBERS: usize = 128;
/// All sets together have so many members at most.
const MOST_KEPT: usize = 1 << 22;

/// How many results are remembered of each site, by a few bits of the set's number.
const REMEMBERED: usize = 8;

/// The number of the empty set, and of the one that holds the rest.
const EMPTY: u32 = 0;
const REST: u32 = 1;

pub struct SiteSets {
    /// By number, sorted.
    sets: Vec<Vec<u32>>,
    n_kept: usize,
    rest: BTreeSet<u32>,
    larger: FxHashMap<(u32, u32), u32>,
    /// For each site the sets that it was added to of late, and the results.
    latest: Vec<[(u32, u32); REMEMBERED]>,
    wanted: BTreeSet<u32>,
}

impl Default for SiteSets {
    fn default() -> SiteSets {
        SiteSets {
            sets: vec![Vec::new(); 2],
            n_kept: 0,
            rest: BTreeSet::new(),
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

    /// The set with one more member, which has been named.
    #[inline]
    pub fn with(&mut self, set: u32, site: u32) -> u32 {
        let (before, after) = self.latest[site as usize][set as usize % REMEMBERED];
        if before == set { after } else { self.look_up(set, site) }
    }

    fn look_up(&mut self, set: u32, site: u32) -> u32 {
        let after = match self.larger.get(&(set, site)) {
            Some(after) => *after,
            None => {
                let after = self.add(set, site);
                self.larger.insert((set, site), after);
                after
            }
        };
        self.latest[site as usize][set as usize % REMEMBERED] = (set, after);
        after
    }

    fn add(&mut self, set: u32, site: u32) -> u32 {
        let members = &self.sets[set as usize];
        if set == REST || members.len() == MOST_MEMBERS || self.n_kept > MOST_KEPT {
            self.rest.extend(members.iter().chain([&site]));
            return REST;
        }
        let Err(place) = members.binary_search(&site) else { return set };
        let mut larger = members.clone();
        larger.insert(place, site);
        self.n_kept += larger.len();
        self.sets.push(larger);
        self.sets.len() as u32 - 1
    }

    pub fn want(&mut self, set: u32) {
        self.wanted.insert(set);
    }

    /// The members of all wanted sets.
    pub fn wanted(&self) -> impl Iterator<Item = u32> {
        let rest = self.wanted.contains(&REST).then_some(&self.rest).into_iter().flatten();
        let kept = self.wanted.iter().flat_map(|set| &self.sets[*set as usize]);
        rest.chain(kept).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wanted_sets_count() {
        let mut sets = SiteSets::default();
        (0..4).for_each(|site| sets.name(Site(site)));
        let one = sets.with(EMPTY, 1);
        let both = sets.with(one, 2);
        assert_eq!(sets.with(both, 1), both);
        let other = sets.with(EMPTY, 3);
        sets.want(both);
        assert_eq!(sets.wanted().collect::<Vec<_>>(), [1, 2]);
        sets.want(other);
        assert_eq!(sets.wanted().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn large_sets_become_one() {
        let mut sets = SiteSets::default();
        let n_sites = MOST_MEMBERS as u32 + 10;
        (0..n_sites).for_each(|site| sets.name(Site(site)));
        let large = (0..n_sites).fold(EMPTY, |set, site| sets.with(set, site));
        assert_eq!(large, REST);
        sets.want(large);
        assert_eq!(sets.wanted().count(), n_sites as usize);
    }
}

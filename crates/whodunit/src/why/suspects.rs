//! Which definitions the end of a run is blamed on, the surest first.
//!
//! A store beyond what it was meant for is a memory error, wherever on the way back it stands: the earliest one is the first
//! corruption. Then a block that is given back twice, a read of what an earlier block has left, and in the end
//! whoever made the value that the run failed on.

use super::chain::{Chain, End, Fault, Trail, number, stores};
use super::check::{Check, Checks};
use super::endings;
use super::overruns;
use super::sites::{Area, Sites};
use super::slice::{Reached, Slice};
use session::rerun::{Definition, Origins, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use trace::finding::Class;

/// So many stores are checked, the latest ones, and so many are suppressed at once.
const MOST_CHECKED: usize = 512;
const MOST_SUSPECTS: usize = 64;

/// The ways back from the failure of a run, whose data were followed from the start if `is_whole`.
pub fn trails(outcome: &Outcome, is_whole: bool, checks: &Checks<'_>) -> Vec<Trail> {
    let Some(origins) = &outcome.origins else { return Vec::new() };
    let Some(chain) = Chain::new(origins, is_whole, checks.sites) else { return Vec::new() };
    let fault = endings::fault_of(outcome, checks.sites);
    let suspects = Suspects { slice: Slice::new(origins, checks.sites), origins, checks };
    let roots = roots(fault, outcome, checks.sites);
    let mut trails = suspects.stray_stores(&suspects.slice.reached_inside(&roots, false));
    if trails.is_empty() && matches!(fault, Fault::Abort { .. }) {
        trails = roots.iter().rev().find_map(|branch| suspects.freed_twice(*branch)).into_iter().collect();
    }
    if trails.is_empty() {
        // What decided that the failing statement was reached.
        let branch: Vec<u32> = origins.branches.first().copied().into_iter().collect();
        let roots: Vec<u32> = roots.into_iter().chain(branch).collect();
        trails = suspects.stray_stores(&suspects.slice.reached_inside(&roots, true));
        if trails.is_empty() {
            trails = suspects.stray_stores(&suspects.slice.reached(&roots, true));
        }
    }
    overruns::add(&mut trails, checks);
    if trails.is_empty() {
        trails = chain.trails(fault);
        suspects.blame_unset(&mut trails);
        suspects.blame_never_set(&mut trails);
        suspects.prefer_bound(&mut trails, &chain, is_whole);
        suspects.spare_loader(&mut trails);
        suspects.check_first(&mut trails);
        // Whoever has damaged the heap may have done so long before.
        if matches!(fault, Fault::Abort { .. }) && !is_whole && endings::is_about_heap(outcome) {
            trails.iter_mut().for_each(|trail| trail.is_open = true);
        }
    }
    trails
}

/// What the failing instruction used, or what decided that the run gives up.
pub fn roots(fault: Fault, outcome: &Outcome, sites: &Sites) -> Vec<u32> {
    let failure = outcome.origins.as_ref().and_then(|origins| origins.failure.as_ref());
    match (fault, failure) {
        (Fault::Abort { .. }, _) => endings::deciding_branches(outcome, sites),
        (Fault::Access, Some(failure)) => failure.addresses.clone(),
        (_, Some(failure)) => failure.values.clone(),
        (_, None) => Vec::new(),
    }
}

struct Suspects<'a> {
    slice: Slice<'a>,
    origins: &'a Origins,
    checks: &'a Checks<'a>,
}

impl Suspects<'_> {
    /// Stores among what was reached that wrote to what they were not meant for, the earliest first.
    fn stray_stores(&self, reached: &Reached) -> Vec<Trail> {
        let found = reached.keys().rev().filter_map(|number| self.slice.get(*number));
        let is_own = |found: &&Definition| !self.checks.sites.is_in_loader(number(&found.pc));
        let found = found.filter(|found| stores(found)).filter(is_own);
        let found: Vec<&Definition> = found.take(MOST_CHECKED).collect();
        let mut known = self.checked(&found);
        known.retain(|_, check| check.class.is_some());
        let mut over: BTreeMap<u32, u32> = known.keys().map(|number| (*number, *number)).collect();
        self.add_overwritten(&mut known, &mut over);
        let stray = known.iter().take(MOST_SUSPECTS);
        stray.map(|(number, check)| self.trail(reached, over[number], *number, check.clone())).collect()
    }

    fn checked(&self, found: &[&Definition]) -> BTreeMap<u32, Check> {
        let checks = self.checks.stores(found, &self.slice);
        found.iter().map(|found| found.number).zip(checks).collect()
    }

    /// Adds what stray stores have overwritten, as long as that was stray too; `over` tells by whom.
    fn add_overwritten(&self, known: &mut BTreeMap<u32, Check>, over: &mut BTreeMap<u32, u32>) {
        let mut latest: Vec<u32> = known.keys().copied().collect();
        while !latest.is_empty() {
            let mut below: BTreeMap<u32, (&Definition, u32)> = BTreeMap::new();
            for number in latest.drain(..) {
                let store = self.slice.get(number).and_then(|store| self.slice.overwritten(store));
                if let Some(store) = store.filter(|store| !known.contains_key(&store.number)) {
                    below.insert(store.number, (store, over[&number]));
                }
            }
            let stores: Vec<&Definition> = below.values().map(|(store, _)| *store).collect();
            for (number, check) in self.checked(&stores).into_iter().filter(|(_, check)| check.class.is_some()) {
                over.insert(number, below[&number].1);
                known.insert(number, check);
                latest.push(number);
            }
        }
    }

    fn trail(&self, reached: &Reached, over: u32, store: u32, check: Check) -> Trail {
        let mut path = self.slice.path(reached, over);
        if store != over {
            path.extend(self.slice.get(store).cloned());
        }
        Trail { check, ..Trail::new(path, End::Moved) }
    }

    /// A block that is given back though it has been already: the allocator has compared the pointer with one that it was
    /// given before. Whoever made the second pointer is to blame, or else whoever gave the block back first.
    fn freed_twice(&self, branch: u32) -> Option<Trail> {
        let branch = self.slice.get(branch).filter(|branch| self.is_library(branch))?;
        let compared = branch.values.iter().filter_map(|number| self.slice.get(*number));
        let operands = compared.flat_map(|compared| &compared.values).filter_map(|number| self.slice.get(*number));
        let ways: Vec<Vec<&Definition>> = operands.map(|operand| self.slice.values_behind(operand)).collect();
        let [one, other] = ways.as_slice() else { return None };
        let kept = |way: &[&Definition]| way.iter().position(|step| stores(step) && self.is_library(step));
        let (first, second, kept) = match (kept(one), kept(other)) {
            (Some(position), None) => (one, other, position),
            (None, Some(position)) => (other, one, position),
            (Some(one_kept), Some(other_kept)) if one[one_kept].number < other[other_kept].number => {
                (one, other, one_kept)
            }
            (Some(_), Some(other_kept)) => (other, one, other_kept),
            (None, None) => return None,
        };
        let value = |way: &[&Definition]| way.first().map(|step| step.value.clone());
        let is_block = value(first).is_some_and(|value| self.checks.sites.area(number(&value)) == Area::Heap);
        if value(first) != value(second) || !is_block {
            return None;
        }
        let path = self.origins.failure.iter().chain([branch]).cloned().collect();
        Some(self.second_pointer(path, second, first, kept))
    }

    fn is_library(&self, definition: &Definition) -> bool {
        self.checks.sites.is_in_c_library(number(&definition.pc))
    }

    fn second_pointer(
        &self,
        mut path: Vec<Definition>,
        second: &[&Definition],
        first: &[&Definition],
        kept: usize,
    ) -> Trail {
        let known: BTreeSet<u32> = first.iter().map(|step| step.number).collect();
        let own: Vec<&Definition> = second.iter().copied().take_while(|step| !known.contains(&step.number)).collect();
        let class = |class| Check { class: Some(class), ..Check::default() };
        match own.iter().rposition(|step| stores(step) && !self.is_library(step)) {
            Some(position) => {
                path.extend(own[..=position].iter().map(|step| (*step).clone()));
                Trail { check: class(Class::WrongPointer), ..Trail::new(path, End::Computed) }
            }
            None => {
                path.extend(first[..=kept].iter().map(|step| (*step).clone()));
                let text = Some("where the allocator keeps blocks that were given back".to_owned());
                Trail { check: Check { text, ..class(Class::DoubleFree) }, ..Trail::new(path, End::Moved) }
            }
        }
    }

    /// What the loader has set up before the program began is no suspect beside what the program did.
    fn spare_loader(&self, trails: &mut Vec<Trail>) {
        let is_loaders =
            |trail: &Trail| trail.origin().is_some_and(|origin| self.checks.sites.is_in_loader(number(&origin.pc)));
        if !trails.iter().all(is_loaders) {
            trails.retain(|trail| !is_loaders(trail));
        }
    }

    /// Says of the first origin where its memory lies.
    fn check_first(&self, trails: &mut [Trail]) {
        let Some(trail) = trails.first_mut().filter(|trail| trail.check == Check::default()) else { return };
        let store = trail.origin().filter(|origin| stores(origin)).cloned();
        if let Some(check) = store.and_then(|store| self.checks.stores(&[&store], &self.slice).pop()) {
            trail.check = check;
        }
    }

    /// A number that counts is as good as its bound: where that was moved into its place, it is to blame.
    fn prefer_bound(&self, trails: &mut Vec<Trail>, chain: &Chain<'_>, is_whole: bool) {
        let counts = trails.first().and_then(Trail::origin).is_some_and(|origin| chain.is_counter(origin));
        let Some(branch) = self.origins.branches.first().filter(|_| counts) else { return };
        let bounds = chain.decided_by(*branch);
        if bounds.iter().any(|bound| bound.is_open) && !is_whole {
            trails.iter_mut().for_each(|trail| trail.is_open = true);
        }
        let moved: Vec<Trail> = bounds.into_iter().filter(|bound| bound.end == End::Moved).collect();
        if !moved.is_empty() {
            *trails = moved;
        }
    }

    /// What was read from a good block, and nobody has ever stored: the pointer that an allocator gave is not to blame.
    fn blame_never_set(&self, trails: &mut [Trail]) {
        for trail in trails.iter_mut().filter(|trail| trail.origin().is_some_and(|origin| self.is_library(origin))) {
            let is_unset = |step: &Definition| step.memory.is_some() && !stores(step) && step.values == [0];
            if let Some(position) = trail.path.iter().rposition(is_unset).filter(|position| *position > 0) {
                *trail = unset(&trail.path[..=position]);
            }
        }
    }

    /// A trail that passes a read of what nobody has stored since the block was allocated ends there.
    fn blame_unset(&self, trails: &mut [Trail]) {
        for trail in trails {
            let steps =
                trail.path.iter().enumerate().skip(1).filter(|(_, step)| step.memory.is_some() && !stores(step));
            let pairs: Vec<(usize, &Definition, &Definition)> = steps
                .flat_map(|(position, read)| {
                    let written = read.values.iter().filter_map(|number| self.slice.get(*number));
                    written.filter(|written| stores(written)).map(move |written| (position, read, written))
                })
                .collect();
            let reads: Vec<(&Definition, &Definition)> =
                pairs.iter().map(|(_, read, written)| (*read, *written)).collect();
            let are_unset = self.checks.are_unset(&reads);
            let first = pairs
                .iter()
                .zip(are_unset)
                .filter(|(_, is_unset)| *is_unset)
                .map(|((position, ..), _)| *position)
                .min();
            if let Some(position) = first {
                *trail = unset(&trail.path[..=position]);
            }
        }
    }
}

/// A way that ends with a read of what nobody has stored.
fn unset(path: &[Definition]) -> Trail {
    let text = Some("in a block of the heap where nobody has stored anything yet".to_owned());
    let check = Check { class: Some(Class::UninitialisedRead), text, ..Check::default() };
    Trail { check, ..Trail::new(path.to_vec(), End::Computed) }
}

//! The steps that were looked at, each with the steps that its values and addresses come from.
//!
//! Only the last of them are kept; what older steps did is like what happened before the first.

use super::shadow::Serial;
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};

/// So many steps are kept: about 0.6 GB.
const MOST_STEPS: usize = 8 << 20;
/// An outcome tells so many definitions at most that the end depends on, and so many more of either other kind.
const MOST_TOLD: usize = 8192;
const MOST_BESIDES: usize = 4096;
/// Of so many stores it also tells what they have overwritten, and so many times over.
const MOST_OVERWRITTEN: usize = 64;
/// Of so many constants it tells the branch that decided on them.
const MOST_DECIDED: usize = 256;
const MOST_LAYERS: usize = 8;

/// One step.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub pc: u64,
    /// Memory that it accessed: what it wrote, or else what it read.
    pub address: u64,
    pub size: u32,
    /// Where it read what it wrote there, if it did both.
    pub from: u64,
    /// What it left in its first target, as far as that is a number.
    pub value: u64,
    pub writes: bool,
    /// It moved a value without changing it.
    pub copies: bool,
    /// It stored a register on the stack: `push` and `call`.
    pub saves: bool,
    pub system_call: bool,
    /// The step that had written last to what it wrote to.
    pub overwrites: Serial,
    /// One more than how far below the last byte of what it wrote to the next return address lies; zero if there is none.
    pub beyond: u32,
    /// Of a constant, the branch before it in the same function; zero for others.
    pub decided: Serial,
    pub(super) values: [Serial; 2],
    pub(super) addresses: [Serial; 2],
}

/// The steps that a step depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub values: Serials,
    pub addresses: Serials,
}

impl Sources {
    pub fn is_empty(&self) -> bool {
        self.values.0.is_empty() && self.addresses.0.is_empty()
    }
}

/// A few steps, each once. Most bytes of a value come from one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serials(Vec<Serial>);

impl Serials {
    pub fn insert(&mut self, serial: Serial) {
        if self.0.last() != Some(&serial) && !self.0.contains(&serial) {
            self.0.push(serial);
        }
    }
}

impl Extend<Serial> for Serials {
    fn extend<I: IntoIterator<Item = Serial>>(&mut self, serials: I) {
        serials.into_iter().for_each(|serial| self.insert(serial));
    }
}

impl FromIterator<Serial> for Serials {
    fn from_iter<I: IntoIterator<Item = Serial>>(serials: I) -> Serials {
        let mut all = Serials::default();
        all.extend(serials);
        all
    }
}

/// A stretch of steps of one thread in which its clock stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: Serial,
    thread: u32,
    clock: u64,
}

#[derive(Default)]
pub struct History {
    nodes: VecDeque<Node>,
    /// How many have been dropped.
    dropped: Serial,
    /// Sources that do not fit into the node.
    more: FxHashMap<Serial, Sources>,
    stretches: Vec<Stretch>,
}

/// A step as an outcome tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Zero for the instruction that ended the run.
    pub number: u32,
    pub thread: u32,
    pub clock: u64,
    pub pc: u64,
    /// Which arrival of the thread at `pc` it was since its clock showed this.
    pub time: u64,
    pub address: u64,
    pub size: u32,
    /// Where it read what it wrote there; zero if it did not do both.
    pub from: u64,
    pub writes: bool,
    pub copies: bool,
    pub system_call: bool,
    /// The definition that it overwrote; zero if none is known.
    pub overwrites: u32,
    /// The return address that lies next at or below the last byte of what it wrote to; zero if there is none.
    pub return_below: u64,
    /// Of a constant, the branch before it in the same function; zero if there is none.
    pub decided: u32,
    /// What it left in its first target, as far as that is a number.
    pub value: u64,
    /// The definitions that its values come from; zero is what is older than all that is known.
    pub values: Vec<u32>,
    /// The same for the address of the memory that it accesses.
    pub addresses: Vec<u32>,
}

impl History {
    /// Adds a step and gives its number.
    pub fn push(&mut self, thread: u32, clock: u64, mut node: Node, sources: &Sources) -> Serial {
        let serial = self.dropped + self.nodes.len() as Serial + 1;
        let last = self.stretches.last();
        if last.is_none_or(|last| (last.thread, last.clock) != (thread, clock)) {
            self.stretches.push(Stretch { first: serial, thread, clock });
        }
        let fits = fill(&mut node.values, &sources.values) & fill(&mut node.addresses, &sources.addresses);
        if !fits {
            self.more.insert(serial, sources.clone());
        }
        self.nodes.push_back(node);
        if self.nodes.len() > MOST_STEPS {
            self.forget();
        }
        serial
    }

    /// Forgets the older half.
    fn forget(&mut self) {
        self.nodes.drain(..MOST_STEPS / 2);
        self.dropped += (MOST_STEPS / 2) as Serial;
        let first = self.dropped + 1;
        self.more.retain(|serial, _| *serial >= first);
        let known = self.stretches.partition_point(|stretch| stretch.first <= first);
        self.stretches.drain(..known.saturating_sub(1));
    }

    pub fn node(&self, serial: Serial) -> Option<&Node> {
        self.nodes.get(serial.checked_sub(self.dropped + 1)? as usize)
    }

    fn sources(&self, serial: Serial) -> Sources {
        if let Some(sources) = self.more.get(&serial) {
            return sources.clone();
        }
        let Some(node) = self.node(serial) else { return Sources::default() };
        let listed = |serials: [Serial; 2]| serials.into_iter().filter(|source| *source != 0).collect();
        Sources { values: listed(node.values), addresses: listed(node.addresses) }
    }

    /// Steps, what they depend on, and what that depends on, the latest first. If that is too much, what is near them.
    pub fn behind(&self, steps: BTreeSet<Serial>) -> Vec<Definition> {
        let mut told = Vec::new();
        let mut seen = BTreeSet::new();
        self.add_behind(steps.iter().rev().copied(), MOST_TOLD, &mut seen, &mut told);
        let overwritten: Vec<Serial> = self.overwritten(&told);
        self.add_behind(overwritten.into_iter(), MOST_BESIDES, &mut seen, &mut told);
        let decided: Vec<Serial> = told.iter().map(|told| told.decided).filter(|decided| *decided != 0).collect();
        self.add_behind(decided.into_iter().take(MOST_DECIDED), MOST_BESIDES, &mut seen, &mut told);
        told.sort_by_key(|definition| std::cmp::Reverse(definition.number));
        told
    }

    /// What the nearest stores among some definitions have overwritten.
    fn overwritten(&self, told: &[Definition]) -> Vec<Serial> {
        let stores = told.iter().filter(|definition| definition.overwrites != 0).take(MOST_OVERWRITTEN);
        let below = |serial: &Serial| self.node(*serial).map(|node| node.overwrites).filter(|below| *below != 0);
        stores.flat_map(|store| std::iter::successors(Some(store.overwrites), below).take(MOST_LAYERS)).collect()
    }

    /// Adds steps and what they depend on, the nearest first, so many at most.
    fn add_behind(
        &self,
        steps: impl Iterator<Item = Serial>,
        most: usize,
        seen: &mut BTreeSet<Serial>,
        told: &mut Vec<Definition>,
    ) {
        let limit = told.len() + most;
        let mut waiting: VecDeque<Serial> = steps.filter(|step| seen.insert(*step)).collect();
        while let Some(serial) = waiting.pop_front()
            && told.len() < limit
        {
            if let Some(definition) = self.told(serial) {
                let sources = definition.values.iter().chain(&definition.addresses).copied();
                waiting.extend(sources.filter(|number| *number != 0 && seen.insert(*number)));
                told.push(definition);
            }
        }
    }

    /// Sources as numbers of definitions, in the order of their bytes: those that are not known are all zero.
    fn numbers(&self, serials: &Serials) -> Vec<u32> {
        let numbers = serials.0.iter().map(|serial| if self.node(*serial).is_some() { *serial } else { 0 });
        let numbers: Serials = numbers.collect();
        numbers.0
    }

    fn told(&self, serial: Serial) -> Option<Definition> {
        let node = self.node(serial)?;
        let position = self.stretches.partition_point(|stretch| stretch.first <= serial).checked_sub(1)?;
        let Stretch { thread, clock, .. } = self.stretches[position];
        let sources = self.sources(serial);
        Some(Definition {
            number: serial,
            thread,
            clock,
            pc: node.pc,
            time: self.arrivals(position, serial, node.pc),
            address: node.address,
            size: node.size,
            from: node.from,
            writes: node.writes,
            copies: node.copies,
            system_call: node.system_call,
            overwrites: if self.node(node.overwrites).is_some() { node.overwrites } else { 0 },
            return_below: if node.beyond == 0 {
                0
            } else {
                node.address + u64::from(node.size) - u64::from(node.beyond)
            },
            decided: if self.node(node.decided).is_some() { node.decided } else { 0 },
            value: node.value,
            values: self.numbers(&sources.values),
            addresses: self.numbers(&sources.addresses),
        })
    }

    /// How often the thread has come to `pc` up to the step, since its clock shows what it shows.
    fn arrivals(&self, position: usize, serial: Serial, pc: u64) -> u64 {
        let Stretch { thread, clock, .. } = self.stretches[position];
        let mut count = 0;
        let mut end = serial + 1;
        for stretch in self.stretches[..=position].iter().rev() {
            if stretch.thread == thread {
                if stretch.clock != clock {
                    break;
                }
                let nodes = (stretch.first..end).filter_map(|serial| self.node(serial));
                count += nodes.filter(|node| node.pc == pc).count() as u64;
            }
            end = stretch.first;
        }
        count
    }
}

/// How far an address lies behind the return address below it, from one on; zero if that is out of sight.
pub fn distance(address: u64, slot: Option<u64>) -> u32 {
    slot.and_then(|slot| u32::try_from(address - slot + 1).ok()).unwrap_or(0)
}

/// Puts the sources into a node's two places; tells whether they fit.
fn fill(places: &mut [Serial; 2], sources: &Serials) -> bool {
    let known = &sources.0;
    // Zero would not be told from an empty place.
    if known.len() > 2 || known.contains(&0) {
        return false;
    }
    places[..known.len()].copy_from_slice(known);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(values: &[Serial], addresses: &[Serial]) -> Sources {
        Sources { values: values.iter().copied().collect(), addresses: addresses.iter().copied().collect() }
    }

    fn at(pc: u64) -> Node {
        Node { pc, ..Node::default() }
    }

    #[test]
    fn what_a_step_depends_on_is_told_with_its_instances() {
        let mut history = History::default();
        let first = history.push(1, 5, at(0x10), &sources(&[0], &[]));
        let other = history.push(2, 9, at(0x10), &sources(&[], &[]));
        let second = history.push(1, 5, at(0x10), &sources(&[first], &[other]));
        history.push(1, 6, at(0x20), &sources(&[], &[]));
        let told = history.behind([second].into());
        let seen: Vec<_> = told.iter().map(|told| (told.number, told.thread, told.clock, told.time)).collect();
        assert_eq!(seen, [(second, 1, 5, 2), (other, 2, 9, 1), (first, 1, 5, 1)]);
        assert_eq!((&told[0].values, &told[0].addresses), (&vec![first], &vec![other]));
        assert_eq!(told[2].values, [0], "older than all that is known");
    }

    #[test]
    fn what_was_overwritten_and_what_decided_are_told_too() {
        let mut history = History::default();
        let first = history.push(1, 1, at(0x10), &sources(&[], &[]));
        let over = history.push(1, 1, Node { overwrites: first, ..at(0x20) }, &sources(&[], &[]));
        let branch = history.push(1, 1, at(0x30), &sources(&[], &[]));
        let constant = history.push(1, 1, Node { decided: branch, ..at(0x40) }, &sources(&[], &[]));
        let last = history.push(1, 1, at(0x50), &sources(&[constant, over], &[]));
        let told = history.behind([last].into());
        let numbers: Vec<u32> = told.iter().map(|told| told.number).collect();
        assert_eq!(numbers, [last, constant, branch, over, first]);
        assert_eq!(
            (told[0].values.as_slice(), told[1].decided, told[3].overwrites),
            (&[constant, over][..], branch, first)
        );
    }

    #[test]
    fn many_sources_are_kept_too() {
        let mut history = History::default();
        let bytes: Vec<Serial> = (0..8).map(|pc| history.push(1, 1, at(pc), &Sources::default())).collect();
        let load = history.push(1, 1, at(0x90), &sources(&bytes, &[]));
        assert_eq!(history.behind([load].into())[0].values, bytes);
    }
}

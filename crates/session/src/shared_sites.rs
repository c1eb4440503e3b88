//! Which instructions access memory that threads share: those before which it matters who runs next.
//!
//! An observer that keeps, for each eight bytes that were accessed while there were several threads, whether more than
//! one thread came there, whether anybody wrote, and by which instructions. A thread's accesses to its own stack are its
//! own until another thread comes there, so that stacks that threads take over from each other are not shared; what
//! another thread put there before is how the stack was prepared.
//!
//! May miss: accesses of system calls; code that this run did not reach; memory beyond the first few million words.
//! May name too much: memory that was freed by one thread and allocated by another.

use engine::{Access, AccessKind, Around, Batch, EventKind, Observer};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// What threads share, by the addresses of instructions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// Those that access memory which several threads access and somebody writes, with how often that memory went from one
    /// thread to another.
    pub sites: BTreeMap<u64, u64>,
    /// Stores, each with an instruction that accesses the same memory.
    pub pairs: BTreeSet<(u64, u64)>,
    /// How often such memory was accessed.
    pub accesses: u64,
}

/// Takes what was found when the run has ended.
pub type Deliver = Box<dyn FnOnce(&Sharing) + Send>;

/// Memory is looked at in pieces of so many bytes.
const GRANULE: u64 = 8;
/// No more granules than these are kept.
const MOST_GRANULES: usize = 4 << 20;
/// Memory that more instructions access than these is no place for pairs.
const MOST_IN_PAIRS: usize = 40;
/// Of a longer access, only so many granules are looked at.
const LONGEST: u64 = 512;

pub struct SharedSites {
    granules: FxHashMap<u64, Granule>,
    deliver: Option<Deliver>,
}

#[derive(Default)]
struct Granule {
    /// Whose it is: nobody's before the first access, and nobody's any more once it is shared.
    owner: Option<Owner>,
    is_shared: bool,
    accesses: u64,
    /// Who came last, and how often that was another one than before.
    last: u32,
    turns: u64,
    /// With whether they store.
    sites: Vec<(u64, bool)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Thread(u32),
    /// Whichever thread's stack it is on.
    Stack,
}

impl SharedSites {
    pub fn new(deliver: Deliver) -> SharedSites {
        SharedSites { granules: FxHashMap::default(), deliver: Some(deliver) }
    }

    fn access(&mut self, thread: u32, site: u64, access: &Access<'_>, around: Around) {
        let (first, last) = (access.address / GRANULE, access.address.saturating_add(access.size.max(1) - 1) / GRANULE);
        let is_own = (around.stack.0..around.stack.1).contains(&access.address);
        let owner = if is_own { Owner::Stack } else { Owner::Thread(thread) };
        for number in first..=last.min(first + LONGEST) {
            if self.granules.len() >= MOST_GRANULES && !self.granules.contains_key(&number) {
                return;
            }
            self.granules.entry(number).or_default().add(thread, owner, site, access.kind != AccessKind::Load);
        }
    }

    fn sharing(&self) -> Sharing {
        let mut sharing = Sharing::default();
        for granule in self.granules.values().filter(|granule| granule.is_shared && granule.is_written()) {
            sharing.accesses += granule.accesses;
            for (site, _) in &granule.sites {
                let turns = sharing.sites.entry(*site).or_default();
                *turns = granule.turns.max(*turns);
            }
            if granule.sites.len() <= MOST_IN_PAIRS {
                let stores = granule.sites.iter().filter(|(_, stores)| *stores);
                sharing
                    .pairs
                    .extend(stores.flat_map(|(store, _)| granule.sites.iter().map(|(site, _)| (*store, *site))));
            }
        }
        sharing
    }
}

impl Granule {
    fn add(&mut self, thread: u32, owner: Owner, site: u64, writes: bool) {
        if owner == Owner::Stack && !self.is_shared && self.owner != Some(Owner::Stack) {
            // Whoever makes a thread prepares its stack.
            *self = Granule::default();
        }
        self.accesses += 1;
        self.turns += u64::from(self.last != thread);
        self.last = thread;
        self.is_shared |= *self.owner.get_or_insert(owner) != owner;
        if !self.sites.contains(&(site, writes)) {
            self.sites.push((site, writes));
        }
    }

    fn is_written(&self) -> bool {
        self.sites.iter().any(|(_, writes)| *writes)
    }
}

impl Observer for SharedSites {
    fn batch(&mut self, batch: &Batch<'_>) {
        if batch.around.is_alone {
            return;
        }
        for event in batch.events() {
            if let EventKind::Access(access) = &event.kind {
                self.access(batch.thread.0, event.pc, access, batch.around);
            }
        }
    }

    fn finished(&mut self) {
        if let Some(deliver) = self.deliver.take() {
            deliver(&self.sharing());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Elements;

    const NONE: [u64; 0] = [];
    const STACKS: [(u64, u64); 3] = [(0x1000, 0x2000), (0x3000, 0x4000), (0x3000, 0x4000)];

    /// An access to eight bytes somewhere.
    fn word(kind: AccessKind) -> Access<'static> {
        Access { address: 0, size: 8, kind, is_push_or_pop: false, elements: Elements::One, before: None, after: None }
    }

    /// Accesses of threads 1 to 3, of which 2 and 3 have the same stack: thread, site, address, whether it writes.
    fn sites(accesses: &[(u32, u64, u64, bool)]) -> Vec<u64> {
        let mut shared = SharedSites::new(Box::new(|_| {}));
        for &(thread, site, address, writes) in accesses {
            let kind = if writes { AccessKind::Store } else { AccessKind::Load };
            let access = Access { address, ..word(kind) };
            let around = Around { stack: STACKS[thread as usize - 1], ..Around::default() };
            shared.access(thread, site, &access, around);
        }
        shared.sharing().sites.into_keys().collect()
    }

    #[test]
    fn all_sites_of_shared_and_written_memory_count() {
        assert_eq!(sites(&[(1, 10, 0x8000, false), (2, 20, 0x8000, true), (2, 21, 0x8000, false)]), [10, 20, 21]);
        assert_eq!(sites(&[(1, 10, 0x8000, true), (1, 11, 0x8000, true)]), NONE);
        assert_eq!(sites(&[(1, 10, 0x8000, false), (2, 20, 0x8000, false)]), NONE);
        assert_eq!(sites(&[(1, 10, 0x8000, true), (2, 20, 0x8008, true)]), NONE);
        assert_eq!(sites(&[(1, 10, 0x8004, true), (2, 20, 0x8008, true)]), [10, 20]);
    }

    #[test]
    fn sites_tell_how_often_their_memory_changes_hands() {
        let mut shared = SharedSites::new(Box::new(|_| {}));
        for (thread, address) in [(1, 0x8000), (2, 0x8000), (1, 0x8000), (1, 0x9000), (2, 0x9000)] {
            let access = Access { address, ..word(AccessKind::Store) };
            shared.access(thread, address, &access, Around::default());
        }
        assert_eq!(shared.sharing().sites, BTreeMap::from([(0x8000, 3), (0x9000, 2)]));
    }

    #[test]
    fn pairs_begin_with_a_store() {
        let mut shared = SharedSites::new(Box::new(|_| {}));
        for (thread, site, kind) in [(1, 10, AccessKind::Load), (2, 20, AccessKind::Store)] {
            let access = Access { address: 0x8000, ..word(kind) };
            shared.access(thread, site, &access, Around::default());
        }
        assert_eq!(shared.sharing().pairs, BTreeSet::from([(20, 10), (20, 20)]));
    }

    #[test]
    fn a_stack_is_shared_only_with_those_who_have_another() {
        assert_eq!(sites(&[(2, 20, 0x3100, true), (3, 30, 0x3100, true)]), NONE);
        assert_eq!(sites(&[(2, 20, 0x3100, true), (1, 10, 0x3100, false)]), [10, 20]);
        assert_eq!(sites(&[(1, 10, 0x3100, true), (2, 20, 0x3100, true)]), NONE);
    }
}

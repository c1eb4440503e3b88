//! Which memory is synchronisation: what a sieve has found to be atomic, and what threads wait for in loops.

use super::atomics::SyncMemory;
use super::blocks::Blocks;
use super::sites::{Classify, SiteClass, Sites};
use super::spin_loops::{AdHoc, Runner, SpinLoops};
use serde::{Deserialize, Serialize};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// What a survey has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Surveyed {
    pub sync_memory: SyncMemory,
    /// Threads that waited in loops for writes to plain memory, in the order in which they were first seen.
    pub ad_hoc: Vec<AdHoc>,
}

/// Finds what threads wait for in loops.
pub struct Survey {
    sites: Sites,
    blocks: Blocks,
    atomics: SyncMemory,
    /// What threads waited for in loops.
    waited_for: SyncMemory,
    /// For each of the loops found: the block of its place.
    loop_blocks: Vec<u64>,
    spin_loops: SpinLoops,
}

impl Survey {
    /// With what a sieve has found to be atomic.
    pub fn new(atomics: SyncMemory, classify: Classify) -> Survey {
        Survey {
            sites: Sites::new(classify),
            blocks: Blocks::default(),
            atomics,
            waited_for: SyncMemory::default(),
            loop_blocks: Vec::new(),
            spin_loops: SpinLoops::default(),
        }
    }

    /// Waiting for an atomic variable is what it is for, so only the others are told.
    pub fn into_surveyed(self) -> Surveyed {
        let found = self.spin_loops.found.into_iter().zip(self.loop_blocks);
        let ad_hoc =
            found.filter(|(ad_hoc, block)| !self.atomics.contains(*block, ad_hoc.address)).map(|(ad_hoc, _)| ad_hoc);
        let located = |mut ad_hoc: AdHoc| {
            for side in [&mut ad_hoc.reader, &mut ad_hoc.writer] {
                side.pc = self.sites.place(side.site.0).0;
            }
            ad_hoc
        };
        let ad_hoc = ad_hoc.map(located).collect();
        let mut sync_memory = self.atomics;
        sync_memory.merge(&self.waited_for);
        Surveyed { sync_memory, ad_hoc }
    }

    /// Whether all that threads waited for in loops is atomic.
    pub fn only_atomics(&self) -> bool {
        self.atomics.covers(&self.waited_for)
    }

    /// A thread has made so many accesses that belong to no loop of concern.
    pub fn pass_over(&mut self, thread: Thread, accesses: u64) {
        let mut runner = self.spin_loops.take(thread);
        self.spin_loops.pass_over(&mut runner, accesses);
        self.spin_loops.put_back(runner);
    }

    #[inline]
    fn access(&mut self, runner: &mut Runner, access: &Access) {
        runner.count();
        if self.sites.class(access.site) == SiteClass::Ignored {
            return;
        }
        if let Some(place) = self.spin_loops.access(runner, access) {
            self.waited_for.add(&self.blocks, place.address, u64::from(place.size));
            if self.loop_blocks.len() < self.spin_loops.found.len() {
                self.loop_blocks.push(self.blocks.number_at(place.address).unwrap_or(0));
            }
        }
    }

    fn note(&mut self, runner: &mut Runner, event: &Event) {
        match *event {
            Event::FutexWord { .. }
            | Event::Called { .. }
            | Event::Returned { .. }
            | Event::LoopHeader { .. }
            | Event::SystemCall { .. }
            | Event::Used { .. }
            | Event::Closed { .. } => {}
            Event::Allocated { .. } | Event::Mapped { .. } => self.blocks.hear(event),
            Event::Freed { .. } => {
                self.blocks.hear(event);
                runner.count();
            }
            Event::Created { .. }
            | Event::Ended
            | Event::Joined { .. }
            | Event::Locked { .. }
            | Event::Unlocked { .. }
            | Event::Released { .. }
            | Event::Acquired { .. }
            | Event::Forgotten { .. } => self.spin_loops.interrupt(runner),
        }
    }
}

impl Listener for Survey {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        let mut runner = self.spin_loops.take(thread);
        for access in accesses {
            self.access(&mut runner, access);
        }
        self.spin_loops.put_back(runner);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let mut runner = self.spin_loops.take(thread);
        self.note(&mut runner, event);
        if *event != Event::Ended {
            self.spin_loops.put_back(runner);
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
    }
}

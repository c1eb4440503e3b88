//! The second pass over a stream, after a sieve without locks: which instructions have to do with memory that threads contend
//! for, so that a third pass need only look at these, and what threads wait for in loops.

use super::Libraries;
use crate::races::blocks::Blocks;
use crate::races::shapes::{Concern, Shapes};
use crate::races::sites::{SiteClass, Sites};
use crate::races::surveying::{Picky, Surveying};
use crate::races::suspects::{Filter, Placed};
use crate::races::threads::Threads;
use crate::races::{Classify, Sieve, Sieved, Survey, Surveyed, Suspects};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trace::stream::records::{Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// So much of the program's memory is compared, unless somebody says otherwise.
pub const MOST_MEMORY: u64 = 256 << 20;

/// What an exploration has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Explored {
    pub surveyed: Surveyed,
    pub contended: Contended,
}

impl Explored {
    /// Whether threads wait in loops for more than what a sieve had found to be synchronisation.
    pub fn waits(&self, sieved: &Sieved) -> bool {
        !self.surveyed.ad_hoc.is_empty() || self.surveyed.sync_memory != sieved.atomics
    }
}

/// What threads contend for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Contended {
    /// The addresses of instructions that access it, and of the program's own that access atomics.
    pub instructions: BTreeSet<u64>,
    /// Those of them that access atomics.
    pub synchronising: BTreeSet<u64>,
    /// Where it is; nothing for everywhere.
    pub memory: Option<Suspects>,
    /// Accesses to memory that was not watched, since there was too much of it.
    pub unwatched: u64,
}

/// The pass before: what threads access in an order that could have been another, of so much memory.
pub fn sieve(classify: Classify, libraries: Libraries, most_memory: u64) -> Sieve {
    Sieve::without_locks(classify, libraries, most_memory)
}

/// What an exploration would find where threads contend for nothing.
pub fn without_contention(sieved: &Sieved) -> Option<Explored> {
    let memory = sieved.suspects.clone().filter(Suspects::is_empty)?;
    let surveyed = Surveyed { sync_memory: sieved.atomics.clone(), ad_hoc: Vec::new() };
    let contended = Contended { memory: Some(memory), unwatched: sieved.unwatched, ..Contended::default() };
    Some(Explored { surveyed, contended })
}

pub type Exploration = Surveying<Touching>;

impl Exploration {
    /// The same classes twice: for the survey and for who looks at instructions.
    pub fn after(sieved: Sieved, [of_survey, of_touching]: [Classify; 2], libraries: Libraries) -> Exploration {
        let survey = Survey::new(sieved.atomics.clone(), of_survey);
        Surveying::new(survey, Touching::new(sieved, of_touching, libraries))
    }

    pub fn into_explored(self) -> Explored {
        Explored { surveyed: self.survey.into_surveyed(), contended: self.listener.into_contended() }
    }
}

/// Finds the instructions that access contended memory or atomics, while there are other threads.
pub struct Touching {
    sites: Sites,
    libraries: Libraries,
    threads: Threads,
    shapes: Shapes,
    blocks: Blocks,
    memory: Option<Suspects>,
    placed: Placed,
    atomics: Suspects,
    unwatched: u64,
    /// Both, and a little more.
    wanted: Option<Filter>,
    touched: Vec<Touched>,
}

/// What an instruction was seen to access.
#[derive(Clone, Copy, Default)]
struct Touched {
    contended: bool,
    atomics: bool,
}

impl Touched {
    fn is_any(self) -> bool {
        self.contended || self.atomics
    }
}

impl Touching {
    fn new(sieved: Sieved, classify: Classify, libraries: Libraries) -> Touching {
        let atomics = Suspects::new(sieved.atomics.granules());
        let mut wanted = sieved.suspects.clone().map(Filter::new);
        if let Some(wanted) = &mut wanted {
            sieved.atomics.granules().for_each(|granule| wanted.add(granule));
        }
        Touching {
            sites: Sites::new(classify),
            libraries,
            threads: Threads::default(),
            shapes: Shapes::default(),
            blocks: Blocks::default(),
            memory: sieved.suspects,
            placed: sieved.placed,
            atomics,
            unwatched: sieved.unwatched,
            wanted,
            touched: Vec::new(),
        }
    }

    fn into_contended(self) -> Contended {
        let that = |is_one: fn(Touched) -> bool| {
            let touched = self.touched.iter().enumerate().filter(|(_, touched)| is_one(**touched));
            touched.map(|(site, _)| self.sites.place(site as u32).0).collect()
        };
        let (instructions, synchronising) = (that(Touched::is_any), that(|touched| touched.atomics));
        Contended { instructions, synchronising, memory: self.memory, unwatched: self.unwatched }
    }

    fn is_in_library(&self, site: Site) -> bool {
        let (pc, _) = self.sites.place(site.0);
        self.libraries.iter().any(|library| library.contains(&pc))
    }

    fn touch(&mut self, access: &Access) {
        let index = access.site.0 as usize;
        if self.sites.class(access.site) == SiteClass::Ignored {
            return;
        }
        // A filter is wrong now and then, and memory may have been something else when threads contended for it. For an instruction that goes
        // over much memory, that would be enough to have it told for good.
        let (address, size) = (access.address, u64::from(access.size));
        let contended = self.memory.is_none() || self.placed.any_within(&self.blocks, address, size);
        // What libraries do to their atomics orders nothing.
        let atomics = self.atomics.within(address, size).next().is_some() && !self.is_in_library(access.site);
        self.touched[index] = Touched { contended, atomics };
    }
}

impl Picky for Touching {
    fn wants(&self, access: &Access) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.wants(access.address, u64::from(access.size)))
    }

    fn wants_record(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool {
        if self.threads.is_alone() {
            return false;
        }
        let Some(wanted) = &self.wanted else { return true };
        let shape = self.shapes.of(record.number, records.patterns, |_| Concern::Plain);
        self.shapes.any_wanted(shape, record, records, wanted)
    }

    fn pass_over(&mut self, _thread: Thread, _accesses: u64) {}
}

impl Listener for Touching {
    fn accesses(&mut self, _thread: Thread, accesses: &[Access]) {
        if self.threads.is_alone() {
            return;
        }
        for access in accesses {
            // Most accesses are of instructions that are known to touch some of it.
            if !self.touched[access.site.0 as usize].is_any() && self.wants(access) {
                self.touch(access);
            }
        }
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        let Some(slot) = self.threads.slot(thread) else { return };
        match *event {
            Event::Created { child } => self.threads.create(slot, child),
            Event::Ended => self.threads.end(slot, thread),
            Event::Joined { other } => self.threads.join(slot, other),
            _ => self.blocks.hear(event),
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sites.name(site, pc);
        let length = self.touched.len().max(site.0 as usize + 1);
        self.touched.resize(length, Touched::default());
    }
}

//! Data races: which memory is for synchronisation, what races, and under what circumstances.

use super::Student;
use super::entrances::{Call, Entrances, TakenLock};
use crate::inquiry::Reply;
use crate::naming::{Block, Blocks};
use crate::stacks::Stacks;
use analysis::races::{Classify, Detector, SecondPass, Sieve, Sieved, SiteClass, Surveyed, Suspects};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trace::stream::records::Records;
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread, Values};

/// What is known of instructions beforehand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Classes {
    /// Code that is of no concern.
    pub ignored: Vec<Range<u64>>,
    /// Instructions of atomic operations.
    pub atomic: BTreeSet<u64>,
    /// Code of libraries that do nothing but synchronise.
    pub atomic_code: Vec<Range<u64>>,
}

impl Classes {
    pub fn classify(self) -> Classify {
        let is_in = |ranges: &[Range<u64>], pc: u64| ranges.iter().any(|range| range.contains(&pc));
        Box::new(move |pc| {
            if self.atomic.contains(&pc) || is_in(&self.atomic_code, pc) {
                SiteClass::Atomic
            } else if is_in(&self.ignored, pc) {
                SiteClass::Ignored
            } else {
                SiteClass::Plain
            }
        })
    }
}

/// A listener that is taken apart in the end.
pub struct Once<L, F> {
    pub listener: Option<L>,
    pub conclude: F,
}

impl<L: Listener, F: Fn(L) -> Reply> Once<L, F> {
    pub fn new(listener: L, conclude: F) -> Once<L, F> {
        Once { listener: Some(listener), conclude }
    }
}

impl<L: Listener, F: Send> Listener for Once<L, F> {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        if let Some(listener) = &mut self.listener {
            listener.accesses(thread, accesses);
        }
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        self.listener.as_mut().map_or(0, |listener| listener.records(thread, records))
    }

    fn reads_records(&self) -> bool {
        self.listener.as_ref().is_some_and(Listener::reads_records)
    }

    fn hears_calls(&self) -> bool {
        self.listener.as_ref().is_some_and(Listener::hears_calls)
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        if let Some(listener) = &mut self.listener {
            listener.valued(thread, access, values);
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        if let Some(listener) = &mut self.listener {
            listener.event(thread, event);
        }
    }

    fn passed_over(&mut self, thread: Thread, site: u64, calls: u64) {
        if let Some(listener) = &mut self.listener {
            listener.passed_over(thread, site, calls);
        }
    }

    fn whole_since(&mut self, thread: Thread, clock: Option<u64>) {
        if let Some(listener) = &mut self.listener {
            listener.whole_since(thread, clock);
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        if let Some(listener) = &mut self.listener {
            listener.site(site, pc);
        }
    }
}

impl<L: Listener + 'static, F: Fn(L) -> Reply + Send + 'static> Student for Once<L, F> {
    fn report(&mut self) -> Reply {
        self.listener.take().map_or_else(|| Reply::of(&()), &self.conclude)
    }
}

pub fn sieve(classes: Classes) -> impl Student {
    Once::new(Sieve::new(classes.classify()), |sieve: Sieve| Reply::of(&sieve.into_sieved()))
}

pub fn second_pass(sieved: Sieved, classes: Classes) -> impl Student {
    let listener = SecondPass::after(sieved, classes.clone().classify(), classes.classify());
    Once::new(listener, |second_pass: SecondPass| Reply::of(&second_pass.into_found()))
}

pub fn detect(suspects: Option<Suspects>, surveyed: Surveyed, classes: Classes) -> impl Student {
    let listener = Detector::among(suspects, surveyed, classes.classify());
    Once::new(listener, |detector: Detector| Reply::of(&detector.into_found()))
}

/// An access whose circumstances are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    pub thread: Thread,
    /// The first access of the instruction to the address that is not before this one of the thread's.
    pub ordinal: u64,
    pub pc: u64,
    pub address: u64,
    /// It is the release of a block, at that very ordinal.
    pub is_release: bool,
}

/// What was the case at a wanted access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstance {
    /// Return addresses, the innermost first.
    pub callers: Vec<u64>,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
    /// Where the access begins, which may be before the address that was asked for.
    pub address: u64,
    pub block: Option<Block>,
    /// Which arrival of the thread at the instruction it was, counted from 1; 0 if nobody has counted.
    #[serde(default)]
    pub time: u64,
    /// The calls that return to the callers, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The locks that the thread held, the first taken first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<TakenLock>,
}

/// Where a thread was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub parent: Thread,
    pub callers: Vec<u64>,
}

/// All that was found out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// In the order in which they were asked for; none for those that never came.
    pub circumstances: Vec<Option<Circumstance>>,
    pub threads: BTreeMap<Thread, Origin>,
}

/// Looks at the wanted accesses when they come.
pub struct Circumstances {
    /// What is still to come, by thread; each with its place in `told`.
    pending: BTreeMap<Thread, Vec<(usize, Wanted)>>,
    ordinals: BTreeMap<Thread, u64>,
    pcs: Vec<u64>,
    /// How often threads have come to the instructions that something is wanted of.
    times: BTreeMap<(Thread, u64), Times>,
    stacks: Stacks,
    entrances: Entrances,
    blocks: Blocks,
    told: Told,
}

#[derive(Default)]
struct Times {
    count: u64,
    /// The ordinal of an access that only read: if the next one writes, both are one execution.
    read: Option<u64>,
}

impl Times {
    fn count(&mut self, ordinal: u64, kind: AccessKind) -> u64 {
        let is_same = kind == AccessKind::Write && self.read.is_some_and(|read| read + 1 == ordinal);
        self.read = (kind == AccessKind::Read).then_some(ordinal);
        self.count += u64::from(!is_same);
        self.count
    }
}

impl Circumstances {
    pub fn new(wanted: Vec<Wanted>) -> Circumstances {
        let circumstances = vec![None; wanted.len()];
        let times = wanted.iter().map(|wanted| ((wanted.thread, wanted.pc), Times::default())).collect();
        let mut pending: BTreeMap<Thread, Vec<(usize, Wanted)>> = BTreeMap::new();
        for (number, wanted) in wanted.into_iter().enumerate() {
            pending.entry(wanted.thread).or_default().push((number, wanted));
        }
        Circumstances {
            pending,
            ordinals: BTreeMap::new(),
            pcs: Vec::new(),
            times,
            stacks: Stacks::default(),
            entrances: Entrances::default(),
            blocks: Blocks::default(),
            told: Told { circumstances, threads: BTreeMap::new() },
        }
    }

    fn count(&mut self, thread: Thread) -> u64 {
        let ordinal = self.ordinals.entry(thread).or_default();
        *ordinal += 1;
        *ordinal
    }

    /// Notes the circumstances of everything that was wanted of this access, the thread's arrival there of this number.
    fn look(
        &mut self,
        thread: Thread,
        is_meant: impl Fn(&Wanted) -> bool,
        (address, time): (u64, u64),
        values: Values<'_>,
    ) {
        let Some(pending) = self.pending.get_mut(&thread) else { return };
        let mut met = Vec::new();
        pending.retain(|(number, wanted)| {
            let is_met = is_meant(wanted);
            if is_met {
                met.push(*number);
            }
            !is_met
        });
        for number in met {
            let block = self.blocks.at(address).copied();
            let callers = self.stacks.callers(thread);
            self.told.circumstances[number] = Some(Circumstance {
                calls: callers.iter().map(|caller| self.entrances.call(thread, *caller)).collect(),
                callers,
                before: values.before.map(<[u8]>::to_vec),
                after: values.after.map(<[u8]>::to_vec),
                address,
                block,
                time,
                locks: self.entrances.locks(thread),
            });
        }
    }
}

impl Listener for Circumstances {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.valued(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        let ordinal = self.count(thread);
        let pc = self.pcs[access.site.0 as usize];
        let is_meant = |wanted: &Wanted| {
            let offset = wanted.address.wrapping_sub(access.address);
            !wanted.is_release && wanted.pc == pc && wanted.ordinal <= ordinal && offset < u64::from(access.size)
        };
        let time = self.times.get_mut(&(thread, pc)).map_or(0, |times| times.count(ordinal, access.kind));
        self.look(thread, is_meant, (access.address, time), values);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.entrances.hear(thread, event);
        match *event {
            Event::Called { return_address, stack, .. } => self.stacks.called(thread, stack, return_address),
            Event::Returned { target } => self.stacks.returned(thread, target),
            Event::Created { child } => {
                let callers = self.stacks.callers(thread);
                self.told.threads.insert(child, Origin { parent: thread, callers });
            }
            Event::Freed { address, .. } => {
                let ordinal = self.count(thread);
                let is_meant = |wanted: &Wanted| wanted.is_release && wanted.ordinal == ordinal;
                self.look(thread, is_meant, (address, 0), Values::default());
            }
            _ => {}
        }
        self.blocks.hear(event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.pcs.resize(self.pcs.len().max(site.0 as usize + 1), 0);
        self.pcs[site.0 as usize] = pc;
    }
}

impl Student for Circumstances {
    fn report(&mut self) -> Reply {
        Reply::of(&self.told)
    }
}

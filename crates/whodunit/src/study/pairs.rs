//! The access pairs of a run.

use super::Student;
use super::functions::Functions;
use super::races::Once;
use crate::inquiry::Reply;
use crate::show::{self, Recorded};
use analysis::pairs::falcon::Windows;
use analysis::pairs::{Collector, LoopsAround, MeetingPlaces, PlaceSeeker, Scope, VisitorSeeker, samples};
use engine::{Chosen, Mark, Sparing};
use program::flow::Flows;
use program::space::GuestAddress;
use serde::{Deserialize, Serialize};
use session::stream::{Detail, Role};
use std::collections::BTreeSet;
use std::ops::Range;
use trace::Recording;

/// Of a program with more functions than these, only those count that the pairs are in.
const MOST_FUNCTIONS: usize = 3000;

/// What is wanted of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    pub scope: Scope,
    /// The instructions whose iterations are to be told.
    pub looping_sites: Vec<u64>,
    /// Every two threads are looked at as if there were no others.
    pub two_by_two: bool,
    /// Instructions are told apart by who called.
    pub contexts: bool,
    /// The instructions whose accesses are to be heard, if that is not all of them.
    pub among: Option<BTreeSet<u64>>,
    /// All accesses are to be counted, though only some are heard.
    #[serde(default)]
    pub counts_all: bool,
    /// Those that go over a lot of memory, and are heard in a part of it.
    #[serde(default)]
    pub sweeping: BTreeSet<u64>,
}

impl Wanted {
    /// What the stream has to tell.
    pub fn detail(&self) -> Detail {
        if self.looping_sites.is_empty() && !self.contexts { Detail::Accesses } else { Detail::Calls }
    }

    /// Whether it matters that functions with a role are called. What locks do within is not heard in any case where only some
    /// instructions are, and each call costs more than many accesses.
    pub fn wants(&self, role: Role) -> bool {
        self.observed().is_none() || role.is_allocator()
    }

    /// What has to be observed, if that is not everything.
    pub fn chosen(&self) -> Option<Chosen> {
        let others = engine::Wanted { targets: self.detail() == Detail::Calls, ..engine::Wanted::COUNTS };
        self.observed().cloned().map(|instructions| Chosen { instructions, others, ..Chosen::default() })
    }

    /// What has to be told of it: what goes over a lot of memory is heard where others come, and in a few places.
    pub fn sparing(&self) -> Option<Sparing> {
        let observed = self.observed().filter(|_| !self.sweeping.is_empty() && self.detail() == Detail::Accesses)?;
        let steady = observed.difference(&self.sweeping).copied().collect();
        Some(Sparing { strips: samples().collect(), steady, is_thorough: true, ..Sparing::default() })
    }

    /// Code that need not be told of.
    pub fn ignored(&self) -> Vec<Range<u64>> {
        if self.counts_all { Vec::new() } else { self.scope.ignored_code.clone() }
    }

    fn observed(&self) -> Option<&BTreeSet<u64>> {
        self.among.as_ref().filter(|_| !self.counts_all)
    }
}

/// A collector, and the marks that it needs.
pub fn collect(wanted: Wanted, recording: &Recording, log: u32, functions: &mut Functions) -> impl Student {
    let mut collector = Collector::new(wanted.scope).sweeping(wanted.sweeping);
    if let Some(among) = wanted.among {
        collector = collector.among(among);
    }
    if wanted.two_by_two {
        collector = collector.two_by_two();
    }
    if wanted.contexts {
        collector = collector.with_contexts();
    }
    // A log may be long, so it is read only if it has to be.
    if !wanted.looping_sites.is_empty()
        && let Some(recorded) = show::recorded(recording, log)
    {
        let mut flows = Flows::new(&recorded.space);
        for header in headers(&mut flows, &recorded, &wanted.looping_sites) {
            functions.marks.entry(header).or_insert(Mark::LoopHeader);
        }
        let around: LoopsAround = Box::new(move |pc| loops_around(&mut flows, pc));
        collector = collector.with_loops(wanted.looping_sites.into_iter().collect(), around);
    }
    Once { listener: Some(collector), conclude: |collector: Collector| Reply::of(&collector.into_collected()) }
}

/// Where threads meet.
pub fn meeting_places(scope: Scope) -> impl Student {
    Once::new(PlaceSeeker::new(scope), |seeker: PlaceSeeker| Reply::of(&seeker.into_places()))
}

/// Which instructions come there.
pub fn visitors(scope: Scope, places: &MeetingPlaces) -> impl Student {
    Once::new(VisitorSeeker::new(scope, places), |seeker: VisitorSeeker| Reply::of(&seeker.into_visitors()))
}

/// Falcon's patterns.
pub fn patterns(scope: Scope) -> impl Student {
    Once { listener: Some(Windows::new(scope)), conclude: |windows: Windows| Reply::of(&windows.into_found()) }
}

fn loops_around(flows: &mut Flows, pc: u64) -> Vec<u64> {
    let Some(graph) = flows.around(GuestAddress(pc)) else { return Vec::new() };
    graph.loops_around(GuestAddress(pc)).into_iter().map(|around| graph.loops()[around].header.0).collect()
}

/// The first instructions of the loops of the program's functions, and of those that the sites are in.
fn headers(flows: &mut Flows, recorded: &Recorded, sites: &[u64]) -> Vec<u64> {
    let program = recorded.program();
    let own = recorded.space.modules().filter(|(_, module)| module.name() == program).map(|(number, _)| number);
    let functions: Vec<GuestAddress> = own.flat_map(|number| flows.functions_of(number)).collect();
    let all = if functions.len() <= MOST_FUNCTIONS { functions } else { Vec::new() };
    let starts = all.into_iter().chain(sites.iter().copied().map(GuestAddress));
    let graphs = starts.filter_map(|start| flows.around(start));
    graphs.flat_map(|graph| graph.loops().iter().map(|found| found.header.0).collect::<Vec<_>>()).collect()
}

//! What a run is to do differently from its recording. Places are addresses here; whoever makes a plan resolves names.

use super::course::Start;
use super::layout::Layout;
use super::retelling::Retold;
use super::scrutiny::Structures;
use sched::Policy;
use std::collections::BTreeSet;
use std::ops::Range;

/// A run that follows its recording to a point and goes on by itself from there.
pub struct Plan {
    /// Carried out in order.
    pub steps: Vec<Step>,
    /// Where things lie once the recording is left, if elsewhere.
    pub layout: Option<Layout>,
    /// Who runs where the steps leave it open.
    pub policy: Box<dyn Policy>,
    /// So many events of all clocks together may pass after the recording is left.
    pub limit: u64,
    /// What is known of the guest's code, for steps that follow data.
    pub structures: Box<dyn Structures>,
    /// That the run is to be told, as a recording of its own.
    pub retold: Option<Retold>,
}

/// What a replay is to do differently, if anything.
#[derive(Default)]
pub struct Plans {
    /// By the process itself.
    pub own: Option<Plan>,
    /// By copies of the process, each made where its plan first acts; only beside a plan of the process's own. They act at
    /// instructions alone: none of them follows data, lays memory out anew or is retold.
    pub rivals: Vec<Plan>,
}

impl Plans {
    /// The instructions at which any of them acts.
    pub fn places(&self) -> BTreeSet<u64> {
        self.own.iter().chain(&self.rivals).flat_map(Plan::places).collect()
    }
}

pub enum Step {
    /// Do as recorded up to here; without it the recording is left where another step first acts. Holds alone can come before
    /// it: they count from the start, and act from here on.
    Follow(Point),
    /// Give the turn to a thread, and keep it there whenever the thread can run until it is at the point; without one,
    /// once.
    Run { thread: u32, until: Option<Point> },
    /// From now on, keep a thread from running on at a spot until another one has passed its own.
    Hold { thread: u32, before: Spot, until: Passage },
    /// From now on, keep a thread from running on at a spot until another one has changed some memory.
    Await { thread: u32, before: Spot, changed: Range<u64> },
    /// From now on, let the conditional branch at the spot go the other way, once.
    Flip { thread: Option<u32>, at: Spot },
    /// From now on, leave the instruction at the spot out, so many times; with its dependents, also all that depends on its
    /// result.
    Suppress { thread: Option<u32>, at: Spot, times: u64, dependents: bool },
    /// Keep where values come from, from when the thread's clock shows this, and up to where it shows that. In force from
    /// the start.
    Origins { thread: u32, clock: u64, until: Option<u64> },
    /// Keep who writes to this memory. In force from the start.
    Writers(Vec<Range<u64>>),
    /// End the run where this byte of standard output is written; tells where it came from, if data are followed. In force
    /// from the start, and only while the recording is followed.
    Output(u64),
    /// From now on, let another policy choose.
    Schedule(Box<dyn Policy>),
    /// End the run, now or when a thread is at the point.
    Stop(Option<Point>),
}

/// Instructions, any of which is meant, and which arrival at one of them.
#[derive(Clone, Debug)]
pub struct Spot {
    pub addresses: Vec<u64>,
    /// Counted from one, from when the step is in force.
    pub time: u64,
    /// Only arrivals count that come when the thread's clock shows at least this.
    pub since: u64,
}

/// A thread has run the instruction at a spot, or has come to where a call returns to.
#[derive(Clone, Debug)]
pub struct Passage {
    pub thread: u32,
    pub spot: Spot,
    /// Whoever is there has passed: instructions behind calls, since a call is over when it has returned.
    pub returns: Vec<u64>,
}

#[derive(Clone, Debug)]
pub enum Point {
    /// Where the event of the recording would take effect.
    Event(u64),
    /// Where the thread's clock shows this.
    Clock { thread: u32, clock: u64 },
    /// Before the instruction at the spot, in this thread or in any.
    Spot { thread: Option<u32>, spot: Spot },
}

impl Plan {
    /// Whether any step looks at where values come from or go.
    pub fn follows_data(&self) -> bool {
        let follows = |step: &Step| {
            matches!(step, Step::Origins { .. } | Step::Writers(_) | Step::Suppress { dependents: true, .. })
        };
        self.steps.iter().any(follows)
    }

    /// The instructions at which it acts from the first one on.
    pub fn places(&self) -> Vec<u64> {
        let spots = self.steps.iter().flat_map(Step::spots);
        let early = spots.filter(|(thread, spot)| late_start(*thread, spot).is_none());
        let spots = early.flat_map(|(_, spot)| &spot.addresses);
        let returns = self.steps.iter().flat_map(|step| match step {
            Step::Hold { until, .. } => until.returns.as_slice(),
            _ => &[],
        });
        let laid = self.layout.iter().flat_map(Layout::places);
        let retold = self.retold.iter().flat_map(|retold| &retold.points);
        spots.chain(returns).chain(retold).copied().chain(laid).collect()
    }
}

/// When a plan begins to act at a spot, if that is only when the clock of the thread that it is about shows something.
fn late_start(thread: Option<u32>, spot: &Spot) -> Option<(u32, u64, Start)> {
    let thread = thread.filter(|_| spot.since > 0)?;
    Some((thread, spot.since, Start::Places(spot.addresses.clone())))
}

impl Step {
    /// What begins only when a thread's clock shows something.
    pub fn starts(&self) -> Vec<(u32, u64, Start)> {
        match self {
            Step::Origins { thread, clock, until } => {
                let end = until.map(|until| (*thread, until, Start::Pause));
                [(*thread, *clock, Start::Origins)].into_iter().chain(end).collect()
            }
            Step::Writers(ranges) => vec![(0, 0, Start::Writers(ranges.clone()))],
            step => step.spots().into_iter().filter_map(|(thread, spot)| late_start(thread, spot)).collect(),
        }
    }

    /// Where it acts, each with the thread that it is about, if that is one.
    fn spots(&self) -> Vec<(Option<u32>, &Spot)> {
        match self {
            // What is followed up to is looked for from the start on, and so is where a run is over.
            Step::Follow(point) | Step::Run { until: Some(point), .. } => {
                point.spot().into_iter().map(|(_, spot)| (None, spot)).collect()
            }
            Step::Stop(Some(point)) => point.spot().into_iter().collect(),
            Step::Hold { thread, before, until } => vec![(Some(*thread), before), (Some(until.thread), &until.spot)],
            Step::Await { thread, before, .. } => vec![(Some(*thread), before)],
            Step::Flip { thread, at } | Step::Suppress { thread, at, .. } => vec![(*thread, at)],
            Step::Run { until: None, .. }
            | Step::Schedule(_)
            | Step::Origins { .. }
            | Step::Writers(_)
            | Step::Output(_)
            | Step::Stop(None) => Vec::new(),
        }
    }
}

impl Point {
    fn spot(&self) -> Option<(Option<u32>, &Spot)> {
        match self {
            Point::Spot { thread, spot } => Some((*thread, spot)),
            Point::Event(_) | Point::Clock { .. } => None,
        }
    }
}

//! One run of a process that replays, from where it stands to where its errand ends.

use super::wire::{Aim, Errand, Hit, Mark, Reason, Stop, words_of};
use engine::{Ended, Guest, Orders, Stopped, Why};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a run goes on before a checkpoint may be made.
const PAUSE: Duration = Duration::from_millis(250);
/// How many groups of events pass between two looks at the time.
const PATIENCE: u32 = 64;
/// How much of the stack tells one time that an instruction is reached from another.
const STACK: usize = 4096;

pub struct Job {
    errand: Errand,
    /// The stops that were come by at the present clock, and which clock that is.
    at: (u64, u64),
    ordinal: u64,
    candidate: Option<Hit>,
    last: Option<Hit>,
    steps: u64,
    started: Instant,
    events: u32,
}

pub enum Progress {
    On(Orders),
    Done(Stop),
}

impl Job {
    pub fn new(errand: Errand) -> Job {
        Job {
            errand,
            at: (0, 0),
            ordinal: 0,
            candidate: None,
            last: None,
            steps: 0,
            started: Instant::now(),
            events: 0,
        }
    }

    /// The guest stands where the errand begins.
    pub fn start(&mut self, guest: &mut Guest<'_>, server: &UnixStream) -> Progress {
        guest.show_output_from(self.errand.shown);
        if !matches!(self.errand.aim, Aim::Hit(_)) {
            guest.watch(&self.errand.stops.watches());
        }
        if self.stands_at_breakpoint(guest) && !self.has_arrived(guest) {
            guest.has_come_by();
            self.count(guest);
        }
        self.next(&Why::Slice, guest, server)
    }

    /// The guest may have to stop here.
    pub fn next(&mut self, why: &Why, guest: &mut Guest<'_>, server: &UnixStream) -> Progress {
        match why {
            Why::Breakpoint | Why::Accesses if !self.has_arrived(guest) => self.count(guest),
            Why::Watched(index) => self.saw(*index),
            Why::Stepped => self.steps += 1,
            Why::Events => self.events += 1,
            _ => {}
        }
        let reason = match self.errand.aim {
            Aim::To(_) | Aim::Count(_) if self.has_arrived(guest) => Some(Reason::Arrived),
            _ => ending(why),
        };
        let reason = reason.or_else(|| self.is_disturbed(why, server).then_some(Reason::Interrupted));
        match reason.map_or_else(|| self.pursue(why, guest), Err) {
            Ok(orders) => Progress::On(orders),
            Err(reason) => {
                let stop = Job::report(why, reason, guest);
                Progress::Done(Stop { hit: self.last, steps: self.steps, ..stop })
            }
        }
    }

    /// What the server is told of a place.
    pub fn report(why: &Why, reason: Reason, guest: &mut Guest<'_>) -> Stop {
        let (piece, previous) = guest.pieces();
        let (first, previous) = (piece.first, previous.map(words_of));
        let fresh = matches!(why, Why::Began | Why::Events);
        let thread = guest.place().thread;
        Stop { why: reason, mark: mark_of(guest), thread, fresh, first, previous, hit: None, steps: 0 }
    }

    fn pursue(&mut self, why: &Why, guest: &mut Guest<'_>) -> Result<Orders, Reason> {
        match self.errand.aim {
            Aim::Forward => self.forward(why, guest),
            Aim::Step { thread } => self.step(why, guest, thread),
            Aim::To(mark) => self.to(guest, mark),
            Aim::Hit(hit) => self.hit(guest, hit),
            Aim::Before { event, clock } => before(why, guest, event, clock),
            Aim::Count(mark) => self.step_to(guest, mark),
            Aim::Steps(steps) if self.steps == steps => Err(Reason::Arrived),
            Aim::Steps(_) => Ok(Orders { step: true, until: None }),
        }
    }

    fn forward(&mut self, why: &Why, guest: &mut Guest<'_>) -> Result<Orders, Reason> {
        self.stop_for(why, guest)?;
        if self.is_time_for_looking(why) && self.started.elapsed() > PAUSE {
            return Err(Reason::Paused);
        }
        Ok(Orders::default())
    }

    fn step(&mut self, why: &Why, guest: &mut Guest<'_>, thread: u32) -> Result<Orders, Reason> {
        if matches!(why, Why::Stepped) {
            return Err(Reason::Stepped);
        }
        self.stop_for(why, guest)?;
        Ok(Orders { step: guest.place().thread == thread, until: None })
    }

    /// The user's stops.
    fn stop_for(&mut self, why: &Why, guest: &mut Guest<'_>) -> Result<(), Reason> {
        guest.stop_at(&self.errand.stops.breakpoints);
        match why {
            Why::Breakpoint => Err(Reason::Breakpoint),
            Why::Watched(index) => Err(Reason::Watch(*index)),
            _ => Ok(()),
        }
    }

    fn to(&mut self, guest: &mut Guest<'_>, mark: Mark) -> Result<Orders, Reason> {
        let breakpoints = &self.errand.stops.breakpoints;
        match nearness(guest, mark.event, mark.clock) {
            Nearness::Past => Err(Reason::Lost),
            Nearness::Far(until) => {
                guest.stop_at(breakpoints);
                Ok(Orders { step: false, until })
            }
            Nearness::Near => {
                guest.stop_at(&with(breakpoints, Some(mark.pc)));
                Ok(Orders::default())
            }
        }
    }

    fn hit(&mut self, guest: &mut Guest<'_>, hit: Hit) -> Result<Orders, Reason> {
        let stops = &self.errand.stops;
        if self.at == (hit.event, hit.clock) && self.ordinal == hit.ordinal {
            return Err(Reason::Arrived);
        }
        match nearness(guest, hit.event, hit.clock) {
            Nearness::Past => Err(Reason::Lost),
            Nearness::Far(until) => {
                guest.stop_at(&BTreeSet::new());
                Ok(Orders { step: false, until })
            }
            Nearness::Near => {
                guest.stop_at(&with(&stops.breakpoints, hit.extra));
                guest.watch(&stops.watches());
                Ok(Orders::default())
            }
        }
    }

    fn step_to(&mut self, guest: &mut Guest<'_>, mark: Mark) -> Result<Orders, Reason> {
        guest.stop_at(&BTreeSet::new());
        match nearness(guest, mark.event, mark.clock) {
            Nearness::Past => Err(Reason::Lost),
            _ => Ok(Orders { step: true, until: None }),
        }
    }

    /// Counts a stop that the run comes by.
    fn count(&mut self, guest: &Guest<'_>) {
        let place = guest.place();
        let at = (place.event, place.clock);
        if std::mem::replace(&mut self.at, at) != at {
            self.ordinal = 0;
        }
        self.ordinal += 1;
        let extra = match self.errand.aim {
            Aim::To(mark) if mark.coarse() == at => Some(mark.pc),
            _ => None,
        };
        let hit = Hit { event: place.event, clock: place.clock, ordinal: self.ordinal, extra, watch: None };
        self.candidate = Some(hit);
        if self.errand.stops.breakpoints.contains(&place.pc) {
            self.last = Some(hit);
        }
    }

    /// A watched range has changed or was accessed, by what was counted last.
    fn saw(&mut self, index: usize) {
        if let Some(hit) = self.candidate {
            self.last = Some(Hit { watch: Some(index), ..hit });
        }
    }

    fn stands_at_breakpoint(&self, guest: &Guest<'_>) -> bool {
        let pc = guest.place().pc;
        let extra = match self.errand.aim {
            Aim::Hit(hit) => hit.extra,
            Aim::To(mark) => {
                Some(mark.pc).filter(|_| matches!(nearness(guest, mark.event, mark.clock), Nearness::Near))
            }
            _ => return false,
        };
        self.errand.stops.breakpoints.contains(&pc) || extra == Some(pc)
    }

    fn has_arrived(&self, guest: &mut Guest<'_>) -> bool {
        let (Aim::To(mark) | Aim::Count(mark)) = self.errand.aim else { return false };
        let place = guest.place();
        (place.event, place.clock, place.pc) == (mark.event, mark.clock, mark.pc) && mark_of(guest) == mark
    }

    fn is_time_for_looking(&self, why: &Why) -> bool {
        matches!(why, Why::Slice) || matches!(why, Why::Events) && self.events.is_multiple_of(PATIENCE)
    }

    /// Whether the server has something to say.
    fn is_disturbed(&self, why: &Why, server: &UnixStream) -> bool {
        if !self.is_time_for_looking(why) {
            return false;
        }
        let mut descriptors = [PollFd::new(server.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

/// Whether a place is reached after so many events at such a clock.
enum Nearness {
    /// Run on; ask again at this clock.
    Far(Option<(u64, u64)>),
    /// In a moment, or now.
    Near,
    Past,
}

fn nearness(guest: &Guest<'_>, event: u64, clock: u64) -> Nearness {
    let place = guest.place();
    if place.event < event {
        Nearness::Far(None)
    } else if (place.event, place.clock) > (event, clock) {
        Nearness::Past
    } else if place.clock + 1 < clock {
        Nearness::Far(Some((event, clock - 1)))
    } else {
        Nearness::Near
    }
}

/// To right before the event of the clock that makes it `clock`, or to where the events have just happened.
fn before(why: &Why, guest: &mut Guest<'_>, event: u64, clock: u64) -> Result<Orders, Reason> {
    guest.stop_at(&BTreeSet::new());
    match nearness(guest, event, clock) {
        Nearness::Past => Err(Reason::Lost),
        Nearness::Far(until) => Ok(Orders { step: false, until }),
        Nearness::Near if guest.place().clock == clock || matches!(why, Why::Due) => Err(Reason::Arrived),
        Nearness::Near => Ok(Orders { step: false, until: Some((event, clock - 1)) }),
    }
}

fn with(breakpoints: &BTreeSet<u64>, extra: Option<u64>) -> BTreeSet<u64> {
    breakpoints.iter().copied().chain(extra).collect()
}

fn mark_of(guest: &Guest<'_>) -> Mark {
    const RSP: usize = 4;
    let place = guest.place();
    let general = guest.general();
    let mut hasher = DefaultHasher::new();
    general.hash(&mut hasher);
    let mut part = [0; 512];
    for offset in (0..STACK).step_by(part.len()) {
        if !guest.read(general[RSP].wrapping_add(offset as u64), &mut part) {
            break;
        }
        part.hash(&mut hasher);
    }
    Mark { event: place.event, clock: place.clock, pc: place.pc, digest: hasher.finish() }
}

/// What the end of the recording is to the user.
fn ending(why: &Why) -> Option<Reason> {
    let Why::Ended(ended) = why else { return None };
    Some(match ended {
        Ended::Exited(status) => Reason::Exited(*status),
        Ended::Killed(signal) => Reason::Killed(*signal),
        Ended::Stopped(stopped) => Reason::Ends(match stopped {
            Stopped::Diverged(divergence) => format!(
                "the replay went another way than was recorded, at event {}: {} was recorded, {} came",
                divergence.event, divergence.expected, divergence.got
            ),
            Stopped::Cut { event, .. } => {
                format!("the recording ends here, after event {event}; the program had not ended")
            }
            Stopped::Asked { event } => format!("stopped before event {event}"),
            Stopped::Executed { event, .. } => {
                format!("the program executes another one here, at event {event}; see `whodunit show` for its process")
            }
            Stopped::NoFile(problem) => problem.clone(),
        }),
    })
}

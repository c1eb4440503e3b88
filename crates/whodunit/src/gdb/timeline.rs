//! Going to and fro in a recording: the processes that replay it, and which of them stands where.
//!
//! A process can only run on. To go back, a copy of a checkpoint runs to the wanted place: checkpoints are processes
//! that stand still, copied from one that came by. The last stop before a place is found by running to the place with
//! the stops switched on, from the checkpoint before it, or from the one before that.

use super::ears::Ears;
use super::wire::{self, Aim, Command, Errand, Hit, Mark, Reason, Reply, Stop, Stops, Thread};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixStream;

/// At most so many checkpoints of a first run are kept, and so many that going back has left behind.
const MOST_LASTING: usize = 40;
const MOST_PASSING: usize = 8;
/// How much of its clock a thread runs, from a checkpoint that is made for a step back.
const LEEWAY: u64 = 8;

/// A process that replays, and waits.
pub struct Process {
    stream: UnixStream,
}

struct Checkpoint {
    process: Process,
    stop: Stop,
    /// Made by a first run, not on the way back.
    lasts: bool,
}

/// A way that was found by going back, which leads to places further back.
struct Trail {
    base: Process,
    /// How many instructions after the base the present place is.
    steps: u64,
    mark: Mark,
}

pub struct Timeline {
    /// By place; the first is where the recording begins.
    checkpoints: Vec<Checkpoint>,
    current: Process,
    /// Where the current process stands.
    pub stop: Stop,
    pub stops: Stops,
    trail: Option<Trail>,
    /// The guest's output was shown up to this event.
    shown: u64,
    /// Every how many pauses a checkpoint is made, and how many have been.
    stride: u32,
    pauses: u32,
    /// How many ways between checkpoints the last search ran through, and how many it came by.
    pub searched: (u32, u32),
}

impl Process {
    pub fn new(stream: UnixStream) -> Process {
        Process { stream }
    }

    /// Waits for a stop; Ctrl-C at the other end cuts it short.
    fn stopped(&self, ears: &mut Ears) -> io::Result<Stop> {
        while !ears.wait_for(&self.stream)? {
            wire::send(&self.stream, &Command::Interrupt)?;
        }
        match wire::receive(&self.stream)? {
            Reply::Stopped(stop) => Ok(*stop),
            _ => Err(unexpected()),
        }
    }

    fn run(&self, ears: &mut Ears, errand: &Errand) -> io::Result<Stop> {
        wire::send(&self.stream, &Command::Run(errand.clone()))?;
        self.stopped(ears)
    }

    /// Whether one of the stops may lie on the way from the place to where the process stands.
    fn may_have_passed(&self, stops: &Stops, since: Mark) -> io::Result<bool> {
        wire::send(&self.stream, &Command::Passed { stops: stops.clone(), since })?;
        match wire::receive(&self.stream)? {
            Reply::Passed(passed) => Ok(passed),
            _ => Err(unexpected()),
        }
    }

    fn fork(&self) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        wire::send(&self.stream, &Command::Fork)?;
        wire::send_socket(&self.stream, &theirs)?;
        match wire::receive(&self.stream)? {
            Reply::Forked(Ok(())) => Ok(Process { stream: ours }),
            Reply::Forked(Err(problem)) => Err(io::Error::other(problem)),
            _ => Err(unexpected()),
        }
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the process that replays gave an unexpected answer")
}

impl Timeline {
    /// Takes over a process that is about to begin.
    pub fn new(first: Process, ears: &mut Ears) -> io::Result<Timeline> {
        let stop = first.stopped(ears)?;
        let current = first.fork()?;
        let beginning = Checkpoint { process: first, stop: stop.clone(), lasts: true };
        let (stops, shown) = (Stops::default(), stop.mark.event);
        Ok(Timeline {
            checkpoints: vec![beginning],
            current,
            stop,
            stops,
            trail: None,
            shown,
            stride: 1,
            pauses: 0,
            searched: (0, 0),
        })
    }

    pub fn threads(&self) -> io::Result<Vec<Thread>> {
        wire::send(&self.current.stream, &Command::Threads)?;
        match wire::receive(&self.current.stream)? {
            Reply::Threads(threads) => Ok(threads),
            _ => Err(unexpected()),
        }
    }

    /// As many bytes as can be read.
    pub fn read(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        wire::send(&self.current.stream, &Command::Read { address, length })?;
        match wire::receive(&self.current.stream)? {
            Reply::Bytes(bytes) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    pub fn is_at_beginning(&self) -> bool {
        self.stop.mark == self.checkpoints[0].stop.mark
    }

    pub fn checkpoint_events(&self) -> Vec<u64> {
        self.checkpoints.iter().map(|checkpoint| checkpoint.stop.mark.event).collect()
    }

    /// Runs to the next stop.
    pub fn forward(&mut self, ears: &mut Ears) -> io::Result<()> {
        loop {
            self.advance(ears, Aim::Forward)?;
            if self.stop.why != Reason::Paused {
                return Ok(());
            }
            self.pause()?;
        }
    }

    /// Runs one instruction of the thread.
    pub fn step(&mut self, ears: &mut Ears, thread: u32) -> io::Result<()> {
        self.advance(ears, Aim::Step { thread })
    }

    fn advance(&mut self, ears: &mut Ears, aim: Aim) -> io::Result<()> {
        let errand = Errand { aim, stops: self.stops.clone(), shown: self.shown };
        self.stop = self.current.run(ears, &errand)?;
        self.shown = self.shown.max(self.stop.mark.event);
        Ok(())
    }

    /// Makes a checkpoint now and then where no run has been before.
    fn pause(&mut self) -> io::Result<()> {
        let newest = self.checkpoints.last().map(|last| last.stop.mark.coarse());
        if newest >= Some(self.stop.mark.coarse()) {
            return Ok(());
        }
        self.pauses += 1;
        if !self.pauses.is_multiple_of(self.stride) {
            return Ok(());
        }
        let process = self.current.fork()?;
        self.checkpoints.push(Checkpoint { process, stop: self.stop.clone(), lasts: true });
        if self.checkpoints.iter().filter(|checkpoint| checkpoint.lasts).count() > MOST_LASTING {
            self.stride *= 2;
            let mut keeps = false;
            self.checkpoints.retain(|checkpoint| {
                keeps ^= checkpoint.lasts;
                keeps || !checkpoint.lasts
            });
        }
        Ok(())
    }

    /// Runs back to the last stop before the present place, or to the beginning; `false` if that is where it is.
    pub fn backward(&mut self, ears: &mut Ears) -> io::Result<bool> {
        if self.is_at_beginning() {
            return Ok(false);
        }
        self.searched = (0, 0);
        let mut until = self.stop.mark;
        let mut index = self.last_before(until);
        while let Some(from) = index {
            if let Some(hit) = self.last_hit(ears, from, until)? {
                let near = self.checkpoint_before(ears, from, hit.event, hit.clock)?;
                let process = self.checkpoints[near].process.fork()?;
                let stop = process.run(ears, &self.errand(Aim::Hit(hit)))?;
                check(&stop)?;
                self.stop = Stop { why: hit.watch.map_or(Reason::Breakpoint, Reason::Watch), ..stop };
                self.current = process;
                return Ok(true);
            }
            until = self.checkpoints[from].stop.mark;
            index = from.checked_sub(1);
        }
        self.current = self.checkpoints[0].process.fork()?;
        self.stop = self.checkpoints[0].stop.clone();
        Ok(true)
    }

    /// The last stop between a checkpoint and a place, which is that of the next checkpoint or the present one.
    fn last_hit(&mut self, ears: &mut Ears, from: usize, until: Mark) -> io::Result<Option<Hit>> {
        let checkpoint = &self.checkpoints[from];
        let next = if until == self.stop.mark { &self.current } else { &self.checkpoints[from + 1].process };
        self.searched.1 += 1;
        if !next.may_have_passed(&self.stops, checkpoint.stop.mark)? {
            return Ok(None);
        }
        self.searched.0 += 1;
        let found = checkpoint.process.fork()?.run(ears, &self.errand(Aim::To(until)))?;
        check(&found)?;
        Ok(found.hit)
    }

    /// Undoes one instruction; `false` if none has run.
    pub fn step_back(&mut self, ears: &mut Ears) -> io::Result<bool> {
        let here = self.stop.mark;
        if self.is_at_beginning() {
            return Ok(false);
        }
        let known = self.trail.take().filter(|trail| trail.mark == here && trail.steps > 0);
        let (base, steps) = match known {
            Some(trail) => (trail.base, trail.steps),
            None => match self.way_to(ears, here)? {
                Some(way) => way,
                None => return Ok(false),
            },
        };
        let process = base.fork()?;
        let steps = steps.saturating_sub(1);
        let stop = process.run(ears, &blind(Aim::Steps(steps)))?;
        check(&stop)?;
        self.trail = Some(Trail { base, steps, mark: stop.mark });
        self.stop = Stop { why: Reason::Stepped, ..stop };
        self.current = process;
        Ok(true)
    }

    /// A process shortly before the place, and by how many instructions.
    fn way_to(&mut self, ears: &mut Ears, here: Mark) -> io::Result<Option<(Process, u64)>> {
        let Some(near) = self.place_before(ears, here)? else { return Ok(None) };
        // Where the same instruction is reached several times, the last time before is nearest.
        let same = Stops { breakpoints: BTreeSet::from([here.pc]), watched: Vec::new() };
        let errand = |aim| Errand { stops: same.clone(), ..blind(aim) };
        let found = self.checkpoints[near].process.fork()?.run(ears, &errand(Aim::To(here)))?;
        check(&found)?;
        let base = self.checkpoints[near].process.fork()?;
        if let Some(hit) = found.hit {
            check(&base.run(ears, &errand(Aim::Hit(hit)))?)?;
        }
        let counted = base.fork()?.run(ears, &blind(Aim::Count(here)))?;
        check(&counted)?;
        Ok(Some((base, counted.steps)))
    }

    /// A checkpoint a few instructions before a place.
    fn place_before(&mut self, ears: &mut Ears, here: Mark) -> io::Result<Option<usize>> {
        if let Some(from) = self.last_before(here) {
            // Further back than need be: the next step back needs it.
            let clock = here.clock.saturating_sub(LEEWAY).max(self.stop.first);
            let from = self.last_before(Mark { clock, ..here }).unwrap_or(from);
            let near = self.checkpoint_before(ears, from, here.event, clock)?;
            if self.checkpoints[near].stop.mark != here {
                return Ok(Some(near));
            }
        }
        // Nothing has run since the last event.
        let Some((event, first, last)) = self.stop.previous else { return Ok(None) };
        let usable = |checkpoint: &Checkpoint| {
            let coarse = checkpoint.stop.mark.coarse();
            coarse < (event, last) || checkpoint.stop.fresh && coarse == (event, first)
        };
        let Some(from) = self.checkpoints.iter().rposition(usable) else { return Ok(None) };
        self.checkpoint_before(ears, from, event, last).map(Some)
    }

    /// The last checkpoint that surely lies before the place.
    fn last_before(&self, place: Mark) -> Option<usize> {
        self.checkpoints.iter().rposition(|checkpoint| {
            let Stop { mark, fresh, .. } = &checkpoint.stop;
            mark.coarse() < place.coarse() || *fresh && mark.coarse() == place.coarse() && *mark != place
        })
    }

    /// Makes a checkpoint shortly before the clock is reached, from the one at `from`; tells where it is in the list.
    fn checkpoint_before(&mut self, ears: &mut Ears, from: usize, event: u64, clock: u64) -> io::Result<usize> {
        let process = self.checkpoints[from].process.fork()?;
        let stop = process.run(ears, &blind(Aim::Before { event, clock }))?;
        check(&stop)?;
        if let Some(known) = self.checkpoints.iter().position(|checkpoint| checkpoint.stop.mark == stop.mark) {
            return Ok(known);
        }
        let key = |stop: &Stop| (stop.mark.coarse(), !stop.fresh);
        let at = self.checkpoints.partition_point(|checkpoint| key(&checkpoint.stop) < key(&stop));
        let mark = stop.mark;
        self.checkpoints.insert(at, Checkpoint { process, stop, lasts: false });
        self.forget_passing(mark);
        let position = self.checkpoints.iter().position(|checkpoint| checkpoint.stop.mark == mark);
        position.ok_or_else(unexpected)
    }

    /// Lets the passing checkpoint go that is farthest away from the newest, if there are too many.
    fn forget_passing(&mut self, newest: Mark) {
        let passing = self.checkpoints.iter().enumerate().filter(|(_, checkpoint)| !checkpoint.lasts);
        if passing.clone().count() > MOST_PASSING {
            let distance = |mark: Mark| (mark.event.abs_diff(newest.event), mark.clock.abs_diff(newest.clock));
            let farthest = passing.max_by_key(|(_, checkpoint)| distance(checkpoint.stop.mark)).map(|(index, _)| index);
            farthest.map(|index| self.checkpoints.remove(index));
        }
    }

    fn errand(&self, aim: Aim) -> Errand {
        Errand { aim, stops: self.stops.clone(), shown: u64::MAX }
    }
}

/// A run that stops nowhere else and shows nothing.
fn blind(aim: Aim) -> Errand {
    Errand { aim, stops: Stops::default(), shown: u64::MAX }
}

/// A place that was found before must be found again, unless the user has lost patience.
fn check(stop: &Stop) -> io::Result<()> {
    match &stop.why {
        Reason::Arrived => Ok(()),
        Reason::Interrupted => Err(io::ErrorKind::Interrupted.into()),
        other => Err(io::Error::other(format!("the replay did not come to the same place again: {other:?}"))),
    }
}

//! How far a plan has come: which steps are in force, and what is due where a thread stands.

use super::plan::{Passage, Point, Spot, Step};
use sched::Policy;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub struct Course {
    steps: VecDeque<Step>,
    pub policy: Box<dyn Policy>,
    pub limit: u64,
    /// What is followed up to.
    follow: Option<(Point, Count)>,
    run: Option<Run>,
    pub holds: Vec<Hold>,
    changes: Vec<Change>,
    stops: Vec<(Point, Count)>,
    /// What begins when a thread's clock shows something.
    starts: Vec<(u32, u64, Start)>,
    /// Threads that stand at one of the plan's instructions.
    standing: BTreeMap<u32, Arrival>,
    arrivals: u64,
}

struct Run {
    thread: u32,
    until: Option<Point>,
    count: Count,
}

pub struct Hold {
    pub thread: u32,
    before: Spot,
    until: Until,
    arrivals: Count,
    passages: u64,
    returns: Count,
    /// What was waited for has come, or nobody waits for it any longer.
    pub over: bool,
}

/// What a held thread waits for.
enum Until {
    Passage(Passage),
    /// Another thread has changed this memory.
    Changed(Range<u64>),
}

impl Hold {
    fn new(thread: u32, before: &Spot, until: Until) -> Hold {
        let (arrivals, returns) = (Count::default(), Count::default());
        Hold { thread, before: before.clone(), until, arrivals, passages: 0, returns, over: false }
    }

    /// What a thread has to pass, if that is waited for.
    fn passage_of(&self, thread: u32) -> Option<&Passage> {
        match &self.until {
            Until::Passage(passage) if passage.thread == thread && !self.over => Some(passage),
            _ => None,
        }
    }

    /// The memory that somebody else has to change, if that is waited for.
    pub fn awaits(&self) -> Option<&Range<u64>> {
        match &self.until {
            Until::Changed(range) if !self.over => Some(range),
            _ => None,
        }
    }

    /// The other thread has passed once more; tells whether that was what is waited for.
    fn count_passage(&mut self, times: u64) -> bool {
        self.passages += 1;
        self.over = self.passages >= times;
        self.over
    }
}

struct Change {
    kind: Due,
    thread: Option<u32>,
    at: Spot,
    count: Count,
    /// So often it is still to be done.
    left: u64,
}

/// A thread has come to an instruction of the plan's.
#[derive(Clone, Copy)]
struct Arrival {
    thread: u32,
    pc: u64,
    clock: u64,
    number: u64,
}

impl Arrival {
    fn is_at(self, spot: &Spot) -> bool {
        spot.addresses.contains(&self.pc) && self.clock >= spot.since
    }
}

/// Arrivals at a spot; each counts once, however often it is looked at.
#[derive(Default)]
struct Count {
    seen: u64,
    last: u64,
}

impl Count {
    fn reaches(&mut self, arrival: Arrival, time: u64) -> bool {
        if self.last != arrival.number {
            self.last = arrival.number;
            self.seen += 1;
        }
        self.seen >= time
    }
}

/// What begins late, so that the run is as fast as any up to there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// It is kept where values come from.
    Origins,
    /// It is no longer.
    Pause,
    /// It is kept who writes to this memory.
    Writers(Vec<Range<u64>>),
    /// The plan acts at these instructions.
    Places(Vec<u64>),
}

/// What is to be done before a thread runs the instruction it stands at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// The recording has been followed far enough.
    Leave,
    /// The thread is to wait, by this hold.
    Hold(usize),
    Flip,
    Suppress,
    /// The same with all that depends on it.
    SuppressAll,
    /// The run of a thread has come to where it was to go.
    RunOver,
    /// Held threads may go on.
    Release,
    Stop,
}

impl Course {
    pub fn new(steps: Vec<Step>, policy: Box<dyn Policy>, limit: u64) -> Course {
        let starts = steps.iter().flat_map(Step::starts).collect();
        let mut course = Course {
            steps: steps.into(),
            policy,
            limit,
            follow: None,
            run: None,
            holds: Vec::new(),
            changes: Vec::new(),
            stops: Vec::new(),
            starts,
            standing: BTreeMap::new(),
            arrivals: 0,
        };
        course.put_in_force();
        if let Some(Step::Follow(_)) = course.steps.front()
            && let Some(Step::Follow(point)) = course.steps.pop_front()
        {
            course.follow = Some((point, Count::default()));
        }
        course
    }

    /// Puts the steps in force up to the next that takes its time.
    fn put_in_force(&mut self) {
        while let Some(step) = self.steps.front() {
            let (kind, thread, at, left) = match step {
                Step::Hold { thread, before, until } => {
                    self.holds.push(Hold::new(*thread, before, Until::Passage(until.clone())));
                    self.steps.pop_front();
                    continue;
                }
                Step::Await { thread, before, changed } => {
                    self.holds.push(Hold::new(*thread, before, Until::Changed(changed.clone())));
                    self.steps.pop_front();
                    continue;
                }
                Step::Flip { thread, at } => (Due::Flip, *thread, at.clone(), 1),
                Step::Suppress { thread, at, times, dependents } => {
                    let kind = if *dependents { Due::SuppressAll } else { Due::Suppress };
                    (kind, *thread, at.clone(), *times)
                }
                Step::Origins { .. } | Step::Writers(_) | Step::Output(_) => {
                    self.steps.pop_front();
                    continue;
                }
                Step::Stop(Some(point)) => {
                    self.stops.push((point.clone(), Count::default()));
                    self.steps.pop_front();
                    continue;
                }
                Step::Follow(_) | Step::Run { .. } | Step::Schedule(_) | Step::Stop(None) => return,
            };
            self.changes.push(Change { kind, thread, at, count: Count::default(), left });
            self.steps.pop_front();
        }
    }

    /// The run is free: the steps go on up to the next that takes its time. Tells whether to stop.
    pub fn go_on(&mut self) -> bool {
        self.follow = None;
        loop {
            self.put_in_force();
            match self.steps.pop_front() {
                Some(Step::Run { thread, until }) => {
                    self.run = Some(Run { thread, until, count: Count::default() });
                    return false;
                }
                Some(Step::Schedule(policy)) => self.policy = policy,
                Some(Step::Stop(_)) => return true,
                // Behind another step there is nothing left to follow.
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// The event before which the recording is to be left.
    pub fn leaves_at_event(&self) -> Option<u64> {
        match self.follow {
            Some((Point::Event(event), _)) => Some(event),
            _ => None,
        }
    }

    /// The clock at which the thread must stop.
    pub fn clock_for(&self, thread: u32) -> Option<u64> {
        let run = self.run.as_ref().and_then(|run| run.until.as_ref());
        let points = self.follow.iter().map(|(point, _)| point).chain(run);
        let points = points.chain(self.stops.iter().map(|(point, _)| point));
        // A thread stops where its clock is about to go on.
        let starts = self.starts.iter().filter(|(theirs, clock, _)| *theirs == thread && *clock > 0);
        let starts = starts.map(|(_, clock, _)| clock - 1);
        points
            .filter_map(|point| match *point {
                Point::Clock { thread: theirs, clock } if theirs == thread => Some(clock),
                _ => None,
            })
            .chain(starts)
            .min()
    }

    /// What begins where the thread's clock shows this, or is about to; each is told once.
    pub fn starts_at(&mut self, thread: u32, clock: u64) -> Vec<Start> {
        let starts = self.starts.extract_if(.., |(theirs, from, _)| is_due(*theirs, *from, thread, clock));
        starts.map(|(.., start)| start).collect()
    }

    /// Whether anything does.
    pub fn is_any_due(&self, thread: u32, clock: u64) -> bool {
        self.starts.iter().any(|(theirs, from, _)| is_due(*theirs, *from, thread, clock))
    }

    /// What is due because of the thread's clock.
    pub fn due_at_clock(&self, thread: u32, clock: u64) -> Option<Due> {
        let is_there = |point: &Point| matches!(*point, Point::Clock { thread: theirs, clock: wanted } if theirs == thread && clock >= wanted);
        match () {
            () if self.follow.as_ref().is_some_and(|(point, _)| is_there(point)) => Some(Due::Leave),
            () if self.stops.iter().any(|(point, _)| is_there(point)) => Some(Due::Stop),
            () => {
                let run = self.run.as_ref().and_then(|run| run.until.as_ref());
                run.filter(|point| is_there(point)).map(|_| Due::RunOver)
            }
        }
    }

    /// What is due because the thread stands at an instruction of the plan's.
    pub fn due_at_place(&mut self, thread: u32, pc: u64, clock: u64) -> Option<Due> {
        let arrival = match self.standing.get(&thread) {
            Some(&arrival) if arrival.pc == pc => arrival,
            _ => {
                self.arrivals += 1;
                let arrival = Arrival { thread, pc, clock, number: self.arrivals };
                self.standing.insert(thread, arrival);
                arrival
            }
        };
        if let Some((point, count)) = &mut self.follow {
            let leaves = arrives(point, count, arrival);
            // Holds that act later count already.
            self.returned(arrival);
            self.held(arrival);
            return leaves.then_some(Due::Leave);
        }
        if self.stops.iter_mut().any(|(point, count)| arrives(point, count, arrival)) {
            return Some(Due::Stop);
        }
        if let Some(Run { until: Some(point), count, .. }) = &mut self.run
            && arrives(point, count, arrival)
        {
            return Some(Due::RunOver);
        }
        if self.returned(arrival) {
            return Some(Due::Release);
        }
        self.held(arrival).or_else(|| self.changed(arrival))
    }

    fn held(&mut self, arrival: Arrival) -> Option<Due> {
        let mut due = None;
        for (index, hold) in self.holds.iter_mut().enumerate() {
            if hold.thread == arrival.thread
                && arrival.is_at(&hold.before)
                && hold.arrivals.reaches(arrival, hold.before.time)
                && !hold.over
            {
                due = due.or(Some(Due::Hold(index)));
            }
        }
        due
    }

    /// The thread has come back from a call. Tells whether somebody waited for just that.
    fn returned(&mut self, arrival: Arrival) -> bool {
        let mut any = false;
        for hold in &mut self.holds {
            let Some(passage) = hold.passage_of(arrival.thread) else { continue };
            if passage.returns.contains(&arrival.pc) && hold.returns.last != arrival.number {
                let times = passage.spot.time;
                hold.returns.last = arrival.number;
                any |= hold.count_passage(times);
            }
        }
        any
    }

    fn changed(&mut self, arrival: Arrival) -> Option<Due> {
        let mut due = None;
        for change in &mut self.changes {
            if change.thread.is_none_or(|theirs| theirs == arrival.thread)
                && arrival.is_at(&change.at)
                && change.count.reaches(arrival, change.at.time)
                && change.left > 0
                && due.is_none()
            {
                change.left -= 1;
                due = Some(change.kind);
            }
        }
        due
    }

    /// The thread has run the instruction it stood at. Tells whether somebody waited for just that.
    pub fn passed(&mut self, thread: u32) -> bool {
        let Some(arrival) = self.standing.remove(&thread) else { return false };
        let mut any = false;
        for hold in &mut self.holds {
            let Some(Passage { spot, .. }) = hold.passage_of(thread) else { continue };
            if arrival.is_at(spot) {
                let times = spot.time;
                any |= hold.count_passage(times);
            }
        }
        any
    }

    /// The thread that is to have the turn, if it can run.
    pub fn wanted(&self) -> Option<u32> {
        self.run.as_ref().map(|run| run.thread)
    }

    /// The wanted thread has the turn. Tells whether that was all that was wanted.
    pub fn is_run_over_at_once(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.until.is_none())
    }

    pub fn end_run(&mut self) {
        self.run = None;
    }

    /// The thread has ended; tells whether it was the one that was to run.
    pub fn ended(&mut self, thread: u32) -> bool {
        self.standing.remove(&thread);
        self.wanted() == Some(thread)
    }
}

/// Whether what begins with one thread's clock does where a thread's clock shows this.
fn is_due(theirs: u32, from: u64, thread: u32, clock: u64) -> bool {
    from == 0 || theirs == thread && clock >= from
}

fn arrives(point: &Point, count: &mut Count, arrival: Arrival) -> bool {
    match point {
        Point::Spot { thread, spot } => {
            thread.is_none_or(|thread| thread == arrival.thread)
                && arrival.is_at(spot)
                && count.reaches(arrival, spot.time)
        }
        Point::Event(_) | Point::Clock { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::RoundRobin;

    fn course(steps: Vec<Step>) -> Course {
        Course::new(steps, Box::new(RoundRobin::new(1)), 1000)
    }

    fn spot(address: u64, time: u64) -> Spot {
        Spot { addresses: vec![address], time, since: 0 }
    }

    fn hold(time: u64, passages: u64, returns: Vec<u64>) -> Step {
        let until = Passage { thread: 1, spot: spot(0x20, passages), returns };
        Step::Hold { thread: 2, before: spot(0x10, time), until }
    }

    #[test]
    fn a_hold_before_what_is_followed_counts_from_the_start_and_acts_later() {
        let follow = Step::Follow(Point::Spot { thread: Some(2), spot: spot(0x30, 1) });
        let mut course = course(vec![hold(2, 2, Vec::new()), follow]);
        for (pc, due) in [(0x10, None), (0x30, Some(Due::Leave))] {
            assert_eq!(course.due_at_place(2, pc, 0), due);
            course.passed(2);
        }
        assert_eq!(course.due_at_place(1, 0x20, 0), None);
        course.passed(1);
        course.go_on();
        assert_eq!(course.due_at_place(2, 0x10, 0), Some(Due::Hold(0)), "for the second time");
        assert_eq!(course.due_at_place(1, 0x20, 0), None);
        assert!(course.passed(1), "for the second time");
    }

    #[test]
    fn a_thread_is_held_from_the_wanted_arrival_until_the_other_has_passed() {
        let mut course = course(vec![hold(2, 2, Vec::new())]);
        assert_eq!(course.due_at_place(1, 0x10, 0), None, "another thread");
        assert_eq!(course.due_at_place(2, 0x10, 0), None, "the first arrival");
        assert!(!course.passed(2));
        assert_eq!(course.due_at_place(2, 0x10, 0), Some(Due::Hold(0)));
        assert_eq!(course.due_at_place(2, 0x10, 0), Some(Due::Hold(0)), "still the same arrival");
        for last in [false, true] {
            assert_eq!(course.due_at_place(1, 0x20, 0), None);
            assert_eq!(course.passed(1), last);
        }
        assert_eq!(course.due_at_place(2, 0x10, 0), None);
    }

    #[test]
    fn who_has_come_back_from_a_call_has_passed() {
        let mut course = course(vec![hold(1, 1, vec![0x30])]);
        assert_eq!(course.due_at_place(2, 0x10, 0), Some(Due::Hold(0)));
        assert_eq!(course.due_at_place(2, 0x30, 0), None, "it waits for the other");
        assert_eq!(course.due_at_place(1, 0x30, 0), Some(Due::Release));
        assert_eq!(course.due_at_place(1, 0x30, 0), None);
        assert!(course.holds[0].over);
    }

    #[test]
    fn a_thread_waits_for_memory_until_that_is_over() {
        let mut course = course(vec![Step::Await { thread: 2, before: spot(0x10, 1), changed: 0x500..0x508 }]);
        assert_eq!(course.due_at_place(2, 0x10, 0), Some(Due::Hold(0)));
        assert_eq!(course.due_at_place(1, 0x10, 0), None);
        assert!(!course.passed(1), "nobody waits for a passage");
        assert_eq!(course.holds[0].awaits(), Some(&(0x500..0x508)));
        course.holds[0].over = true;
        assert_eq!((course.due_at_place(2, 0x10, 0), course.holds[0].awaits()), (None, None));
    }

    #[test]
    fn a_branch_is_flipped_once_at_the_wanted_time() {
        let mut course = course(vec![Step::Flip { thread: None, at: spot(0x10, 2) }]);
        let arrivals = [3, 1, 1, 3].map(|thread| {
            let due = course.due_at_place(thread, 0x10, 0);
            course.passed(thread);
            due
        });
        assert_eq!(arrivals, [None, Some(Due::Flip), None, None]);
    }

    #[test]
    fn arrivals_count_from_a_clock_on() {
        let at = Spot { since: 7, ..spot(0x10, 2) };
        let mut course = course(vec![Step::Suppress { thread: Some(1), at, times: 2, dependents: true }]);
        assert_eq!((course.clock_for(1), course.clock_for(2)), (Some(6), None), "where the clock is about to show 7");
        let arrivals = [5, 7, 7, 9, 9].map(|clock| {
            let due = course.due_at_place(1, 0x10, clock);
            course.passed(1);
            due
        });
        assert_eq!(arrivals, [None, None, Some(Due::SuppressAll), Some(Due::SuppressAll), None]);
        assert_eq!([course.starts_at(2, 7), course.starts_at(1, 6)], [Vec::new(), Vec::new()]);
        assert_eq!(course.starts_at(1, 7), [Start::Places(vec![0x10])]);
        assert!(course.clock_for(1).is_none() && course.starts_at(1, 8).is_empty(), "once is enough");
    }

    #[test]
    fn holds_count_from_clocks_on() {
        let until = Passage { thread: 1, spot: Spot { since: 5, ..spot(0x20, 1) }, returns: Vec::new() };
        let mut course = course(vec![Step::Hold { thread: 2, before: Spot { since: 7, ..spot(0x10, 2) }, until }]);
        assert_eq!([course.clock_for(1), course.clock_for(2)], [Some(4), Some(6)]);
        let arrivals = [6, 7, 8].map(|clock| {
            let due = course.due_at_place(2, 0x10, clock);
            course.standing.remove(&2);
            due
        });
        assert_eq!(arrivals, [None, None, Some(Due::Hold(0))]);
        for (clock, is_over) in [(4, false), (5, true)] {
            assert_eq!(course.due_at_place(1, 0x20, clock), None);
            assert_eq!(course.passed(1), is_over, "at {clock}");
        }
    }

    #[test]
    fn nothing_is_in_force_before_the_recording_has_been_followed() {
        let until = Point::Spot { thread: Some(1), spot: spot(0x40, 1) };
        let mut course = course(vec![Step::Follow(until), hold(1, 1, Vec::new()), Step::Stop(None)]);
        assert_eq!(course.due_at_place(2, 0x10, 0), None);
        assert_eq!(course.due_at_place(1, 0x40, 0), Some(Due::Leave));
        assert!(course.go_on(), "the last step stops");
        assert_eq!(course.due_at_place(2, 0x10, 0), Some(Due::Hold(0)));
    }

    #[test]
    fn clocks_are_points() {
        let until = Some(Point::Clock { thread: 2, clock: 9 });
        let mut course = course(vec![Step::Follow(Point::Event(5)), Step::Run { thread: 2, until }]);
        assert_eq!((course.leaves_at_event(), course.clock_for(2)), (Some(5), None));
        assert!(!course.go_on());
        assert_eq!((course.wanted(), course.clock_for(2), course.clock_for(1)), (Some(2), Some(9), None));
        assert_eq!((course.due_at_clock(2, 8), course.due_at_clock(2, 9)), (None, Some(Due::RunOver)));
    }
}

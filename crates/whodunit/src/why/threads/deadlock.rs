//! Threads that wait for ever: a ring of locks, or something that came before they waited for it.

use super::trial::{Effect, Trial};
use super::{Examined, Examiner};
use crate::predict::plans::NEVER;
use crate::recordings::Trouble;
use crate::rerun::{carry_out, outcomes};
use crate::study::Study;
use analysis::neighbours::{Stuck, blockade, ring};
use analysis::predict::Held;
use session::rerun::{Ending, Outcome, Passage, Plan, Point, Step};
use std::collections::BTreeSet;
use trace::finding::Step as Told;
use trace::finding::{Cause, Class, Evidence, Failure, Finding, Place, Side, Thread, Wait};

/// The status of a run in which no thread can ever run again.
pub const STUCK: i32 = 124;

impl Examiner<'_> {
    /// A run that failed otherwise than by a crash.
    pub fn end(&self, outcome: &Outcome) -> Result<Examined, Trouble> {
        let examined = if is_stuck(outcome) { self.deadlock(outcome)? } else { self.around(outcome, outcome)? };
        if examined.is_proved || examined.finding.as_ref().is_some_and(|finding| finding.class == Class::Deadlock) {
            return Ok(examined);
        }
        let races = self.races(outcome)?;
        Ok(if races.is_proved || examined.finding.is_none() { races } else { examined })
    }

    fn deadlock(&self, outcome: &Outcome) -> Result<Examined, Trouble> {
        let stuck: Vec<Stuck> = self.passes().ask(Study::Waiting(self.known.libraries.clone()))?;
        let ring = ring(&stuck);
        let blockade = if ring.is_empty() { blockade(&stuck) } else { ring.clone() };
        let told = self.told_ring(&blockade);
        if told.is_proved {
            return Ok(told);
        }
        for waiting in stuck.iter().filter(|waiting| waiting.call.pc != 0) {
            let Some(before) = self.before_the_wait(waiting) else { continue };
            let examined = self.around(&before, outcome)?;
            if examined.is_proved {
                return Ok(examined);
            }
        }
        Ok(if ring.is_empty() { self.examined(None, false) } else { told })
    }

    /// The run up to where a thread waits for ever, with its data followed.
    fn before_the_wait(&self, waiting: &Stuck) -> Option<Outcome> {
        let origins = Step::Origins { thread: waiting.thread, clock: 0, until: None };
        let at = Some(format!("{:#x}", waiting.call.pc));
        let stop = Point { event: None, thread: Some(waiting.thread), clock: None, at, time: waiting.call.time };
        let plan = Plan::new(vec![origins, Step::Stop(stop)]);
        carry_out(self.subject.recording.folder(), self.subject.log, &plan).ok()
    }

    /// One thread of a ring takes its lock when the others are done.
    fn told_ring(&self, ring: &[&Stuck]) -> Examined {
        let trials = ring.iter().filter_map(|stuck| {
            let plan = late(stuck, self.held(ring, stuck)?, ring)?;
            self.count_run();
            Some((stuck.thread, self.court.run(plan)?))
        });
        let proof = trials.into_iter().find(|(_, trial)| trial.effect == Effect::Gone);
        let is_proved = proof.is_some();
        self.examined(Some(self.ring_finding(ring, proof)), is_proved)
    }

    /// The lock of a thread in a ring that another one waits for.
    fn held<'s>(&self, ring: &[&Stuck], of: &'s Stuck) -> Option<&'s Held> {
        ring.iter().find_map(|other| other.wants(of))
    }

    fn ring_finding(&self, ring: &[&Stuck], proof: Option<(u32, Trial)>) -> Finding {
        let numbers: BTreeSet<u32> = ring.iter().map(|stuck| stuck.thread).collect();
        let title = title(ring);
        let plan = proof.as_ref().map(|(_, trial)| &trial.plan);
        let mut finding = match plan {
            Some(plan) => Finding::proved(Class::Deadlock, &title, &self.subject.command(plan)),
            None => Finding::suspected(Class::Deadlock, &title),
        };
        for stuck in ring {
            self.tell_stuck(ring, stuck, &mut finding);
        }
        finding.steps = self.ring_steps(ring);
        finding.threads = numbers.into_iter().map(|thread| Thread { thread, ..Thread::default() }).collect();
        finding.failure = Some(Failure { text: "no thread can ever run again".to_owned(), ..Failure::default() });
        if let Some((thread, _)) = proof {
            let sentence = "takes its lock when the others are done, in a what-if run, the program comes to its end";
            finding.grounds.push(format!("If thread {thread} {sentence}."));
        }
        let (recording, process) = (Some(self.subject.name.clone()), Some(self.subject.log));
        let plan = finding_plan(plan);
        finding.evidence = Evidence { recording, process, plan, ..Evidence::default() };
        finding
    }

    fn tell_stuck(&self, ring: &[&Stuck], stuck: &Stuck, finding: &mut Finding) {
        let waited = ring.iter().find_map(|other| Some((other.thread, stuck.wants(other)?)));
        let place = self.waiting_place(stuck);
        let text = match (waited, self.held(ring, stuck)) {
            (Some((_, held)), _) => format!("waits for {}", self.lock_name(held)),
            (None, Some(held)) => format!("waits while it holds {}", self.lock_name(held)),
            (None, None) => "waits for a lock".to_owned(),
        };
        finding.causes.push(Cause { place, thread: Some(stuck.thread), text });
        let bench = self.bench();
        let locks = Some(stuck.locks.iter().map(|held| bench.lock(held)).collect());
        let stack = self.names.callers(&stuck.callers);
        let waits_for = waited.map(|(holder, held)| Wait { lock: bench.lock(held), held_by: Some(holder) });
        finding.sides.push(Side { thread: stuck.thread, text: "waits".to_owned(), stack, locks, waits_for });
    }

    /// The acquisitions in their order, then the waits that close the ring.
    fn ring_steps(&self, ring: &[&Stuck]) -> Vec<Told> {
        let mut taken: Vec<(&Stuck, &Held)> =
            ring.iter().filter_map(|stuck| Some((*stuck, self.held(ring, stuck)?))).collect();
        taken.sort_by_key(|(_, held)| held.section);
        let took = taken.iter().map(|(stuck, held)| Told {
            thread: stuck.thread,
            place: self.names.place(held.taken.pc).into_iter().next().unwrap_or_default(),
            text: format!("takes {}", self.lock_name(held)),
            guilty: true,
        });
        let holders = taken.iter().map(|(stuck, _)| *stuck);
        let others = ring.iter().filter(|stuck| self.held(ring, stuck).is_none()).copied();
        let waits = holders.chain(others).map(|stuck| Told {
            thread: stuck.thread,
            place: self.waiting_place(stuck),
            text: match ring.iter().find_map(|other| Some((other.thread, stuck.wants(other)?))) {
                Some((holder, held)) => format!("waits for {}, which thread {holder} holds", self.lock_name(held)),
                None => "waits".to_owned(),
            },
            guilty: true,
        });
        took.chain(waits).collect()
    }

    fn waiting_place(&self, stuck: &Stuck) -> Place {
        self.names.place(stuck.call.pc).into_iter().next().unwrap_or_default()
    }

    fn lock_name(&self, held: &Held) -> String {
        self.names.lock(held.object).unwrap_or_else(|| format!("the lock at {:#x}", held.object))
    }
}

/// A ring waits for locks of its own; of a blockade, the first holds the lock.
fn title(ring: &[&Stuck]) -> String {
    let is_waiting = |stuck: &Stuck| ring.iter().any(|other| stuck.wants(other).is_some());
    let named = |threads: &[&Stuck]| {
        let numbers: BTreeSet<u32> = threads.iter().map(|stuck| stuck.thread).collect();
        let names: Vec<String> = numbers.iter().map(u32::to_string).collect();
        if names.len() == 1 { format!("thread {}", names[0]) } else { format!("threads {}", names.join(", ")) }
    };
    match ring {
        [only] => format!("{} waits for a lock that it holds", named(&[only])),
        [holder, others @ ..] if !is_waiting(holder) => {
            format!("{} waits while it holds a lock that is waited for by {}", named(&[holder]), named(others))
        }
        several => format!("{} wait for each other's locks", named(several)),
    }
}

fn finding_plan(plan: Option<&Plan>) -> Option<serde_json::Value> {
    plan.and_then(|plan| serde_json::to_value(plan).ok())
}

/// Whether a run ended since no thread could run: it did not ask to end.
pub fn is_stuck(outcome: &Outcome) -> bool {
    let failed = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
    let function = failed.and_then(|thread| thread.stack.first()).and_then(|frame| frame.function.as_deref());
    let asks = function.is_some_and(|function| function.to_lowercase().contains("exit"));
    outcome.ending == Ending::Deadlock {} || outcome.ending == Ending::Exited { status: STUCK } && !asks
}

/// A thread comes to its lock when another one of the ring, and everybody else, is done.
fn late(stuck: &Stuck, held: &Held, ring: &[&Stuck]) -> Option<Plan> {
    let other = ring.iter().find(|other| other.thread != stuck.thread)?;
    let until = Passage { thread: other.thread, passes: format!("{:#x}", NEVER.pc), clock: None, time: NEVER.time };
    let (before, time) = (format!("{:#x}", held.taken.pc), held.taken.time);
    let hold = Step::Hold { thread: stuck.thread, before, clock: None, time, until };
    (held.taken.pc != 0).then(|| Plan { limit: Some(outcomes::LIMIT), ..Plan::new(vec![hold]) })
}

//! Tries suspects out: what-if runs of the failing run with the accesses apart, and of a passing one with them in the guilty
//! order.
//!
//! A run that leaves its recording goes on with another schedule, which alone may let it pass or fail. So each attempt has a
//! counterpart that leaves at the same point and holds nobody: only if the two end differently, the order is to blame. If they do
//! not, a run that leaves at the same point and makes the opposite order is the counterpart. Where that shows nothing of the
//! failing run, since a third thread undoes the order or one of the two comes too soon, others stand by, in the attempt and in its counterpart alike.

use super::Case;
use super::hearing::Source;
use super::plans::{Act, apart, in_order, others_stand_by};
use crate::hunt::Ground;
use crate::progress::Line;
use crate::rerun::{self, outcomes};
use session::rerun::{Ending, Outcome, Passage, Plan, Step};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::{Recording, Store};

/// Numbers of schedules are never so large.
const NUMBER: u64 = u64::MAX;
const STANDARD_OUTPUT: i32 = 1;
/// How many passing runs are made to fail, until one does: not each comes to all accesses as often as the failing one.
const MOST_PASSING: usize = 8;

/// What shows that an order is to blame.
pub struct Proof {
    pub plan: Plan,
    /// The command that shows it again.
    pub command: String,
    /// As users call the recording, and the process in it.
    pub recording: String,
    pub process: u32,
    /// What came of it, as a sentence.
    pub ground: String,
}

/// What makes the failing run pass: a thread is held until another has passed something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Repair {
    held: u32,
    until: Passage,
}

impl Repair {
    /// A plan for accesses apart holds one thread, once.
    fn of(plan: &Plan) -> Option<Repair> {
        plan.steps.iter().find_map(|step| match step {
            Step::Hold { thread, until, .. } => Some(Repair { held: *thread, until: until.clone() }),
            _ => None,
        })
    }
}

/// Tries suspects out, a limited number of them.
pub struct Trials<'a> {
    case: &'a Case,
    most: usize,
    tried: usize,
    line: Line,
    /// The failing and a passing run as they were recorded; none if they cannot be run.
    recorded: OnceCell<Option<(Outcome, Outcome)>>,
    /// Where passing runs are now that they are kept for the user.
    kept: BTreeMap<usize, PathBuf>,
    /// What has made the failing run pass so far.
    repairs: Vec<Repair>,
    /// The accesses of what is proved.
    guilty: Vec<Act>,
}

/// What a run did that left its recording where the one did that is to show something.
enum Control {
    NobodyHeld,
    OppositeOrder,
}

impl Control {
    fn text(&self) -> &'static str {
        match self {
            Control::NobodyHeld => "when nobody was held",
            Control::OppositeOrder => "with the accesses in the opposite order",
        }
    }
}

/// In how many ways a run goes on.
const WAYS: usize = 3;

/// Who runs where a run has left its recording and nobody is held.
#[derive(Clone)]
enum Onwards {
    InTurn,
    /// Whoever has a part in the order, by this step.
    OthersStandBy(Step),
}

impl Onwards {
    /// All ways, for a plan that holds a thread.
    fn ways(held: u32, acts: &[Act]) -> [Onwards; WAYS] {
        let [before, behind] = others_stand_by(held, acts).map(Onwards::OthersStandBy);
        [Onwards::InTurn, before, behind]
    }

    fn with(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        if let Onwards::OthersStandBy(schedule) = self {
            plan.steps.push(schedule.clone());
        }
        plan
    }

    fn text(&self) -> &'static str {
        match self {
            Onwards::InTurn => "",
            Onwards::OthersStandBy(_) => " Threads that have no part in it stood by in both runs.",
        }
    }
}

impl<'a> Trials<'a> {
    pub fn new(case: &'a Case, most: usize) -> Trials<'a> {
        Trials {
            case,
            most,
            tried: 0,
            line: Line::new(),
            recorded: OnceCell::new(),
            kept: BTreeMap::new(),
            repairs: Vec::new(),
            guilty: Vec::new(),
        }
    }

    /// Tries the ways out in which a suspect came about, until one of them is proved; tells that one. Nothing if no run shows it, if what
    /// was proved before explains it, or if enough were tried.
    pub fn try_out(&mut self, ways: &[Vec<Act>]) -> Option<(Vec<Act>, Proof)> {
        let ways: Vec<&Vec<Act>> = ways.iter().filter(|acts| !apart(acts).is_empty()).collect();
        if self.tried >= self.most || ways.is_empty() {
            return None;
        }
        self.tried += 1;
        let (tried, most) = (self.tried, self.most);
        self.line.show(|| format!("Trying other orders: {tried} of at most {most}"));
        let proved = ways.into_iter().find_map(|acts| Some((acts.clone(), self.prove(acts)?)));
        self.line.end();
        self.guilty.extend(proved.iter().flat_map(|(acts, _)| acts.clone()));
        proved
    }

    fn prove(&mut self, acts: &[Act]) -> Option<Proof> {
        if self.is_explained(acts) {
            return None;
        }
        let repaired = self.gone_when_apart(acts);
        match repaired {
            Some(proof) => self.is_news(&proof).then_some(proof),
            // The failing run passes without another order: what can only be forced on passing runs is not why it failed.
            None if !self.repairs.is_empty() => None,
            None => self.there_when_forced(acts),
        }
    }

    /// Whether an access has a part in what is proved: what else it meets is the same interruption, seen by another thread or by
    /// another variable, or at another time.
    fn is_explained(&self, acts: &[Act]) -> bool {
        acts.iter().any(|act| self.guilty.iter().any(|guilty| guilty.at.pc == act.at.pc))
    }

    /// Whether a repair is another one than those before. If it takes the same thread to be kept out until the same moment, two
    /// findings are one interruption, seen by different variables.
    fn is_news(&mut self, proof: &Proof) -> bool {
        let Some(repair) = Repair::of(&proof.plan) else { return true };
        let is_news = !self.repairs.contains(&repair);
        self.repairs.push(repair);
        is_news
    }

    /// The failing run passes with the accesses apart.
    fn gone_when_apart(&self, acts: &[Act]) -> Option<Proof> {
        let plans = apart(acts);
        let attempts = (0..WAYS).flat_map(|way| plans.iter().map(move |(held, plan)| (way, *held, plan)));
        let mut attempts = attempts.map(|(way, held, plan)| (held, plan, Onwards::ways(held, acts)[way].clone()));
        attempts.find_map(|(held, plan, onwards)| self.passes_when_apart(acts, held, plan, &onwards))
    }

    fn passes_when_apart(&self, acts: &[Act], held: u32, plan: &Plan, onwards: &Onwards) -> Option<Proof> {
        let failing = &self.case.failing;
        let run = (failing.recording.folder(), failing.log);
        let plan = onwards.with(plan);
        let outcome = rerun::carry_out(run.0, run.1, &plan).ok()?;
        if outcomes::obstacle(&outcome, held).is_some() {
            return None;
        }
        let control = self.control(run, &outcome, false, acts, &[in_order(acts)], onwards)?;
        let ground = outcome.left.map_or_else(String::new, |left| {
            let (thread, place) = (left.thread, left.place);
            let (control, onwards) = (control.text(), onwards.text());
            format!(
                "A what-if run of the failing run held thread {thread} at {place} until the other one was past: the program \
                 passed. From the same point on, it failed {control}.{onwards}"
            )
        });
        let (name, process) = (failing.name(), failing.log);
        let command = outcomes::command(&failing.recording, &name, process, &plan);
        Some(Proof { plan, command, recording: name, process, ground })
    }

    /// A passing run fails with the accesses in this order.
    fn there_when_forced(&mut self, acts: &[Act]) -> Option<Proof> {
        (0..self.case.passing.len().min(MOST_PASSING)).find_map(|number| self.fails_when_forced(number, acts))
    }

    fn fails_when_forced(&mut self, number: usize, acts: &[Act]) -> Option<Proof> {
        let passing = &self.case.passing[number];
        let plan = in_order(acts);
        let folder = self.kept.get(&number).map_or(passing.recording.folder(), PathBuf::as_path);
        let outcome = rerun::carry_out(folder, passing.log, &plan).ok()?;
        if !has_come(&outcome, acts) {
            return None;
        }
        let opposite: Vec<Plan> = apart(acts).into_iter().map(|(_, plan)| plan).collect();
        let control = self.control((folder, passing.log), &outcome, true, acts, &opposite, &Onwards::InTurn)?;
        let recording = self.keep(number)?;
        let (name, process) = (crate::races::user_name(recording.folder()), passing.log);
        let how = outcomes::failure(&outcome).text;
        let control = control.text();
        let ground = format!(
            "A what-if run of a passing run made the accesses in this order: it failed ({how}). From the same point on, it \
             passed {control}."
        );
        let command = outcomes::command(&recording, &name, process, &plan);
        Some(Proof { plan, command, recording: name, process, ground })
    }

    /// What shows that a what-if run failed or passed, as `has_failed` says, because of the order that it made: a run that leaves the
    /// recording at the same point and ends the other way. Nobody is held there; or, where the schedule from there on does the same
    /// either way, one of the plans for the opposite order is carried out.
    fn control(
        &self,
        (folder, log): (&Path, u32),
        outcome: &Outcome,
        has_failed: bool,
        acts: &[Act],
        opposite: &[Plan],
        onwards: &Onwards,
    ) -> Option<Control> {
        let left = outcome.left.as_ref().filter(|_| self.has_failed(outcome) == Some(has_failed))?;
        let ended_otherwise = |plan: &Plan| {
            let other = rerun::carry_out(folder, log, &onwards.with(plan)).ok()?;
            (self.has_failed(&other) == Some(!has_failed)).then_some(other)
        };
        if ended_otherwise(&outcomes::counterpart(left)).is_some() {
            return Some(Control::NobodyHeld);
        }
        let is_otherwise = |plan: &Plan| {
            let other = ended_otherwise(&outcomes::from_there(left, plan.steps.clone()));
            other.is_some_and(|other| has_come(&other, acts))
        };
        opposite.iter().any(is_otherwise).then_some(Control::OppositeOrder)
    }

    /// Whether a run has failed; nothing if that cannot be told.
    fn has_failed(&self, outcome: &Outcome) -> Option<bool> {
        match (&outcome.ending, &self.case.ground) {
            (Ending::Limit {} | Ending::LeftTheRecording { .. } | Ending::OutOfInput {} | Ending::Stopped {}, _) => {
                None
            }
            (Ending::Killed { .. } | Ending::Deadlock {}, Some(_)) => Some(true),
            (Ending::Exited { status }, Some(ground)) => {
                if *status == 0 {
                    checked(ground, outcome)
                } else {
                    Some(true)
                }
            }
            (_, None) => self.is_like_the_failing_run(outcome),
        }
    }

    /// Of given recordings, nobody knows what makes a failure but that the runs differ.
    fn is_like_the_failing_run(&self, outcome: &Outcome) -> Option<bool> {
        let recorded = |source: &Source| outcomes::recorded(source.recording.folder(), source.log).ok();
        let recorded =
            self.recorded.get_or_init(|| Some((recorded(&self.case.failing)?, recorded(self.case.passing.first()?)?)));
        let (failing, passing) = recorded.as_ref()?;
        match (failing.ending == passing.ending, outcomes::is_same(passing, failing)) {
            (_, true) => None,
            (true, false) => Some(!outcomes::is_same(passing, outcome)),
            (false, false) => Some(outcome.ending != passing.ending),
        }
    }

    /// A passing run in a place where the user finds it.
    fn keep(&mut self, number: usize) -> Option<Recording> {
        let passing = &self.case.passing[number];
        if self.case.ground.is_none() {
            return Recording::open(passing.recording.folder()).ok();
        }
        if !self.kept.contains_key(&number) {
            let store = Store::from_environment().ok()?;
            let folder = store.adopt(passing.recording.folder(), &passing.recorded.program()).ok()?;
            // The failing run is what people look for.
            let _ = store.point_latest_to(self.case.failing.recording.folder());
            self.kept.insert(number, folder);
        }
        Recording::open(self.kept.get(&number)?).ok()
    }
}

/// Whether no thread of the acts was in the way of the order that a plan makes.
fn has_come(outcome: &Outcome, acts: &[Act]) -> bool {
    acts.iter().all(|act| outcomes::obstacle(outcome, act.thread).is_none())
}

fn checked(ground: &Ground, outcome: &Outcome) -> Option<bool> {
    let written = outcome.output.iter().filter(|output| output.descriptor == STANDARD_OUTPUT);
    let text: String = written.map(|output| output.text.as_str()).collect();
    ground.fails_with(NUMBER, text.as_bytes()).ok()
}

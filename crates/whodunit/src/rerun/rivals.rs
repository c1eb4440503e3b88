//! Many plans for one recording: one process follows it, and copies of that carry the plans out, each from where its own plan
//! first acts.
//!
//! The process gets the plans on its standard input, and tells a line for each outcome: which plan it is of, and the outcome.
//! Only plans that do nothing but hold threads can be carried out so.

use super::Preparing;
use crate::recordings::{self, Trouble};
use crate::show::recorded;
use crate::voice;
use engine::Plans;
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::stdio::dup2_stdout;
use serde::{Deserialize, Serialize};
use session::rerun::{Outcome, Plan};
use std::collections::VecDeque;
use std::io::{self, PipeReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use trace::Recording;

/// So many copies run at a time at most.
const MOST_AT_A_TIME: usize = 4;

/// What is wanted of the process that follows the recording.
#[derive(Serialize, Deserialize)]
struct Wanted {
    plans: Vec<Plan>,
    /// Also how the run went as it was recorded.
    recorded: bool,
}

/// An outcome, and the plan that it is of; of none for the run as it was recorded.
#[derive(Serialize, Deserialize)]
struct Told {
    plan: Option<usize>,
    outcome: Outcome,
}

/// What came of several plans.
pub struct Outcomes {
    /// How the run went as it was recorded, if that was asked for and can be told.
    pub recorded: Option<Outcome>,
    /// By plan. Nothing of those that never acted, or that cannot be carried out.
    pub of_plans: Vec<Option<Outcome>>,
}

/// Carries out all of these plans, and tells where the threads are of those runs that fail. To find names takes longer than most runs.
pub fn try_all(folder: &Path, log: u32, plans: Vec<Plan>, recorded: bool) -> Result<Outcomes, Trouble> {
    let cannot_start = |error: io::Error| Trouble::Refused(format!("cannot start a run: {error}"));
    let mut outcomes = Outcomes { recorded: None, of_plans: plans.iter().map(|_| None).collect() };
    let mut command = Command::new(std::env::current_exe().map_err(cannot_start)?);
    command.args(["replay", "--quiet", "--no-report", "--brief", "--rivals", "--process"]).arg(log.to_string());
    command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(cannot_start)?;
    let words = serde_json::to_vec(&Wanted { plans, recorded }).map_err(|error| cannot_start(error.into()))?;
    // It reads all of it before it tells anything; one that refuses does not.
    let _ = child.stdin.take().map(|mut input| input.write_all(&words));
    let output = child.wait_with_output().map_err(cannot_start)?;
    for line in output.stdout.split(|byte| *byte == b'\n') {
        // A copy that came to grief has told nothing.
        let Ok(Told { plan, outcome }) = serde_json::from_slice(line) else { continue };
        match plan {
            None => outcomes.recorded = Some(outcome),
            Some(number) => outcomes.of_plans[number] = Some(outcome),
        }
    }
    Ok(outcomes)
}

/// The copies of this process, as seen from it.
pub struct Branches {
    /// Which plan the engine's rival of a number is.
    numbers: Vec<usize>,
    tells_recorded: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The copies that have not been heard to the end, the oldest first.
    running: VecDeque<Branch>,
    n_made: usize,
    /// This process is a copy itself.
    is_copy: bool,
}

struct Branch {
    plan: usize,
    pid: u32,
    answer: PipeReader,
}

/// The plans on standard input, as the engine takes them, and who sees to the copies.
pub fn given(recording: &Recording, log: u32) -> Result<(Plans, Branches), String> {
    let wanted: Wanted = serde_json::from_reader(io::stdin()).map_err(|error| format!("no plans: {error}"))?;
    let recorded = recorded(recording, log).ok_or_else(|| format!("the recording has no process {log}"))?;
    let preparing = Preparing::new(recorded);
    let own = preparing.plan(&Plan::new(Vec::new()), None)?;
    // One that cannot be carried out is left out, as if it had never acted.
    let prepared =
        wanted.plans.iter().enumerate().filter_map(|(number, plan)| Some((number, preparing.plan(plan, None).ok()?)));
    let (numbers, rivals) = prepared.unzip();
    let branches = Branches { numbers, tells_recorded: wanted.recorded, state: Mutex::default() };
    Ok((Plans { own: Some(own), rivals }, branches))
}

impl Branches {
    /// Makes a copy for one of the plans; tells whether this is it.
    pub fn make(&self, rival: usize) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let at_a_time = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_A_TIME);
        while state.running.len() >= at_a_time {
            state.hear_oldest();
        }
        match state.copy(self.numbers[rival]) {
            Ok(is_copy) => state.is_copy = is_copy,
            Err(error) => voice::say(&format!("whodunit: a plan cannot be carried out: {error}\n")),
        }
        state.n_made += 1;
        if !state.is_copy && !self.tells_recorded && state.n_made == self.numbers.len() {
            state.hear_all();
            engine::leave(0);
        }
        state.is_copy
    }

    /// Hears what the copies have to tell. Says whether this is the process that they were copied from.
    pub fn hear(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.hear_all();
        !state.is_copy
    }

    /// Tells how the run went as it was recorded.
    pub fn tell_recorded(&self, outcome: Outcome) {
        tell(&Told { plan: None, outcome });
    }
}

impl State {
    fn copy(&mut self, plan: usize) -> io::Result<bool> {
        let (answer, writer) = io::pipe()?;
        match engine::copy_process()? {
            None => {
                dup2_stdout(writer)?;
                self.running.clear();
                Ok(true)
            }
            Some(pid) => {
                self.running.push_back(Branch { plan, pid, answer });
                Ok(false)
            }
        }
    }

    fn hear_all(&mut self) {
        while !self.running.is_empty() {
            self.hear_oldest();
        }
    }

    /// Waits until the oldest copy has told its outcome, and passes that on.
    fn hear_oldest(&mut self) {
        let Some(Branch { plan, pid, mut answer }) = self.running.pop_front() else { return };
        let mut bytes = Vec::new();
        let is_heard = answer.read_to_end(&mut bytes).is_ok();
        let _ = Pid::from_raw(pid.cast_signed()).map(|pid| waitpid(Some(pid), WaitOptions::empty()));
        if let Some(outcome) = is_heard.then(|| serde_json::from_slice(&bytes).ok()).flatten() {
            tell(&Told { plan: Some(plan), outcome });
        }
    }
}

fn tell(told: &Told) {
    let line = serde_json::to_string(told).unwrap_or_default();
    // Whoever asked is gone, and so is all that this is good for.
    if recordings::print(&format!("{line}\n")).is_err() {
        engine::leave(1);
    }
}

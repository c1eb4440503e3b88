//! What a replay is to find out: a task that it is given on its standard input, and answers on its standard output.
//!
//! An engine runs once in a process, so whoever wants to know something of a recording starts a replay of it in a process
//! of its own ([`ask`]).

pub mod siblings;

use crate::last_write;
use crate::recordings::Trouble;
use crate::study::functions::{self, Player};
use crate::study::{self, Study};
use engine::{Chosen, Marks, Observation, Observer, Passed, Sparing};
use program::copies::Copies;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use trace::Recording;

/// What is being found out during a replay.
pub trait Inquiry: Send + Sync {
    fn observation(&self) -> Observation;
    /// Where registers are wanted too.
    fn marks(&self) -> Marks {
        Marks::new()
    }
    /// The instructions that are observed, if not all.
    fn chosen(&self) -> Option<Chosen> {
        None
    }
    /// What is told of them, if not everything.
    fn sparing(&self) -> Option<Sparing> {
        None
    }
    /// Who sees what guest code does; called once.
    fn observer(&self) -> Option<Box<dyn Observer>>;
    /// The replay has carried out an event.
    fn passed(&self, passed: &Passed<'_>);
    /// The replay is over, and the guest's memory still there. Everything observed has been seen.
    fn answer(&self, copies: &Arc<Copies>) -> Reply;
}

/// An answer as it is written: a line of JSON. That of a long run is large, so it is made of what is answered at once, and read as that.
#[derive(Debug)]
pub struct Reply(Vec<u8>);

impl Reply {
    pub fn of(answer: &impl Serialize) -> Reply {
        let mut line = serde_json::to_vec(answer).expect("answers have nothing that JSON has no words for");
        line.push(b'\n');
        Reply(line)
    }

    pub fn line(&self) -> &[u8] {
        &self.0
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    LastWrite(last_write::Question),
    Study {
        study: Study,
        /// The functions that play a role. If they are not told, the replay finds them, for which it reads the whole log beforehand.
        #[serde(default)]
        players: Option<Vec<Player>>,
    },
}

impl Task {
    pub fn begin(self, recording: &Recording, log: u32) -> Box<dyn Inquiry> {
        match self {
            Task::LastWrite(question) => Box::new(last_write::Search::new(question)),
            Task::Study { study, players } => {
                let players = players.unwrap_or_else(|| functions::players_of(recording, log));
                study::begin(study, &players, recording, log)
            }
        }
    }
}

/// Which part of which recording is replayed.
pub struct Subject<'a> {
    pub folder: &'a Path,
    pub log: u32,
    /// Not further than before this event.
    pub until: Option<u64>,
}

/// Replays with a task, in a process of its own.
pub fn ask<T: DeserializeOwned>(subject: &Subject<'_>, task: &Task) -> Result<T, Trouble> {
    let output = start(subject, task)?.wait_with_output().map_err(not_started)?;
    Reply(output.stdout).read().map_err(|error| match error.is_data() {
        true => Trouble::Refused(format!("a replay gave an answer that makes no sense: {error}")),
        false => said(&output.stderr),
    })
}

/// The same, for a task that answers as it goes: whoever started it reads its standard output and error.
pub fn start(subject: &Subject<'_>, task: &Task) -> Result<Child, Trouble> {
    spawn(subject, None, task).map(|(child, _)| child)
}

/// Starts a replay that has been given its task, and may be given more: recordings that part from this one at an event.
fn spawn(subject: &Subject<'_>, parts_at: Option<u64>, task: &Task) -> Result<(Child, ChildStdin), Trouble> {
    let unsaid = |error| Trouble::Refused(format!("cannot say what the replay is for: {error}"));
    let words = serde_json::to_vec(task).map_err(unsaid)?;
    let mut command = Command::new(std::env::current_exe().map_err(not_started)?);
    command.args(["replay", "--quiet", "--no-report", "--inquire", "--process"]).arg(subject.log.to_string());
    for (option, event) in [("--to", subject.until), ("--siblings", parts_at)] {
        if let Some(event) = event {
            command.arg(option).arg(event.to_string());
        }
    }
    command.arg(subject.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(not_started)?;
    let mut input = child.stdin.take().ok_or_else(|| not_started(io::Error::other("it has no input")))?;
    // A replay that refuses does not read; it says why.
    let _ = input.write_all(&words);
    Ok((child, input))
}

/// What a replay says if it cannot answer.
pub fn said(errors: &[u8]) -> Trouble {
    let said = String::from_utf8_lossy(errors);
    let said = said.trim_end();
    Trouble::Refused(said.strip_prefix("whodunit: ").unwrap_or(said).to_owned())
}

fn not_started(error: io::Error) -> Trouble {
    Trouble::Refused(format!("cannot start a replay: {error}"))
}

/// The task of this replay, from its standard input, which may have more to say.
pub fn given() -> Result<Task, String> {
    let mut tasks = Deserializer::from_reader(io::stdin().lock()).into_iter();
    let task = tasks.next().ok_or_else(|| "no task".to_owned())?;
    task.map_err(|error| format!("no task that whodunit gives: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The benchmark of races gives it to a replay as it stands.
    #[test]
    fn the_task_that_the_benchmark_writes_out_is_one() {
        let task = serde_json::from_str(include_str!("../benches/races/count.json"));
        assert!(matches!(task, Ok(Task::Study { study: Study::Count, .. })), "{task:?}");
    }
}

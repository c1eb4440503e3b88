//! The end of a hunt: failing schedules are reduced, their recordings kept, and findings made of them.

use super::explain::{self, Case};
use super::failure::Failure;
use super::ground::{Ground, NoRun};
use super::order::Answer;
use super::search::{Found, Group, Plan};
use super::shrink::{self, Effort, Shrunk};
use super::text;
use crate::recordings::{self, Trouble};
use engine::Program;
use std::path::{Path, PathBuf};
use trace::Store;
use trace::finding::Findings;

/// What stays of a failure.
pub struct Kept {
    /// The recording, and as users call it.
    pub folder: PathBuf,
    pub name: String,
    pub shrunk: Option<Shrunk>,
    /// What the first run that failed so had to say.
    answer: Answer,
}

/// Reduces the schedule of each failure, as far as it needs luck and comes again.
pub fn shrink_all(ground: &Ground, found: &Found, effort: Effort) -> Result<Vec<Option<Shrunk>>, Trouble> {
    let shrink = |(failure, group): (&Failure, &Group)| match (group.first, effort.runs) {
        (0, _) | (_, 0) => Ok(None),
        _ => shrink::shrink(ground, group.trial, failure, effort),
    };
    let shrunk: Result<Vec<_>, NoRun> = found.groups.iter().map(shrink).collect();
    shrunk.map_err(|_| Trouble::Refused("a failing schedule cannot be run again; try --shrink 0".to_owned()))
}

/// Puts the recording of each failure where it stays.
pub fn keep(
    folder: Option<&Path>,
    ground: &Ground,
    found: &Found,
    shrunk: Vec<Option<Shrunk>>,
    program: &str,
) -> Result<Vec<Kept>, Trouble> {
    let store = match folder {
        Some(folder) => Store::at(folder),
        None => Store::from_environment()?,
    };
    let own = Store::from_environment().unwrap_or_else(|_| Store::at("/dev/null"));
    let adopt = |(group, shrunk): (&Group, Option<Shrunk>)| -> Result<Kept, Trouble> {
        let number = shrunk.as_ref().map_or(group.first, |shrunk| shrunk.number);
        let answer = ground.answer_of(group.first);
        let folder = store.adopt(&ground.recording_of(number), program)?;
        Ok(Kept { name: recordings::name_of(&own, &folder), folder, shrunk, answer })
    };
    found.groups.values().zip(shrunk).map(adopt).collect()
}

pub fn findings(program: &Program, found: &Found, kept: &[Kept], plan: &Plan) -> Result<Findings, Trouble> {
    let words = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
    let name = Path::new(&program.path).file_name().unwrap_or(&program.path).to_string_lossy();
    let mut findings = Findings::new("hunt", &name);
    findings.arguments = program.arguments.iter().skip(1).map(words).collect();
    findings.recording = kept.first().map(|kept| kept.name.clone());
    findings.summary.text = Some(text::summary(found, plan) + ".");
    for ((failure, group), kept) in found.groups.iter().zip(kept) {
        let answer = kept.shrunk.as_ref().map_or(&kept.answer, |shrunk| &shrunk.answer);
        let is_shrunk = kept.shrunk.is_some();
        findings.push(explain::explain(&Case {
            failure,
            group,
            folder: &kept.folder,
            name: &kept.name,
            answer,
            is_shrunk,
        })?);
    }
    Ok(findings)
}

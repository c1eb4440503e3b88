//! Hearing recorded runs: their pairs, by the addresses that code has in the failing run.

use crate::inquiry::{self, Subject, Task};
use crate::races::names::Names;
use crate::races::{subject, user_name};
use crate::recordings::Trouble;
use crate::show::Recorded;
use crate::study::Study;
use analysis::pairs::{Collected, Scope};
use program::space::{AddressSpace, GuestAddress};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace::Recording;

/// What the dynamic loader does to the tables of other modules is its own affair.
const LOADER: &str = "ld-linux";
const C_LIBRARY: &str = "libc.so";

/// A recorded run.
pub struct Source {
    pub recording: Recording,
    pub log: u32,
    pub recorded: Recorded,
}

impl Source {
    pub fn open(recording: Recording) -> Result<Source, Trouble> {
        let (log, recorded) = subject(&recording, None).map_err(Trouble::Refused)?;
        Ok(Source { recording, log, recorded })
    }

    /// As users call it.
    pub fn name(&self) -> String {
        user_name(self.recording.folder())
    }

    pub fn ask<T: DeserializeOwned>(&self, study: Study) -> Result<T, Trouble> {
        let subject = Subject { folder: self.recording.folder(), log: self.log, until: None };
        let answer = inquiry::ask(&subject, &Task::Study(study))?;
        serde_json::from_value(answer)
            .map_err(|error| Trouble::Refused(format!("a replay gave an answer that makes no sense: {error}")))
    }

    pub fn hear(&self) -> Result<Collected, Trouble> {
        let mut collected: Collected = self.ask(Study::Pairs(self.scope()))?;
        let library = self.modules(C_LIBRARY);
        let is_library = |pc: u64| library.iter().any(|range| range.contains(&pc));
        // What the C library does to its own blocks and to stacks is nobody's interest.
        collected.pairs.retain(|pair| !is_library(pair.head.pc) || !is_library(pair.tail.pc));
        Ok(collected)
    }

    fn scope(&self) -> Scope {
        let (loader, library) = (self.modules(LOADER), self.modules(C_LIBRARY));
        let ignored_memory = loader.iter().chain(&library).cloned().collect();
        Scope { ignored_code: loader, synchronising_code: library, ignored_memory }
    }

    /// Where the modules are whose names begin like this.
    fn modules(&self, beginning: &str) -> Vec<Range<u64>> {
        let meant = self.recorded.space.modules().filter(|(_, module)| module.name().starts_with(beginning));
        meant.map(|(_, module)| module.start..module.end).collect()
    }

    pub fn names(&self) -> Names {
        let naming = crate::naming::Naming::new(&self.recording, self.log, &self.recorded);
        Names::new(self.recorded.space.clone(), naming)
    }
}

/// Hears runs, several at the same time; tells them in the order in which they were given.
pub fn hear_all(sources: &[Source], failing: &Source, jobs: usize) -> Result<Vec<Collected>, Trouble> {
    let next = AtomicUsize::new(0);
    let heard = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(sources.len()) {
            scope.spawn(|| {
                while let Some((number, source)) = {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    sources.get(number).map(|source| (number, source))
                } {
                    let run = source.hear();
                    heard.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(number, run);
                }
            });
        }
    });
    let heard = heard.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let runs = heard.into_iter().zip(sources);
    let moved = |((_, run), source): ((usize, Result<Collected, Trouble>), &Source)| {
        let mut run = run?;
        move_code(&mut run, &source.recorded.space, &failing.recorded.space);
        Ok(run)
    };
    runs.map(moved).collect()
}

/// Names instructions by where their modules lie in another space.
fn move_code(run: &mut Collected, from: &AddressSpace, to: &AddressSpace) {
    let elsewhere: BTreeMap<_, _> = to.modules().map(|(_, module)| (module.path.clone(), module.bias)).collect();
    let mut biases = from.modules().map(|(_, module)| (&module.path, module.bias));
    if biases.all(|(path, bias)| elsewhere.get(path).is_none_or(|other| *other == bias)) {
        return;
    }
    let moved = |pc: u64| {
        let place = from.locate(GuestAddress(pc));
        let bias = place.and_then(|(module, _)| elsewhere.get(&from.module(module).path));
        match (place, bias) {
            (Some((_, address)), Some(bias)) => address.0.wrapping_add(*bias),
            _ => pc,
        }
    };
    for pair in &mut run.pairs {
        (pair.head.pc, pair.tail.pc) = (moved(pair.head.pc), moved(pair.tail.pc));
    }
}

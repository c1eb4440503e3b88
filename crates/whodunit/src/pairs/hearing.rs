//! Hearing recorded runs: their pairs, by the addresses that code has in the failing run.

use super::gather::next_of;
use crate::inquiry::{self, Subject, Task};
use crate::races::names::Names;
use crate::races::{subject, user_name};
use crate::recordings::Trouble;
use crate::show::Recorded;
use crate::study::Study;
use crate::study::pairs::Wanted;
use analysis::pairs::falcon::SeenPattern;
use analysis::pairs::{Collected, Look, Scope};
use analysis::races::Suspects;
use program::space::{AddressSpace, GuestAddress};
use serde::de::DeserializeOwned;
use session::stream::Detail;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, OnceLock, PoisonError};
use trace::Recording;

/// What the dynamic loader does to the tables of other modules is its own affair.
const LOADER: &str = "ld-linux";
const C_LIBRARY: &str = "libc.so";

/// How a run is heard.
#[derive(Default)]
pub struct Manner {
    /// Instructions of whose accesses the iterations are wanted.
    pub looping_sites: BTreeSet<u64>,
    /// Every two threads are looked at as if there were no others.
    pub two_by_two: bool,
    /// Instructions are told apart by who called.
    pub contexts: bool,
}

/// A recorded run.
pub struct Source {
    pub recording: Recording,
    pub log: u32,
    pub recorded: Recorded,
    /// The memory that threads share, if the run is long and that was found out.
    shared: OnceLock<Suspects>,
}

impl Source {
    pub fn open(recording: Recording) -> Result<Source, Trouble> {
        let (log, recorded) = subject(&recording, None).map_err(Trouble::Refused)?;
        Ok(Source { recording, log, recorded, shared: OnceLock::new() })
    }

    /// As users call it.
    pub fn name(&self) -> String {
        user_name(self.recording.folder())
    }

    pub fn ask<T: DeserializeOwned>(&self, study: Study) -> Result<T, Trouble> {
        let subject = Subject { folder: self.recording.folder(), log: self.log, until: None };
        let answer = inquiry::ask(&subject, &Task::Study { study, allocators: Vec::new() })?;
        serde_json::from_value(answer)
            .map_err(|error| Trouble::Refused(format!("a replay gave an answer that makes no sense: {error}")))
    }

    /// The pairs of the run, with its instructions where they are in the failing one.
    pub fn hear(&self, manner: &Manner, failing: &Source) -> Result<Collected, Trouble> {
        let looping_sites = manner.looping_sites.iter().copied().collect();
        let Manner { two_by_two, contexts, .. } = *manner;
        let shared = self.shared.get().cloned();
        let wanted = Wanted { scope: self.scope(), looping_sites, two_by_two, contexts, shared };
        let mut collected = self.collect(wanted)?;
        // What the C library does to its own blocks and to stacks is nobody's interest.
        collected.pairs.retain(|pair| self.is_of_interest(&[pair.head.pc, pair.tail.pc], pair.first.address));
        move_code(&mut collected, &self.recorded.space, &failing.recorded.space);
        collected.settle_contexts();
        Ok(collected)
    }

    fn collect(&self, wanted: Wanted) -> Result<Collected, Trouble> {
        if wanted.shared.is_some() || wanted.detail() != Detail::Accesses {
            return self.ask(Study::Pairs(wanted));
        }
        match self.ask(Study::FirstLook(wanted.clone()))? {
            Look::Pairs(collected) => Ok(collected),
            Look::Shared(shared) => {
                let shared = Some(self.shared.get_or_init(|| shared).clone());
                self.ask(Study::Pairs(Wanted { shared, ..wanted }))
            }
        }
    }

    /// Whether accesses are of anybody's interest: one at least, or the memory, is the program's own.
    fn is_of_interest(&self, ends: &[u64], address: u64) -> bool {
        let is_code = |pc: u64| self.recorded.space.locate(GuestAddress(pc)).is_some();
        let is_own_memory = || self.is_own(address);
        ends.iter().all(|pc| is_code(*pc)) && (ends.iter().any(|pc| self.is_own(*pc)) || is_own_memory())
    }

    /// Whether code or data is the program's, or a library's that is not the system's heart.
    fn is_own(&self, address: u64) -> bool {
        let module =
            self.recorded.space.locate(GuestAddress(address)).map(|(module, _)| self.recorded.space.module(module));
        module.is_some_and(|module| ![LOADER, C_LIBRARY].iter().any(|system| module.name().starts_with(system)))
    }

    /// Falcon's patterns of the run.
    pub fn patterns(&self) -> Result<Vec<SeenPattern>, Trouble> {
        let mut patterns: Vec<SeenPattern> = self.ask(Study::Patterns(self.scope()))?;
        patterns.retain(|seen| {
            let ends: Vec<u64> = seen.pattern.0.iter().map(|end| end.pc).collect();
            self.is_of_interest(&ends, seen.address)
        });
        Ok(patterns)
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

/// Runs that were heard, in the order in which they were given.
#[derive(Default)]
pub struct Heard {
    pub runs: Vec<Collected>,
    /// Why others were not.
    pub refusals: Vec<Trouble>,
}

/// Hears runs, several at the same time.
pub fn hear_all(sources: &[Source], failing: &Source, manner: &Manner, jobs: usize) -> Heard {
    let mut heard = Heard::default();
    for answer in ask_all(sources, jobs, |source| source.hear(manner, failing)) {
        match answer {
            Ok(run) => heard.runs.push(run),
            Err(trouble) => heard.refusals.push(trouble),
        }
    }
    heard
}

/// Asks something about each run, several at the same time; the answers come in the order of the runs.
pub fn ask_all<T: Send>(
    sources: &[Source],
    jobs: usize,
    ask: impl Fn(&Source) -> Result<T, Trouble> + Sync,
) -> Vec<Result<T, Trouble>> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(sources.len()) {
            scope.spawn(|| {
                while let Some((number, source)) = next_of(&next, sources) {
                    let answer = ask(source);
                    answers.lock().unwrap_or_else(PoisonError::into_inner).insert(number, answer);
                }
            });
        }
    });
    answers.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
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
    run.executed.iter_mut().chain(run.contexts.iter_mut().flatten()).for_each(|pc| *pc = moved(*pc));
}

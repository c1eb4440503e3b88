//! Hearing recorded runs: their pairs, by the addresses that code has in the failing run.

use crate::inquiry::{self, Subject, Task};
use crate::races::names::Names;
use crate::races::{subject, user_name};
use crate::recordings::Trouble;
use crate::show::Recorded;
use crate::study::Study;
use crate::study::functions::{Player, players};
use crate::study::pairs::Wanted;
use analysis::pairs::falcon::SeenPattern;
use analysis::pairs::{Collected, Learning, MeetingPlaces, Scope, Visitors, is_short};
use program::space::{AddressSpace, GuestAddress};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use trace::{Beginning, Recording};

/// What the dynamic loader does to the tables of other modules is its own affair.
const LOADER: &str = "ld-linux";
const C_LIBRARY: &str = "libc.so";
/// Who waits for whom is the program's doing: what these do to a condition variable counts, though it be by locked instructions.
const CONDITIONS: [&str; 5] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
];

/// How a run is heard.
#[derive(Default)]
pub struct Manner {
    /// Instructions of whose accesses the iterations are wanted.
    pub looping_sites: BTreeSet<u64>,
    /// Every two threads are looked at as if there were no others.
    pub two_by_two: bool,
    /// Instructions are told apart by who called.
    pub contexts: bool,
    /// The instructions that are heard, if that is not all of them.
    pub among: Option<BTreeSet<u64>>,
    /// Those that go over a lot of memory, and are heard in a part of it.
    pub sweeping: BTreeSet<u64>,
}

impl Manner {
    /// As closely as is worth it after what was learnt so far.
    pub fn after(learning: &Learning) -> Manner {
        Manner { among: learning.meeting(), sweeping: learning.sweeping(), ..Manner::default() }
    }
}

/// A recorded run.
pub struct Source {
    pub recording: Recording,
    pub log: u32,
    pub recorded: Recorded,
    /// What it has in common with runs that were copied from the same process, if anything.
    pub beginning: Option<Beginning>,
    code: Arc<Code>,
}

/// What is known of the code of a run.
struct Code {
    players: Vec<Player>,
    scope: Scope,
}

impl Code {
    fn of(space: &AddressSpace) -> Code {
        Code { players: players(space, &[]), scope: scope(space) }
    }
}

impl Source {
    pub fn open(recording: Recording) -> Result<Source, Trouble> {
        Source::with_code(recording, |recorded| Arc::new(Code::of(&recorded.space)))
    }

    /// Opens another run of the program, whose code is the same as a rule.
    pub fn open_beside(recording: Recording, other: &Source) -> Result<Source, Trouble> {
        Source::with_code(recording, |recorded| {
            recorded.space = recorded.space.clone().sharing(&other.recorded.space);
            let is_same = recorded.space.shares_with(&other.recorded.space);
            if is_same { Arc::clone(&other.code) } else { Arc::new(Code::of(&recorded.space)) }
        })
    }

    fn with_code(recording: Recording, code: impl FnOnce(&mut Recorded) -> Arc<Code>) -> Result<Source, Trouble> {
        let (log, mut recorded) = subject(&recording, None).map_err(Trouble::Refused)?;
        let beginning = recording.log(log).ok().as_ref().and_then(Beginning::of);
        let code = code(&mut recorded);
        Ok(Source { recording, log, recorded, beginning, code })
    }

    /// As users call it.
    pub fn name(&self) -> String {
        user_name(self.recording.folder())
    }

    pub fn subject(&self) -> Subject<'_> {
        Subject { folder: self.recording.folder(), log: self.log, until: None }
    }

    pub fn task(&self, study: Study) -> Task {
        Task::Study { study, players: Some(self.code.players.clone()) }
    }

    pub fn answer<T: DeserializeOwned>(&self, task: &Task) -> Result<T, Trouble> {
        inquiry::ask(&self.subject(), task)
    }

    pub fn ask<T: DeserializeOwned>(&self, study: Study) -> Result<T, Trouble> {
        self.answer(&self.task(study))
    }

    /// The pairs of the run, with its instructions where they are in the failing one.
    pub fn hear(&self, manner: &Manner, failing: &Source) -> Result<Collected, Trouble> {
        self.ask(self.pairs_study(manner, failing)).map(|collected| self.told(collected, failing))
    }

    pub fn pairs_study(&self, manner: &Manner, failing: &Source) -> Study {
        let Manner { two_by_two, contexts, .. } = *manner;
        let mover = Mover::new(&failing.recorded.space, &self.recorded.space);
        let moved = |pc: &u64| mover.as_ref().map_or(*pc, |mover| mover.moved(*pc));
        let looping_sites = manner.looping_sites.iter().map(moved).collect();
        // What is told of the failing run is looked up there later, by how many accesses came before.
        let counts_all = std::ptr::eq(self, failing);
        let among = manner.among.as_ref().map(|instructions| instructions.iter().map(moved).collect());
        let sweeping = manner.sweeping.iter().map(moved).collect();
        let scope = self.scope();
        Study::Pairs(Wanted { scope, looping_sites, two_by_two, contexts, among, counts_all, sweeping })
    }

    /// What a replay has told of the run's pairs, with its instructions where they are in the failing one.
    pub fn told(&self, mut collected: Collected, failing: &Source) -> Collected {
        // What the C library does to its own blocks and to stacks is nobody's interest.
        collected.pairs.retain(|pair| self.is_of_interest(&[pair.head.pc, pair.tail.pc], pair.first.address));
        move_code(&mut collected, &self.recorded.space, &failing.recorded.space);
        collected.settle_contexts();
        collected
    }

    /// The pairs of the failing run, and what it tells about how to hear others: as a `whole`, or those that go over a lot of memory in a part
    /// of it.
    pub fn hear_first(&self, whole: bool) -> Result<(Collected, Learning), Trouble> {
        let mut visitors = self.visitors()?;
        if let Some(visitors) = visitors.as_mut().filter(|_| whole) {
            visitors.sweeping.clear();
        }
        let mut learning = Learning::new(visitors);
        let first = self.hear(&Manner::after(&learning), self)?;
        learning.add_failing(&first);
        Ok((first, learning))
    }

    /// Who comes to memory at which threads meet, if the run is so long that this is worth finding out.
    fn visitors(&self) -> Result<Option<Visitors>, Trouble> {
        if is_short(self.recorded.clock) {
            return Ok(None);
        }
        let places: MeetingPlaces = self.ask(Study::MeetingPlaces(self.scope()))?;
        if !places.are_of_long_run() {
            return Ok(None);
        }
        self.ask(Study::Visitors { scope: self.scope(), places }).map(Some)
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
        self.ask(self.patterns_study()).map(|patterns| self.told_patterns(patterns))
    }

    pub fn patterns_study(&self) -> Study {
        Study::Patterns(self.scope())
    }

    pub fn told_patterns(&self, mut patterns: Vec<SeenPattern>) -> Vec<SeenPattern> {
        patterns.retain(|seen| {
            let ends: Vec<u64> = seen.pattern.0.iter().map(|end| end.pc).collect();
            self.is_of_interest(&ends, seen.address)
        });
        patterns
    }

    fn scope(&self) -> Scope {
        self.code.scope.clone()
    }

    pub fn names(&self) -> Names {
        let naming = crate::naming::Naming::new(&self.recording, self.log, &self.recorded);
        Names::new(self.recorded.space.clone(), naming)
    }
}

fn scope(space: &AddressSpace) -> Scope {
    let (loader, library) = (modules(space, LOADER), modules(space, C_LIBRARY));
    let ignored_memory = loader.iter().chain(&library).cloned().collect();
    let conditions = space.code_named(|name| CONDITIONS.contains(&name));
    let synchronising_code = library.into_iter().flat_map(|range| without(range, &conditions)).collect();
    Scope { ignored_code: loader, synchronising_code, ignored_memory }
}

/// Where the modules are whose names begin like this.
fn modules(space: &AddressSpace, beginning: &str) -> Vec<Range<u64>> {
    let meant = space.modules().filter(|(_, module)| module.name().starts_with(beginning));
    meant.map(|(_, module)| module.start..module.end).collect()
}

/// What is left of some code without functions that are in order of address.
fn without(code: Range<u64>, functions: &[Range<GuestAddress>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut start = code.start;
    for function in functions.iter().filter(|function| code.contains(&function.start.0)) {
        rest.push(start..function.start.0.max(start));
        start = start.max(function.end.0);
    }
    rest.push(start..code.end.max(start));
    rest.retain(|range| !range.is_empty());
    rest
}

/// Knows where instructions lie in another space, by their modules.
struct Mover<'a> {
    from: &'a AddressSpace,
    biases: BTreeMap<&'a Path, u64>,
}

impl<'a> Mover<'a> {
    /// Nothing if all of them lie in the same places.
    fn new(from: &'a AddressSpace, to: &'a AddressSpace) -> Option<Mover<'a>> {
        let biases: BTreeMap<&Path, u64> =
            to.modules().map(|(_, module)| (Path::new(&module.path), module.bias)).collect();
        let is_same = |path: &Path, bias: u64| biases.get(path).is_none_or(|other| *other == bias);
        let is_all_the_same = from.modules().all(|(_, module)| is_same(Path::new(&module.path), module.bias));
        (!is_all_the_same).then_some(Mover { from, biases })
    }

    fn moved(&self, pc: u64) -> u64 {
        let place = self.from.locate(GuestAddress(pc));
        let bias = place.and_then(|(module, _)| self.biases.get(Path::new(&self.from.module(module).path)));
        match (place, bias) {
            (Some((_, address)), Some(bias)) => address.0.wrapping_add(*bias),
            _ => pc,
        }
    }
}

/// Names instructions by where their modules lie in another space.
fn move_code(run: &mut Collected, from: &AddressSpace, to: &AddressSpace) {
    let Some(mover) = Mover::new(from, to) else { return };
    for pair in &mut run.pairs {
        (pair.head.pc, pair.tail.pc) = (mover.moved(pair.head.pc), mover.moved(pair.tail.pc));
    }
    let groups = run.meeting.iter_mut().chain(&mut run.contexts);
    let others = run.executed.iter_mut().chain(groups.flatten());
    others.for_each(|pc| *pc = mover.moved(*pc));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_left_out_of_code() {
        let function = |start, end| GuestAddress(start)..GuestAddress(end);
        let functions = [function(0x10, 0x20), function(0x130, 0x140), function(0x138, 0x150), function(0x1f0, 0x220)];
        assert_eq!(without(0x100..0x200, &functions), [0x100..0x130, 0x150..0x1f0]);
        assert_eq!(without(0x100..0x200, &[]), vec![0x100..0x200]);
    }
}

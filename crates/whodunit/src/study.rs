//! Analyses of an observed replay, by what its event stream tells.

pub mod blocks;
mod count;
pub mod entrances;
pub mod functions;
pub mod lines;
pub mod neighbours;
pub mod overruns;
pub mod pairs;
pub mod predict;
pub mod races;
pub mod steps;

use crate::inquiry::{Inquiry, Reply};
use analysis::pairs::{MeetingPlaces, Scope};
use analysis::predict::Libraries;
use analysis::races::{HandOvers, Sieved, Surveyed, Suspects};
use engine::{Chosen, Marks, Observation, Observer, Passed, Sparing, Wanted};
use functions::{Functions, Player};
use program::copies::Copies;
use serde::{Deserialize, Serialize};
use session::stream::{Detail, Role, Streaming};
use std::ops::Range;
use std::sync::Arc;
use trace::Recording;
use trace::stream::Listener;

/// What is studied.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// What is selected of it, a line each.
    Lines(lines::Selection),
    /// How many accesses and other events there are: what telling a stream costs by itself.
    Count,
    /// Which memory may race, and which is atomic.
    Sieve(races::Classes),
    /// Which memory threads wait for in loops, and what races of what a sieve has left if that is atomic.
    SecondPass { sieved: Box<Sieved>, classes: races::Classes },
    /// What races of what a sieve has left, given all memory that is for synchronisation.
    Races { suspects: Option<Suspects>, surveyed: Surveyed, classes: races::Classes },
    /// Which memory threads contend for, whatever locks they hold, given which instructions may hand pointers and flags over; and which else may.
    SieveWithoutLocks { known: predict::Known, proposed: Option<Box<predict::Proposed>>, extent: predict::Extent },
    /// Which instructions may hand pointers and flags over, by the beginning of a run.
    HandOvers(predict::Known),
    /// Which of these do so.
    CheckHandOvers(HandOvers),
    /// What predictions have to look at.
    Explore { sieved: Box<Sieved>, known: predict::Known, extent: predict::Extent },
    /// Memory errors of other orders, given what an exploration found.
    Predict(Box<predict::Subject>),
    /// Stacks, values and blocks of the accesses of races.
    Circumstances(Vec<races::Wanted>),
    /// The same of single accesses.
    Steps(Vec<steps::Wanted>),
    /// Memory at which threads meet.
    MeetingPlaces(Scope),
    /// Instructions that come there.
    Visitors { scope: Scope, places: MeetingPlaces },
    /// Access pairs.
    Pairs(pairs::Wanted),
    /// Patterns of accesses to one location.
    Patterns(Scope),
    /// The latest accesses to some memory.
    Histories(neighbours::Subject),
    /// Threads that wait in the end, and the locks that they hold; given where libraries are.
    Waiting(Libraries),
    /// The blocks of the heap at the moments of some accesses.
    BlocksAt(Vec<blocks::Question>),
    /// Stores that go on where one went astray.
    Overruns(overruns::Question),
}

impl Study {
    /// Whether it matters that functions with a role are called.
    fn wants(&self, role: Role) -> bool {
        match self {
            Study::Pairs(wanted) => wanted.wants(role),
            _ => true,
        }
    }
}

/// A listener that has something to say in the end.
pub trait Student: Listener + 'static {
    fn report(&mut self) -> Reply;
}

/// A study under way.
struct Studying<S> {
    streaming: Streaming<S>,
    marks: Marks,
    chosen: Option<Chosen>,
    sparing: Option<Sparing>,
}

pub fn begin(study: Study, players: &[Player], recording: &Recording, log: u32) -> Box<dyn Inquiry> {
    let mut functions = Functions::of(players, |role| study.wants(role));
    match study {
        Study::Lines(selection) => {
            let detail = lines::Lines::detail(&selection);
            Box::new(Studying::new(lines::Lines::new(selection), functions, detail))
        }
        Study::Count => Box::new(Studying::new(count::Count::default(), functions, Detail::Accesses)),
        Study::Sieve(classes) => Box::new(Studying::new(races::sieve(classes), functions, Detail::Accesses)),
        Study::SecondPass { sieved, classes } => {
            Box::new(Studying::new(races::second_pass(*sieved, classes), functions, Detail::Accesses))
        }
        Study::Races { suspects, surveyed, classes } => {
            Box::new(Studying::new(races::detect(suspects, surveyed, classes), functions, Detail::Accesses))
        }
        Study::Steps(wanted) => Box::new(Studying::new(steps::Steps::new(&wanted), functions, Detail::Values)),
        Study::SieveWithoutLocks { known, proposed, extent } => {
            let ignored = known.classes.ignored.clone();
            let (student, chosen, sparing) = predict::first_pass(known, proposed.map(|boxed| *boxed), extent);
            let studying = match chosen {
                Some(chosen) => Studying::new(student, functions, Detail::Values).of(chosen),
                None => Studying::new(student, functions, Detail::Accesses),
            };
            Box::new(studying.spared(sparing, ignored))
        }
        Study::HandOvers(known) => {
            let ignored = known.classes.ignored.clone();
            let (student, sparing) = predict::beginning(known);
            Box::new(Studying::new(student, functions, Detail::Accesses).spared(sparing, ignored))
        }
        Study::CheckHandOvers(hand_overs) => {
            let (student, chosen) = predict::check(hand_overs);
            Box::new(Studying::new(student, functions, Detail::Values).of(chosen))
        }
        Study::Explore { sieved, known, extent } => {
            let ignored = known.classes.ignored.clone();
            let (student, sparing) = predict::explore(*sieved, known, extent);
            Box::new(Studying::new(student, functions, Detail::Accesses).spared(sparing, ignored))
        }
        Study::Predict(subject) => {
            let (student, chosen) = predict::predict(*subject);
            Box::new(Studying::new(student, functions, Detail::Values).of(chosen))
        }
        Study::Circumstances(wanted) => {
            Box::new(Studying::new(races::Circumstances::new(wanted), functions, Detail::Values))
        }
        Study::Patterns(scope) => {
            let ignored = scope.ignored_code.clone();
            Box::new(Studying::new(pairs::patterns(scope), functions, Detail::Accesses).deaf_to(ignored))
        }
        Study::MeetingPlaces(scope) => {
            let ignored = scope.ignored_code.clone();
            Box::new(Studying::new(pairs::meeting_places(scope), functions, Detail::Accesses).deaf_to(ignored))
        }
        Study::Visitors { scope, places } => {
            let ignored = scope.ignored_code.clone();
            Box::new(Studying::new(pairs::visitors(scope, &places), functions, Detail::Accesses).deaf_to(ignored))
        }
        Study::Pairs(wanted) => {
            let (detail, chosen, sparing, ignored) =
                (wanted.detail(), wanted.chosen(), wanted.sparing(), wanted.ignored());
            let student = pairs::collect(wanted, recording, log, &mut functions);
            let studying = Studying::new(student, functions, detail);
            let studying = match chosen {
                Some(chosen) => studying.of(chosen),
                None => studying.deaf_to(ignored.clone()),
            };
            Box::new(studying.spared(sparing, ignored))
        }
        Study::Histories(subject) => Box::new(Studying::new(neighbours::histories(subject), functions, Detail::Values)),
        Study::Waiting(libraries) => Box::new(Studying::new(neighbours::waiting(libraries), functions, Detail::Calls)),
        Study::BlocksAt(questions) => {
            let chosen = blocks::accesses_of(&questions);
            Box::new(Studying::new(blocks::BlocksAt::new(questions), functions, Detail::Accesses).of(chosen))
        }
        Study::Overruns(question) => {
            Box::new(Studying::new(overruns::Overruns::new(question), functions, Detail::Accesses))
        }
    }
}

impl<S: Student> Studying<S> {
    fn new(student: S, functions: Functions, detail: Detail) -> Studying<S> {
        let Functions { marks, roles } = functions;
        // Where accesses are all that is told, it is of no concern that code without any has run.
        let all_accesses = || Chosen { others: Wanted::ADDRESSES, ..Chosen::default() };
        let chosen = (detail == Detail::Accesses).then(all_accesses);
        Studying { streaming: Streaming::new(student, roles, detail), marks, chosen, sparing: None }
    }

    /// Observes these instructions, and of the others only what is said.
    fn of(self, chosen: Chosen) -> Studying<S> {
        Studying { chosen: Some(chosen), ..self }
    }

    /// Is told nothing of some code, where not all instructions are wanted to have run.
    fn deaf_to(self, unheard: Vec<Range<u64>>) -> Studying<S> {
        Studying { chosen: self.chosen.map(|chosen| Chosen { unheard, ..chosen }), ..self }
    }

    /// Is told what this says, if not everything; then nothing of code that is ignored.
    fn spared(self, sparing: Option<Sparing>, ignored: Vec<Range<u64>>) -> Studying<S> {
        match sparing {
            None => self,
            sparing => Studying { sparing, ..self.deaf_to(ignored) },
        }
    }
}

impl<S: Student> Inquiry for Studying<S> {
    fn observation(&self) -> Observation {
        self.streaming.observation()
    }

    fn marks(&self) -> Marks {
        self.marks.clone()
    }

    fn chosen(&self) -> Option<Chosen> {
        self.chosen.clone()
    }

    fn sparing(&self) -> Option<Sparing> {
        self.sparing.clone()
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        Some(self.streaming.observer())
    }

    fn passed(&self, passed: &Passed<'_>) {
        self.streaming.passed(passed);
    }

    fn answer(&self, _copies: &Arc<Copies>) -> Reply {
        self.streaming.finish(Student::report)
    }
}

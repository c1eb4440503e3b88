//! The replays that `races` makes.

use super::names::Names;
use crate::inquiry::{self, Subject, Task};
use crate::races;
use crate::recordings::Trouble;
use crate::study::Study;
use crate::study::functions::{Player, players};
use crate::study::races::{Circumstance, Classes, Told, Wanted};
use analysis::races::{Action, AdHoc, Found, Race, SecondFound, Side, Sieved, Surveyed, Suspects};
use serde::de::DeserializeOwned;
use std::cell::OnceCell;

/// How many times what was found is looked through for atomic operations, which make others visible.
const MOST_ROUNDS: usize = 4;
/// How many occurrences of a race are looked at, to tell stacks apart.
const OCCURRENCES: usize = 3;

/// What the dynamic loader does to the tables of other modules is its own affair.
const LOADER: &str = "ld-linux";
/// OpenMP's own library waits for plain words.
const SYNCHRONISERS: &str = "libgomp.so";

pub struct Passes<'a> {
    subject: &'a races::Subject<'a>,
    pub names: &'a Names,
    /// The functions that play a role, once somebody has asked.
    players: OnceCell<Vec<Player>>,
}

/// An occurrence of a race with the circumstances of both sides.
pub struct Occurrence<'a> {
    pub address: u64,
    pub first: (&'a Side, Option<&'a Circumstance>),
    pub second: (&'a Side, Option<&'a Circumstance>),
}

/// All that the replays have told.
pub struct Seen {
    pub found: Found,
    pub ad_hoc: Vec<AdHoc>,
    pub told: Told,
    /// Of each race, where in `told` its occurrences are.
    places: Vec<Vec<usize>>,
}

impl Seen {
    pub fn occurrences(&self, race: usize) -> impl Iterator<Item = Occurrence<'_>> {
        let instances = self.found.races[race].instances.iter();
        instances.zip(&self.places[race]).map(|(instance, &at)| {
            let circumstance = |offset: usize| self.told.circumstances.get(at + offset).and_then(Option::as_ref);
            Occurrence {
                address: instance.address,
                first: (&instance.first, circumstance(0)),
                second: (&instance.second, circumstance(1)),
            }
        })
    }
}

impl<'a> Passes<'a> {
    pub fn of(subject: &'a races::Subject<'a>, names: &'a Names) -> Passes<'a> {
        Passes { subject, names, players: OnceCell::new() }
    }
}

impl Passes<'_> {
    pub fn look(&self) -> Result<Seen, Trouble> {
        let mut classes = self.classes();
        let (surveyed, found) = self.settle(&mut classes)?;
        let (wanted, places) = wanted(&found.races);
        let told = match wanted.is_empty() {
            true => Told::default(),
            false => self.ask(Study::Circumstances(wanted))?,
        };
        Ok(Seen { found, ad_hoc: surveyed.ad_hoc, told, places })
    }

    /// What is known of instructions before anything has been replayed.
    pub fn classes(&self) -> Classes {
        Classes {
            ignored: self.names.code_of(LOADER),
            atomic_code: [self.names.code_of(SYNCHRONISERS), self.names.go_runtime()].concat(),
            ..Classes::default()
        }
    }

    /// Loads and stores of atomics are plain instructions. Debug information tells them apart, and is asked only about
    /// what seems to race.
    fn settle(&self, classes: &mut Classes) -> Result<(Surveyed, Found), Trouble> {
        let mut round = 1;
        loop {
            let (surveyed, found) = self.find(classes)?;
            let atomic = self.names.atomic_sites(&found.races);
            let known = classes.atomic.len();
            classes.atomic.extend(atomic);
            if classes.atomic.len() == known || round == MOST_ROUNDS {
                return Ok((surveyed, found));
            }
            round += 1;
        }
    }

    /// By as many replays as it takes: most programs have nothing that a sieve leaves, and most others wait for nothing
    /// but atomics.
    fn find(&self, classes: &Classes) -> Result<(Surveyed, Found), Trouble> {
        let sieved: Sieved = self.ask(Study::Sieve(classes.clone()))?;
        let suspects = sieved.suspects.clone();
        if suspects.as_ref().is_some_and(Suspects::is_empty) {
            let surveyed = Surveyed { sync_memory: sieved.atomics, ad_hoc: Vec::new() };
            return Ok((surveyed, Found::default()));
        }
        let sieved = Box::new(sieved);
        let second: SecondFound = self.ask(Study::SecondPass { sieved, classes: classes.clone() })?;
        let surveyed = second.surveyed;
        let found = match second.found {
            Some(found) => found,
            None => self.ask(Study::Races { suspects, surveyed: surveyed.clone(), classes: classes.clone() })?,
        };
        Ok((surveyed, found))
    }

    pub fn ask<T: DeserializeOwned>(&self, study: Study) -> Result<T, Trouble> {
        self.ask_until(None, study)
    }

    /// Asks something about the run up to an event.
    pub fn ask_until<T: DeserializeOwned>(&self, until: Option<u64>, study: Study) -> Result<T, Trouble> {
        let races::Subject { recording, log, recorded, allocating, .. } = self.subject;
        let players = self.players.get_or_init(|| players(&recorded.space, &allocating.allocators));
        let subject = Subject { folder: recording.folder(), log: *log, until };
        inquiry::ask(&subject, &Task::Study { study, players: Some(players.clone()) })
    }
}

/// The accesses to look at, two for each occurrence.
fn wanted(races: &[Race]) -> (Vec<Wanted>, Vec<Vec<usize>>) {
    let mut wanted = Vec::new();
    let mut places = Vec::new();
    for race in races {
        let mut of_race = Vec::new();
        for instance in race.instances.iter().take(OCCURRENCES) {
            of_race.push(wanted.len());
            wanted.extend([&instance.first, &instance.second].map(|side| Wanted {
                thread: side.thread,
                ordinal: side.ordinal,
                pc: side.pc,
                address: instance.address,
                is_release: side.action == Action::Freed,
            }));
        }
        places.push(of_race);
    }
    (wanted, places)
}

//! Memory errors that other orders would have made.

use super::Student;
use super::races::{Classes, Once};
use analysis::predict::{
    self, Detector, Doubtful, Exploration, Explored, FirstPass, HandOverCheck, Libraries, MOST_MEMORY, Method,
    UseSeeker,
};
use analysis::races::{HandOvers, Sieved};
use engine::{Chosen, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What is known before anything has been replayed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    pub classes: Classes,
    pub libraries: Libraries,
}

/// What is known after an exploration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subject {
    pub explored: Explored,
    pub known: Known,
    pub method: Method,
    /// So many bytes of contended memory are watched at a time.
    pub watched: u64,
}

/// With these hand-overs, or to look for some. Of memory that is like much other, a part will do, or all is wanted.
pub fn first_pass(known: Known, trusted: Option<HandOvers>, samples: bool) -> impl Student {
    let Known { classes, libraries } = known;
    let sieve = predict::sieve(classes.clone().classify(), libraries.clone(), MOST_MEMORY);
    let sieve = match trusted {
        Some(trusted) => sieve.with_hand_overs(trusted),
        None => sieve,
    };
    let sieve = if samples { sieve.sampling() } else { sieve };
    Once::new(FirstPass::new(sieve), move |pass: FirstPass| {
        let classify = [classes.clone().classify(), classes.clone().classify()];
        json!(pass.into_found(classify, libraries.clone()))
    })
}

/// Which of these instructions hand over nothing but pointers: they are all that has to be told.
pub fn check(hand_overs: HandOvers) -> (impl Student, Chosen) {
    let check = HandOverCheck::new(hand_overs);
    let instructions = check.instructions();
    let student = Once::new(check, |check: HandOverCheck| json!(check.into_trusted()));
    (student, Chosen { instructions, others: Wanted::COUNTS })
}

pub fn explore(sieved: Sieved, known: Known) -> impl Student {
    let classify = [known.classes.clone().classify(), known.classes.classify()];
    let exploration = Exploration::after(sieved, classify, known.libraries);
    Once::new(exploration, |exploration: Exploration| json!(exploration.into_explored()))
}

/// The detector, and the instructions that it has to be told of. Of the others, it needs calls alone.
pub fn predict(subject: Subject) -> (impl Student, Chosen) {
    let Subject { explored, known: Known { classes, libraries }, method, watched } = subject;
    let instructions = explored.contended.instructions.clone();
    let others = Wanted { targets: true, ..Wanted::COUNTS };
    let detector = Detector::new(explored, classes.classify(), libraries).by(method).watching(watched);
    let student = Once::new(detector, |detector: Detector| json!(detector.into_predicted()));
    (student, Chosen { instructions, others })
}

/// What becomes of what these instructions read: their values are needed, and where all others go.
pub fn uses(doubtful: Doubtful) -> (impl Student, Chosen) {
    let instructions = doubtful.readers();
    let seeker = UseSeeker::new(doubtful);
    let student = Once::new(seeker, |seeker: UseSeeker| json!(seeker.into_used()));
    (student, Chosen { instructions, others: Wanted::ADDRESSES })
}

//! Who accessed some memory, and in what order.

use super::Student;
use super::predict::Known;
use super::races::Once;
use crate::inquiry::Reply;
use analysis::neighbours::{Historian, Waiting, Watched};
use analysis::predict::Libraries;
use analysis::races::Surveyed;
use serde::{Deserialize, Serialize};

/// What is watched, and what is known already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subject {
    pub watched: Vec<Watched>,
    pub surveyed: Surveyed,
    pub known: Known,
}

pub fn histories(subject: Subject) -> impl Student {
    let Subject { watched, surveyed, known } = subject;
    let historian = Historian::new(watched, surveyed, known.classes.classify(), known.libraries);
    Once::new(historian, |historian: Historian| Reply::of(&historian.into_histories()))
}

pub fn waiting(libraries: Libraries) -> impl Student {
    Once::new(Waiting::new(libraries), |waiting: Waiting| Reply::of(&waiting.into_stuck()))
}

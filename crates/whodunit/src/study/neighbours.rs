//! Who accessed some memory, and in what order.

use super::Student;
use super::predict::Known;
use super::races::Once;
use analysis::neighbours::{Historian, Waiting, Watched};
use analysis::predict::Libraries;
use analysis::races::Surveyed;
use serde::{Deserialize, Serialize};
use serde_json::json;

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
    Once::new(historian, |historian: Historian| json!(historian.into_histories()))
}

pub fn waiting(libraries: Libraries) -> impl Student {
    Once::new(Waiting::new(libraries), |waiting: Waiting| json!(waiting.into_stuck()))
}

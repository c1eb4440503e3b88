//! Memory errors that other orders would have made.

use super::Student;
use super::races::{Classes, Once};
use analysis::predict::{Detector, Libraries};
use analysis::races::Surveyed;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What is known beforehand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subject {
    pub surveyed: Surveyed,
    pub classes: Classes,
    pub libraries: Libraries,
}

pub fn predict(subject: Subject) -> impl Student {
    let detector = Detector::new(subject.surveyed, subject.classes.classify(), subject.libraries);
    Once::new(detector, |detector: Detector| json!(detector.into_predicted()))
}

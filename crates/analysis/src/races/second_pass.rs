//! The second pass over a stream: a detector that looks at what the sieve has left, and beside it a survey of loops that
//! wait. Where nobody waited for plain memory, what the detector found is all there is.

use super::detector::Detector;
use super::found::Found;
use super::sieve::Sieved;
use super::sites::Classify;
use super::survey::{Survey, Surveyed};
use super::surveying::Surveying;
use serde::{Deserialize, Serialize};

/// What a second pass has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SecondFound {
    pub surveyed: Surveyed,
    /// Nothing if a third pass is needed.
    pub found: Option<Found>,
}

pub type SecondPass = Surveying<Detector>;

impl SecondPass {
    /// The same classes twice: for the survey and for the detector.
    pub fn after(sieved: Sieved, of_survey: Classify, of_detector: Classify) -> SecondPass {
        let known = Surveyed { sync_memory: sieved.atomics.clone(), ad_hoc: Vec::new() };
        let detector = Detector::among(sieved.suspects, known, of_detector);
        Surveying::new(Survey::new(sieved.atomics, of_survey), detector)
    }

    pub fn into_found(self) -> SecondFound {
        let found = self.survey.only_atomics().then(|| self.listener.into_found());
        SecondFound { surveyed: self.survey.into_surveyed(), found }
    }
}

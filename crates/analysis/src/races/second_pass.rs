//! The second pass over a stream: a detector that looks at what the sieve has left, and beside it a survey of loops that
//! wait. Where nobody waited for plain memory, what the detector found is all there is.

use super::detector::Detector;
use super::found::Found;
use super::sieve::Sieved;
use super::sites::Classify;
use super::survey::{Survey, Surveyed};
use serde::{Deserialize, Serialize};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// What a second pass has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SecondFound {
    pub surveyed: Surveyed,
    /// Nothing if a third pass is needed.
    pub found: Option<Found>,
}

pub struct SecondPass {
    survey: Survey,
    detector: Detector,
}

impl SecondPass {
    /// The same classes twice: for the survey and for the detector.
    pub fn new(sieved: Sieved, of_survey: Classify, of_detector: Classify) -> SecondPass {
        let known = Surveyed { sync_memory: sieved.atomics.clone(), ad_hoc: Vec::new() };
        let detector = Detector::among(sieved.suspects, known, of_detector);
        SecondPass { survey: Survey::new(sieved.atomics, of_survey), detector }
    }

    pub fn into_found(self) -> SecondFound {
        let found = self.survey.only_atomics().then(|| self.detector.into_found());
        SecondFound { surveyed: self.survey.into_surveyed(), found }
    }
}

impl Listener for SecondPass {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.survey.accesses(thread, accesses);
        self.detector.accesses(thread, accesses);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.survey.event(thread, event);
        self.detector.event(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.survey.site(site, pc);
        self.detector.site(site, pc);
    }
}

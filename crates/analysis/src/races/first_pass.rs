//! The first pass over a stream: a survey, and with it a detector that learns what is synchronisation as it goes. If it
//! learnt all of it in time, what it found is what a second pass would find.

use super::detector::Detector;
use super::found::Found;
use super::sites::Classify;
use super::survey::{Survey, Surveyed};
use serde::{Deserialize, Serialize};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// What a first pass has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FirstFound {
    pub surveyed: Surveyed,
    /// Nothing if a second pass is needed.
    pub found: Option<Found>,
}

pub struct FirstPass {
    survey: Survey,
    /// Until it has learnt something too late.
    detector: Option<Detector>,
}

impl FirstPass {
    /// The same classes twice: for the survey and for the detector.
    pub fn new(of_survey: Classify, of_detector: Classify) -> FirstPass {
        FirstPass { survey: Survey::new(of_survey), detector: Some(Detector::learning(of_detector)) }
    }

    pub fn into_found(self) -> FirstFound {
        let detector = self.detector.filter(|_| self.survey.only_atomics());
        let found = detector.and_then(Detector::into_learnt);
        FirstFound { surveyed: self.survey.into_surveyed(), found }
    }
}

impl Listener for FirstPass {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.survey.accesses(thread, accesses);
        if let Some(detector) = &mut self.detector {
            detector.accesses(thread, accesses);
        }
        self.detector.take_if(|detector| detector.is_late());
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.survey.event(thread, event);
        if let Some(detector) = &mut self.detector {
            detector.event(thread, event);
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.survey.site(site, pc);
        if let Some(detector) = &mut self.detector {
            detector.site(site, pc);
        }
    }
}

//! The first pass over a stream: what is synchronisation, and which instructions and memory have to be looked at.

use super::Libraries;
use crate::races::{Classify, Survey, Surveyed};
use crate::shared_memory::{Contended, SharedMemory};
use serde::{Deserialize, Serialize};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// What an exploration has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Explored {
    pub surveyed: Surveyed,
    pub contended: Contended,
}

pub struct Exploration {
    survey: Survey,
    shared_memory: SharedMemory,
}

impl Exploration {
    /// The same classes twice: for both that listen.
    pub fn new(classify: [Classify; 2], libraries: Libraries) -> Exploration {
        let [of_survey, of_memory] = classify;
        Exploration { survey: Survey::gathering(of_survey), shared_memory: SharedMemory::new(of_memory, libraries) }
    }

    pub fn into_explored(self) -> Explored {
        Explored { surveyed: self.survey.into_surveyed(), contended: self.shared_memory.into_contended() }
    }
}

impl Listener for Exploration {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.survey.accesses(thread, accesses);
        self.shared_memory.accesses(thread, accesses);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.survey.event(thread, event);
        self.shared_memory.event(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.survey.site(site, pc);
        self.shared_memory.site(site, pc);
    }
}

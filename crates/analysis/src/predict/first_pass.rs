//! The first pass over a stream: a sieve, and for a short stream the exploration as well.

use super::exploration::{Exploration, Explored};
use super::kept::Kept;
use super::{Libraries, exploration};
use crate::races::{Classify, Sieve, Sieved};
use serde::{Deserialize, Serialize};
use trace::stream::records::Records;
use trace::stream::{Access, Event, Listener, Site, Thread};

/// What a first pass has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FirstFound {
    pub sieved: Sieved,
    /// Nothing if it takes another pass.
    pub explored: Option<Explored>,
}

pub struct FirstPass {
    sieve: Sieve,
    kept: Kept,
}

impl FirstPass {
    pub fn new(sieve: Sieve) -> FirstPass {
        FirstPass { sieve, kept: Kept::default() }
    }

    /// The same classes twice, and libraries, for the exploration.
    pub fn into_found(self, classify: [Classify; 2], libraries: Libraries) -> FirstFound {
        let sieved = self.sieve.into_sieved();
        let explored = match exploration::without_contention(&sieved) {
            Some(explored) => Some(explored),
            None => {
                let exploration = Exploration::after(sieved.clone(), classify, libraries);
                self.kept.tell(exploration).map(Exploration::into_explored)
            }
        };
        FirstFound { sieved, explored }
    }
}

impl Listener for FirstPass {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.sieve.accesses(thread, accesses);
        self.kept.accesses(thread, accesses.iter().copied());
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let length = self.sieve.records(thread, records);
        self.kept.records(thread, records, length);
        length
    }

    fn reads_records(&self) -> bool {
        self.sieve.reads_records()
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.sieve.event(thread, event);
        self.kept.event(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sieve.site(site, pc);
        self.kept.site(site, pc);
    }
}

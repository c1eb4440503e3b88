//! The first pass over a stream: a sieve, a check of the flags that it relies on, and if not too much is told the exploration as well.

use super::exploration::{Exploration, Explored};
use super::hand_over_check::HandOverCheck;
use super::kept::Kept;
use super::{Libraries, exploration};
use crate::races::{Classify, Flags, HandOvers, Sieve, Sieved};
use serde::{Deserialize, Serialize};
use trace::stream::records::Records;
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// What a first pass has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FirstFound {
    pub sieved: Sieved,
    /// Which instructions, of those that were to be checked, have to do with flags alone.
    pub trusted: Flags,
    /// Nothing if it takes another pass.
    pub explored: Option<Explored>,
}

pub struct FirstPass {
    sieve: Sieve,
    check: Option<HandOverCheck>,
    kept: Kept,
}

impl FirstPass {
    pub fn new(sieve: Sieve) -> FirstPass {
        FirstPass { sieve, check: None, kept: Kept::default() }
    }

    /// Of these instructions, values are told.
    pub fn checking(self, hand_overs: HandOvers) -> FirstPass {
        FirstPass { check: (!hand_overs.flags.is_empty()).then(|| HandOverCheck::new(hand_overs)), ..self }
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
        let trusted = self.check.map(HandOverCheck::into_trusted).unwrap_or_default();
        FirstFound { sieved, trusted, explored }
    }
}

impl Listener for FirstPass {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.sieve.accesses(thread, accesses);
        self.kept.accesses(thread, accesses);
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let length = self.sieve.records(thread, records);
        self.kept.records(thread, records, length);
        if let Some(check) = &mut self.check {
            check.records_in_front(thread, records, length);
        }
        length
    }

    fn reads_records(&self) -> bool {
        self.sieve.reads_records()
    }

    fn hears_calls(&self) -> bool {
        false
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        self.sieve.valued(thread, access, values);
        self.kept.accesses(thread, std::slice::from_ref(access));
        if let Some(check) = &mut self.check {
            check.valued(thread, access, values);
        }
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.sieve.event(thread, event);
        self.kept.event(thread, event);
        if let Some(check) = &mut self.check {
            check.event(thread, event);
        }
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.sieve.site(site, pc);
        self.kept.site(site, pc);
        if let Some(check) = &mut self.check {
            check.site(site, pc);
        }
    }
}

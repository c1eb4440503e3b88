//! The detector, and beside it who finds out what becomes of what is read: one replay tells both.
//!
//! What the detector is told of, the instructions that have to do with contended memory, is told with values each time; right behind these, where all other accesses go is
//! told now and then. That is for the seeker alone.

use super::detector::Detector;
use super::found::Predicted;
use super::uses::UseSeeker;
use super::valued_records::{self, Concerning};
use std::collections::BTreeSet;
use trace::stream::records::{Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

pub struct Watching {
    detector: Detector,
    seeker: UseSeeker,
    /// The instructions that the detector is told of.
    instructions: BTreeSet<u64>,
    /// Of each site, whether it is one of the others.
    is_other: Vec<bool>,
    /// Patterns with one of the others.
    with_others: Concerning,
}

impl Watching {
    /// The detector is told of these instructions, each of which may read a pointer or an index.
    pub fn new(detector: Detector, instructions: BTreeSet<u64>) -> Watching {
        let seeker = UseSeeker::new(instructions.iter().copied());
        Watching { detector, seeker, instructions, is_other: Vec::new(), with_others: Concerning::default() }
    }

    /// What the program's own behaviour does not speak against.
    pub fn into_predicted(self) -> Predicted {
        let mut predicted = self.detector.into_predicted();
        predicted.keep_used(self.seeker.into_used());
        predicted
    }

    fn has_others(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool {
        let is_other = &self.is_other;
        self.with_others.is_so(record.number, records.patterns, |site| is_other[site.0 as usize])
    }

    /// Tells the detector the records up to a word.
    fn tell_detector(&mut self, thread: Thread, records: &Records<'_>, from: usize, to: usize) {
        if from < to {
            self.detector.records(thread, &Records { words: &records.words[from..to], ..*records });
        }
    }

    fn hear(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        if !self.is_other[access.site.0 as usize] {
            self.detector.valued(thread, access, values);
        }
    }
}

impl Listener for Watching {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        for access in accesses {
            self.valued(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        // The values of others are not told elsewhere either.
        let is_other = self.is_other[access.site.0 as usize];
        self.seeker.valued(thread, access, if is_other { Values::default() } else { values });
        self.hear(thread, access, values);
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        let (mut told, mut length) = (0, 0);
        for record in records.plain() {
            let start = length;
            length += record.words.len();
            if self.has_others(&record, records) {
                self.tell_detector(thread, records, told, start);
                valued_records::tell(&record, records, |access, values| self.hear(thread, access, values));
                told = length;
            }
        }
        self.tell_detector(thread, records, told, length);
        self.seeker.records(thread, records);
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.detector.event(thread, event);
        self.seeker.event(thread, event);
    }

    fn passed_over(&mut self, thread: Thread, site: u64, calls: u64) {
        self.detector.passed_over(thread, site, calls);
    }

    fn whole_since(&mut self, thread: Thread, clock: Option<u64>) {
        self.detector.whole_since(thread, clock);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.detector.site(site, pc);
        self.seeker.site(site, pc);
        let length = self.is_other.len().max(site.0 as usize + 1);
        self.is_other.resize(length, false);
        self.is_other[site.0 as usize] = !self.instructions.contains(&pc);
    }
}

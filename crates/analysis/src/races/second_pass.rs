//! The second pass over a stream: a detector that looks at what the sieve has left, and beside it a survey of loops that
//! wait. Where nobody waited for plain memory, what the detector found is all there is.

use super::detector::Detector;
use super::found::Found;
use super::sieve::Sieved;
use super::sites::Classify;
use super::spin_loops::LONGEST_ROUND;
use super::survey::{Survey, Surveyed};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use trace::stream::records::{Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// So many accesses are taken out of records at a time, or a few more.
const AT_ONCE: usize = 1024;

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
    /// How many accesses of a thread come next that the survey has to see, as they are close to one of what may race: the
    /// thread may be in a loop that waits for that.
    close: FxHashMap<Thread, u64>,
    /// Of the records that are passed over: how many words and accesses each has.
    passed_over: Vec<(u16, u16)>,
    accesses: Vec<Access>,
}

impl SecondPass {
    /// The same classes twice: for the survey and for the detector.
    pub fn new(sieved: Sieved, of_survey: Classify, of_detector: Classify) -> SecondPass {
        let known = Surveyed { sync_memory: sieved.atomics.clone(), ad_hoc: Vec::new() };
        let detector = Detector::among(sieved.suspects, known, of_detector);
        let survey = Survey::new(sieved.atomics, of_survey);
        let (close, passed_over, accesses) = (FxHashMap::default(), Vec::new(), Vec::new());
        SecondPass { survey, detector, close, passed_over, accesses }
    }

    pub fn into_found(self) -> SecondFound {
        let found = self.survey.only_atomics().then(|| self.detector.into_found());
        SecondFound { surveyed: self.survey.into_surveyed(), found }
    }
}

impl SecondPass {
    /// Passes over records that have nothing to do with what may race, and are not close to one that has.
    fn pass_over(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        self.passed_over.clear();
        let mut stop = None;
        for record in records.plain() {
            if self.detector.wants_record(&record, records) {
                stop = Some(u64::from(record.accesses));
                break;
            }
            self.passed_over.push((record.words.len() as u16, record.accesses));
        }
        if let Some(n_accesses) = stop {
            let mut before = 0;
            while before < LONGEST_ROUND {
                let Some((_, n_more)) = self.passed_over.pop() else { break };
                before += u64::from(n_more);
            }
            self.close.insert(thread, before + n_accesses + LONGEST_ROUND);
        }
        let n_accesses = self.passed_over.iter().map(|(_, n_accesses)| u64::from(*n_accesses)).sum();
        self.survey.pass_over(thread, n_accesses);
        self.detector.pass_over(thread, n_accesses);
        self.passed_over.iter().map(|(n_words, _)| usize::from(*n_words)).sum()
    }

    /// Looks at the accesses of the next records one by one.
    fn look_closely(&mut self, thread: Thread, close: u64, records: &Records<'_>) -> usize {
        let most = usize::try_from(close).unwrap_or(AT_ONCE).min(AT_ONCE);
        let mut accesses = std::mem::take(&mut self.accesses);
        let mut length = 0;
        for Record { number, words, .. } in records.plain() {
            let templates = records.patterns.templates(number).iter();
            accesses.extend(templates.map(|template| template.access(words, records.fs_base)));
            length += words.len();
            if accesses.len() >= most {
                break;
            }
        }
        self.accesses(thread, &accesses);
        accesses.clear();
        self.accesses = accesses;
        length
    }
}

impl Listener for SecondPass {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.survey.accesses(thread, accesses);
        self.detector.accesses(thread, accesses);
        let close = self.close.entry(thread).or_default();
        let since = accesses.iter().rev().position(|access| self.detector.wants(access));
        *close = match since {
            Some(since) => LONGEST_ROUND.saturating_sub(since as u64),
            None => close.saturating_sub(accesses.len() as u64),
        };
    }

    fn records(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        match self.close.get(&thread).copied().unwrap_or(0) {
            0 => self.pass_over(thread, records),
            close => self.look_closely(thread, close, records),
        }
    }

    fn reads_records(&self) -> bool {
        self.detector.reads_records()
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

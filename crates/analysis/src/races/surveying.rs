//! A survey of loops that wait beside a listener that is looking for something at a few places: where neither has anything
//! to see, records are passed over.

use super::spin_loops::LONGEST_ROUND;
use super::survey::Survey;
use rustc_hash::FxHashMap;
use trace::stream::records::{Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// So many accesses are taken out of records at a time, or a few more.
const AT_ONCE: usize = 1024;

/// A listener that most accesses mean nothing to.
pub trait Picky: Listener {
    /// Whether an access may have an effect.
    fn wants(&self, access: &Access) -> bool;

    /// Whether an access of a record may have an effect.
    fn wants_record(&mut self, record: &Record<'_>, records: &Records<'_>) -> bool;

    /// A thread has made so many accesses that have no effect.
    fn pass_over(&mut self, thread: Thread, accesses: u64);
}

pub struct Surveying<L> {
    pub survey: Survey,
    pub listener: L,
    /// How many accesses of a thread come next that the survey has to see, as they are close to one that is wanted: the
    /// thread may be in a loop that waits for that.
    close: FxHashMap<Thread, u64>,
    /// Of the records that are passed over: how many words and accesses each has.
    passed_over: Vec<(u16, u16)>,
    accesses: Vec<Access>,
}

impl<L: Picky> Surveying<L> {
    pub fn new(survey: Survey, listener: L) -> Surveying<L> {
        Surveying { survey, listener, close: FxHashMap::default(), passed_over: Vec::new(), accesses: Vec::new() }
    }

    /// Passes over records that nobody wants, and that are not close to one that somebody does.
    fn pass_over(&mut self, thread: Thread, records: &Records<'_>) -> usize {
        self.passed_over.clear();
        let mut stop = None;
        for record in records.plain() {
            if self.listener.wants_record(&record, records) {
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
        self.listener.pass_over(thread, n_accesses);
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

impl<L: Picky> Listener for Surveying<L> {
    fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        self.survey.accesses(thread, accesses);
        self.listener.accesses(thread, accesses);
        let close = self.close.entry(thread).or_default();
        let since = accesses.iter().rev().position(|access| self.listener.wants(access));
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
        self.listener.reads_records()
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.survey.event(thread, event);
        self.listener.event(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.survey.site(site, pc);
        self.listener.site(site, pc);
    }
}

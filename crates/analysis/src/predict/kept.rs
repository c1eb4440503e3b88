//! A stream that is short is kept, so that it can be told again without another replay.

use trace::stream::records::{Patterns, Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// So many bytes are kept at most: where memory and code that are like much else are told in part, most programs have fewer.
const MOST_KEPT: usize = 256 << 20;

enum Told {
    /// The next ones of those that are kept.
    Accesses(Thread, usize),
    /// So many of the next words are records of a thread.
    Records {
        thread: Thread,
        fs_base: u64,
        length: usize,
    },
    Event(Thread, Event),
    Site(Site, u64),
}

/// What was told, unless it was too much. Values are not told again.
pub struct Kept {
    told: Vec<Told>,
    accesses: Vec<Access>,
    /// Of records, which are much shorter than their accesses.
    words: Vec<u64>,
    patterns: Patterns,
    is_whole: bool,
}

impl Default for Kept {
    fn default() -> Kept {
        let (told, accesses, words, patterns) = Default::default();
        Kept { told, accesses, words, patterns, is_whole: true }
    }
}

impl Kept {
    pub fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
        if !self.is_whole {
            return;
        }
        self.accesses.extend_from_slice(accesses);
        match self.told.last_mut() {
            Some(Told::Accesses(last, n_last)) if *last == thread => *n_last += accesses.len(),
            _ => self.told.push(Told::Accesses(thread, accesses.len())),
        }
        self.give_up_if_long();
    }

    /// The plain records at the front that have so many words.
    pub fn records(&mut self, thread: Thread, records: &Records<'_>, length: usize) {
        if !self.is_whole || length == 0 {
            return;
        }
        self.learn(records.patterns);
        self.words.extend_from_slice(&records.words[..length]);
        let (of, base) = (thread, records.fs_base);
        match self.told.last_mut() {
            Some(Told::Records { thread, fs_base, length: known }) if (*thread, *fs_base) == (of, base) => {
                *known += length;
            }
            _ => self.told.push(Told::Records { thread, fs_base: base, length }),
        }
        self.give_up_if_long();
    }

    /// Takes in patterns that are new.
    fn learn(&mut self, patterns: &Patterns) {
        let Patterns { templates, patterns: known, .. } = &mut self.patterns;
        templates.extend_from_slice(&patterns.templates[templates.len()..]);
        known.extend_from_slice(&patterns.patterns[known.len()..]);
    }

    pub fn event(&mut self, thread: Thread, event: &Event) {
        self.add(|| Told::Event(thread, event.clone()));
    }

    pub fn site(&mut self, site: Site, pc: u64) {
        self.add(|| Told::Site(site, pc));
    }

    fn add(&mut self, told: impl FnOnce() -> Told) {
        if self.is_whole {
            self.told.push(told());
            self.give_up_if_long();
        }
    }

    fn give_up_if_long(&mut self) {
        let sizes = [size_of_val(&*self.told), size_of_val(&*self.accesses), size_of_val(&*self.words)];
        if sizes.iter().sum::<usize>() > MOST_KEPT {
            *self = Kept { is_whole: false, ..Kept::default() };
        }
    }

    /// Tells all again. Nothing if it was too much.
    pub fn tell<L: Listener>(&self, mut listener: L) -> Option<L> {
        if !self.is_whole {
            return None;
        }
        let (mut accesses, mut words) = (self.accesses.as_slice(), self.words.as_slice());
        for told in &self.told {
            match told {
                Told::Accesses(thread, length) => {
                    let (some, after) = accesses.split_at(*length);
                    listener.accesses(*thread, some);
                    accesses = after;
                }
                Told::Records { thread, fs_base, length } => {
                    let (some, after) = words.split_at(*length);
                    tell_records(
                        *thread,
                        Records { words: some, fs_base: *fs_base, patterns: &self.patterns },
                        &mut listener,
                    );
                    words = after;
                }
                Told::Event(thread, event) => listener.event(*thread, event),
                Told::Site(site, pc) => listener.site(*site, *pc),
            }
        }
        listener.finished();
        Some(listener)
    }
}

/// Tells plain records, and those access by access that the listener leaves.
fn tell_records(thread: Thread, mut records: Records<'_>, listener: &mut impl Listener) {
    let mut accesses = Vec::new();
    while !records.words.is_empty() {
        let taken = if listener.reads_records() { listener.records(thread, &records) } else { 0 };
        records.words = &records.words[taken..];
        let Some(Record { number, words, .. }) = records.plain().next() else { return };
        let templates = records.patterns.templates(number).iter();
        accesses.clear();
        accesses.extend(templates.map(|template| template.access(words, records.fs_base)));
        listener.accesses(thread, &accesses);
        records.words = &records.words[words.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::AccessKind;
    use trace::stream::records::{Nature, Pattern, Patterns, Template};

    #[derive(Default, PartialEq, Debug)]
    struct Heard(Vec<String>);

    impl Listener for Heard {
        fn accesses(&mut self, thread: Thread, accesses: &[Access]) {
            let addresses: Vec<u64> = accesses.iter().map(|access| access.address).collect();
            self.0.push(format!("{thread} accesses {addresses:?}"));
        }

        fn event(&mut self, thread: Thread, event: &Event) {
            self.0.push(format!("{thread} {event:?}"));
        }

        fn site(&mut self, site: Site, pc: u64) {
            self.0.push(format!("{} at {pc}", site.0));
        }
    }

    fn access(address: u64) -> Access {
        Access { address, size: 8, site: Site(0), kind: AccessKind::Read }
    }

    #[test]
    fn what_was_told_is_told_again_in_order() {
        let mut kept = Kept::default();
        kept.site(Site(0), 7);
        kept.accesses(1, &[access(8)]);
        let template =
            Template { offset: 1, size: 8, site: Site(0), word: 1, kind: AccessKind::Read, through_fs: false };
        let pattern = Pattern { first: 0, accesses: 1, words: 2, nature: Nature::Plain };
        let patterns = Patterns { templates: vec![template], patterns: vec![pattern], held: Vec::new() };
        kept.records(1, &Records { words: &[0, 15, 0, 23, 0, 31], fs_base: 0, patterns: &patterns }, 4);
        kept.records(1, &Records { words: &[0, 39], fs_base: 0, patterns: &patterns }, 2);
        kept.event(1, &Event::Ended);
        kept.accesses(2, &[access(40)]);
        let heard = kept.tell(Heard::default()).map(|heard| heard.0);
        let single = ["0 at 7", "1 accesses [8]", "1 accesses [16]", "1 accesses [24]", "1 accesses [40]"];
        let expected = [&single[..], &["1 Ended", "2 accesses [40]"]].concat();
        assert_eq!(heard, Some(expected.into_iter().map(str::to_owned).collect()));
    }

    #[test]
    fn a_long_stream_is_not_kept() {
        let mut kept = Kept::default();
        let words = vec![0; MOST_KEPT / size_of::<u64>() / 64];
        let records = Records { words: &words, fs_base: 0, patterns: &Patterns::default() };
        (0..64).for_each(|_| kept.records(1, &records, words.len()));
        kept.event(1, &Event::Ended);
        assert_eq!(kept.tell(Heard::default()), None);
        assert!(kept.words.capacity() == 0 && kept.told.is_empty());
    }
}

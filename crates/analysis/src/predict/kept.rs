//! A stream that is short is kept, so that it can be told again without another replay.

use trace::stream::records::{Record, Records};
use trace::stream::{Access, Event, Listener, Site, Thread};

/// So many accesses and other things are kept at most, which is 200 MB: where memory and code that are like much else are told in part, most programs
/// have fewer.
const MOST_KEPT: usize = 1 << 23;

enum Told {
    /// The next ones of those that are kept.
    Accesses(Thread, usize),
    Event(Thread, Event),
    Site(Site, u64),
}

/// What was told, unless it was too much.
pub struct Kept {
    told: Vec<Told>,
    accesses: Vec<Access>,
    is_whole: bool,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { told: Vec::new(), accesses: Vec::new(), is_whole: true }
    }
}

impl Kept {
    pub fn accesses(&mut self, thread: Thread, accesses: impl IntoIterator<Item = Access>) {
        if !self.is_whole {
            return;
        }
        let known = self.accesses.len();
        self.accesses.extend(accesses);
        let n_new = self.accesses.len() - known;
        match self.told.last_mut() {
            Some(Told::Accesses(last, n_last)) if *last == thread => *n_last += n_new,
            _ => self.told.push(Told::Accesses(thread, n_new)),
        }
        self.give_up_if_long();
    }

    /// The plain records at the front that have so many words.
    pub fn records(&mut self, thread: Thread, records: &Records<'_>, length: usize) {
        if !self.is_whole || length == 0 {
            return;
        }
        let taken = Records { words: &records.words[..length], ..*records };
        let accesses = taken.plain().flat_map(|Record { number, words, .. }| {
            let templates = records.patterns.templates(number).iter();
            templates.map(move |template| template.access(words, records.fs_base))
        });
        self.accesses(thread, accesses);
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
        if self.told.len() + self.accesses.len() > MOST_KEPT {
            *self = Kept { is_whole: false, ..Kept::default() };
        }
    }

    /// Tells all again. Nothing if it was too much.
    pub fn tell<L: Listener>(&self, mut listener: L) -> Option<L> {
        if !self.is_whole {
            return None;
        }
        let mut rest = self.accesses.as_slice();
        for told in &self.told {
            match told {
                Told::Accesses(thread, length) => {
                    let (accesses, after) = rest.split_at(*length);
                    listener.accesses(*thread, accesses);
                    rest = after;
                }
                Told::Event(thread, event) => listener.event(*thread, event),
                Told::Site(site, pc) => listener.site(*site, *pc),
            }
        }
        listener.finished();
        Some(listener)
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
        kept.accesses(1, [access(8)]);
        let template =
            Template { offset: 1, size: 8, site: Site(0), word: 1, kind: AccessKind::Read, through_fs: false };
        let pattern = Pattern { first: 0, accesses: 1, words: 2, nature: Nature::Plain };
        let patterns = Patterns { templates: vec![template], patterns: vec![pattern], held: Vec::new() };
        kept.records(1, &Records { words: &[0, 15, 0, 23, 0, 31], fs_base: 0, patterns: &patterns }, 4);
        kept.event(1, &Event::Ended);
        kept.accesses(2, [access(40)]);
        let heard = kept.tell(Heard::default()).map(|heard| heard.0);
        let expected = ["0 at 7", "1 accesses [8, 16, 24]", "1 Ended", "2 accesses [40]"];
        assert_eq!(heard, Some(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_long_stream_is_not_kept() {
        let mut kept = Kept::default();
        kept.accesses(1, (0..MOST_KEPT as u64).map(access));
        kept.event(1, &Event::Ended);
        assert_eq!(kept.tell(Heard::default()), None);
        assert!(kept.accesses.capacity() == 0 && kept.told.is_empty());
    }
}

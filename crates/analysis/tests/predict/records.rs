//! Streams with values as an observed replay writes them down: by records of some accesses each.

use super::{Does, MOST_MEMORY, candidates, plain, sieve, tell, trusted};
use analysis::races::Suspects;
use std::collections::BTreeSet;
use trace::stream::records::{Held, Nature, Pattern, Patterns, Records, Template};
use trace::stream::{Access, Event, Listener, Site, Thread, Values};

/// A record is of so many accesses at most, and each of them has so many words: an address and two values.
const ACCESSES: usize = 3;
const WORDS_EACH: usize = 3;

/// Tells a listener by records what it is told access by access.
struct Writer<'a, L> {
    listener: &'a mut L,
    /// Of these, values are told.
    instructions: BTreeSet<u64>,
    patterns: Patterns,
    thread: Thread,
    /// What the next record is going to be of.
    accesses: Vec<(Access, [u64; 2])>,
}

impl<L: Listener> Writer<'_, L> {
    fn write(&mut self) {
        if self.accesses.is_empty() {
            return;
        }
        let mut words = vec![self.patterns.patterns.len() as u64];
        let first = self.patterns.templates.len() as u32;
        for (access, values) in self.accesses.drain(..) {
            let word = words.len() as u16;
            words.extend([access.address, values[0], values[1]]);
            let Access { size, site, kind, .. } = access;
            self.patterns.templates.push(Template { offset: 0, size, site, word, kind, through_fs: false });
            let is_valued = self.instructions.contains(&(0x100 * u64::from(site.0)));
            let held = if is_valued { [Held::Word(word + 1), Held::Word(word + 2)] } else { [Held::Nowhere; 2] };
            self.patterns.held.push(held);
        }
        let accesses = ((words.len() - 1) / WORDS_EACH) as u16;
        let pattern = Pattern { first, accesses, words: words.len() as u16, nature: Nature::Plain };
        self.patterns.patterns.push(pattern);
        let records = Records { words: &words, fs_base: 0, patterns: &self.patterns };
        assert_eq!(self.listener.records(self.thread, &records), words.len(), "nothing is special");
    }
}

impl<L: Listener> Listener for Writer<'_, L> {
    fn accesses(&mut self, _thread: Thread, _accesses: &[Access]) {
        unreachable!("all accesses have values");
    }

    fn valued(&mut self, thread: Thread, access: &Access, values: Values<'_>) {
        if self.thread != thread || self.accesses.len() == ACCESSES {
            self.write();
        }
        self.thread = thread;
        let number = |bytes: Option<&[u8]>| {
            bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes).expect("eight bytes")
        };
        self.accesses.push((*access, [number(values.before), number(values.after)]));
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        self.write();
        self.listener.event(thread, event);
    }

    fn site(&mut self, site: Site, pc: u64) {
        self.listener.site(site, pc);
    }
}

/// The memory that threads contend for, where what is handed over under locks orders what follows.
pub fn contended_by_hand_overs(stream: &[(Thread, Does)]) -> Option<Suspects> {
    let mut sieve = sieve(plain(), Vec::new(), MOST_MEMORY).trusting(trusted(stream));
    let instructions = candidates(stream).instructions();
    let (patterns, accesses) = (Patterns::default(), Vec::new());
    let mut writer = Writer { listener: &mut sieve, instructions, patterns, thread: 0, accesses };
    tell(&mut writer, stream);
    writer.write();
    sieve.into_sieved().suspects
}

//! Accesses as an observed replay writes them down, for listeners that read records.

use trace::stream::records::{Nature, Pattern, Patterns, Records, Template};
use trace::stream::{Access, Listener, Thread};

/// A record is of so many accesses at most.
const ACCESSES: usize = 5;

/// The patterns so far. No two records have the same.
#[derive(Default)]
pub struct Written {
    patterns: Patterns,
}

impl Written {
    /// Tells accesses of a thread by records, and those one by one that the listener leaves.
    pub fn tell(&mut self, listener: &mut dyn Listener, thread: Thread, accesses: &[Access]) {
        let words: Vec<u64> = accesses.chunks(ACCESSES).flat_map(|some| self.write(some)).collect();
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let taken = match listener.reads_records() {
                true => listener.records(thread, &Records { words: rest, fs_base: 0, patterns: &self.patterns }),
                false => 0,
            };
            rest = &rest[taken..];
            let Some(pattern) = self.patterns.of(rest) else { break };
            let templates = self.patterns.templates(rest[0] as u32).iter();
            let left: Vec<Access> = templates.map(|template| template.access(rest, 0)).collect();
            listener.accesses(thread, &left);
            rest = &rest[usize::from(pattern.words)..];
        }
    }

    /// The record of some accesses, which are all at a distance from the first.
    fn write(&mut self, accesses: &[Access]) -> [u64; 2] {
        let number = self.patterns.patterns.len() as u64;
        let first = self.patterns.templates.len() as u32;
        let base = accesses[0].address;
        self.patterns.templates.extend(accesses.iter().map(|access| Template {
            offset: access.address.wrapping_sub(base) as i64,
            size: access.size,
            site: access.site,
            word: 1,
            kind: access.kind,
            through_fs: false,
        }));
        let (accesses, words, nature) = (accesses.len() as u16, 2, Nature::Plain);
        self.patterns.patterns.push(Pattern { first, accesses, words, nature });
        [number, base]
    }
}

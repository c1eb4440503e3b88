//! How far back the data of a run are followed: through all of its end, and through moments before it that the end depends on.
//!
//! A short run is followed through ever longer ends. In a long one, who wrote what the end has read is sought by a run that
//! stops at every store there, which is cheap; then the data around those stores are followed, and so on.

use super::chain::{Trail, number, stores};
use session::rerun::{Definition, Memory, Origins, Outcome, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How far back data are followed at first, in events of the failing thread's clock, and how much further each time.
const FIRST: u64 = 20_000;
const WIDER: u64 = 16;
/// Shorter runs are followed through all of their end; of others not more than so much of it.
const SHORT: u64 = 1_000_000;
/// How far the data before a store are followed.
const LEAD: u64 = 2_000;
/// So much is asked for at once.
const MOST_ASKED: usize = 64;
/// Around so many stores data are followed at once.
const MOST_AROUND: usize = 16;
/// How a run tells that it has given memory up.
const TOO_OFTEN: &str = "is written to too often to keep who does";
/// Longer accesses are not traced to those who wrote what they read.
const LONGEST: u64 = 4096;

/// A stretch of a thread's clock in which data are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    thread: u32,
    from: u64,
    until: Option<u64>,
}

impl Window {
    fn covers(&self, definition: &Definition) -> bool {
        let is_before_end = self.until.is_none_or(|until| definition.clock < until);
        self.thread == definition.thread && self.from <= definition.clock && is_before_end
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Where the run ends.
    clock: u64,
    /// That of the end comes first.
    windows: Vec<Window>,
    /// The first definition of the end: those of other threads that come later belong to it, too.
    first_of_end: u32,
    /// Memory whose writers are sought: addresses and sizes.
    sought: BTreeSet<(u64, u64)>,
    /// Something was in a register for longer than is followed.
    gave_up: bool,
}

impl Reach {
    /// Of a run that ends when the thread's clock shows this.
    pub fn new(thread: u32, clock: u64) -> Reach {
        let end = Window { thread, from: clock.saturating_sub(FIRST), until: None };
        Reach { clock, windows: vec![end], first_of_end: u32::MAX, sought: BTreeSet::new(), gave_up: false }
    }

    /// Whether everything is followed.
    pub fn is_whole(&self) -> bool {
        self.windows[0].from == 0
    }

    pub fn steps(&self) -> Vec<Step> {
        let windows = self.windows.iter().map(|window| {
            let Window { thread, from, until } = *window;
            Step::Origins { thread, clock: from, until }
        });
        let memory: Vec<Memory> = self
            .sought
            .iter()
            .map(|(address, size)| Memory { address: format!("{address:#x}"), size: *size })
            .collect();
        let writers = (!memory.is_empty()).then_some(Step::Writers { memory });
        windows.chain(writers).collect()
    }

    /// Whether what a run did not find has not been there.
    pub fn was_enough_for(&self, outcome: &Outcome) -> bool {
        !self.gave_up && !outcome.remarks.iter().any(|remark| remark.ends_with(TOO_OFTEN))
    }

    /// Whether nothing more has to be known about a way back.
    pub fn suffices(&self, trail: &Trail) -> bool {
        !trail.is_open && trail.origin().is_none_or(|origin| self.covers(origin))
    }

    fn covers(&self, definition: &Definition) -> bool {
        definition.number >= self.first_of_end || self.windows.iter().any(|window| window.covers(definition))
    }

    /// A run has told where the end begins.
    fn learn(&mut self, origins: &Origins) {
        let of_end = origins.definitions.iter().filter(|definition| self.windows[0].covers(definition));
        self.first_of_end = of_end.map(|definition| definition.number).min().unwrap_or(u32::MAX);
    }

    /// Reaches for what the stores that were found come from, the latest first. False if all of that is known.
    pub fn look_around(&mut self, origins: &Origins) -> bool {
        self.learn(origins);
        let before = self.windows.len();
        for definition in &origins.definitions {
            if !self.covers(definition) && self.windows.len() < before + MOST_AROUND {
                self.ask(definition);
            }
        }
        self.windows.len() > before
    }

    /// Reaches for what the ways back leave open. False if there is nothing left to try.
    pub fn extend(&mut self, origins: &Origins, trails: &[Trail]) -> bool {
        if self.clock < SHORT || trails.is_empty() {
            return self.widen(0);
        }
        let before = self.clone();
        let known: BTreeMap<u32, &Definition> =
            origins.definitions.iter().map(|definition| (definition.number, definition)).collect();
        let mut waiting: VecDeque<&Definition> =
            trails.iter().filter(|trail| !self.suffices(trail)).flat_map(|trail| &trail.path).collect();
        let mut seen = BTreeSet::new();
        let mut asked = 0;
        while let Some(definition) = waiting.pop_front()
            && asked < MOST_ASKED
        {
            if seen.insert(definition.number) {
                asked += usize::from(self.ask(definition));
                waiting.extend(definition.values.iter().filter_map(|number| known.get(number)));
            }
        }
        self.windows != before.windows || self.sought != before.sought
    }

    /// Reaches for those who wrote what anything has read that the failure depends on, the nearest first. False if there is
    /// nothing left to try.
    pub fn deepen(&mut self, origins: &Origins) -> bool {
        let known: BTreeMap<u32, &Definition> =
            origins.definitions.iter().map(|definition| (definition.number, definition)).collect();
        let before = self.sought.len();
        let mut waiting: VecDeque<&Definition> = origins.failure.iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(definition) = waiting.pop_front()
            && self.sought.len() < before + MOST_ASKED
        {
            if seen.insert(definition.number) {
                let memory = read_from(definition).filter(|(_, size)| *size <= LONGEST);
                self.sought.extend(memory.filter(|_| self.clock >= SHORT && definition.values.contains(&0)));
                let sources = definition.values.iter().chain(&definition.addresses);
                waiting.extend(sources.filter_map(|number| known.get(number)));
            }
        }
        self.sought.len() > before
    }

    /// Reaches for what a definition comes from, if that is not known. Tells whether that is so.
    fn ask(&mut self, definition: &Definition) -> bool {
        let of_end = (definition.number >= self.first_of_end).then_some(0);
        let window = self.windows.iter().position(|window| window.covers(definition)).or(of_end);
        let Some(window) = window else {
            let (thread, clock) = (definition.thread, definition.clock);
            self.windows.push(Window { thread, from: clock.saturating_sub(LEAD), until: Some(clock + 1) });
            return true;
        };
        let is_failure = definition.number == 0 && definition.addresses.contains(&0);
        if !definition.values.contains(&0) && !is_failure {
            return false;
        }
        match read_from(definition).filter(|(_, size)| *size <= LONGEST) {
            Some(memory) if self.sought.insert(memory) => true,
            // What was in a register is older than the window.
            _ => self.widen(window),
        }
    }

    fn widen(&mut self, number: usize) -> bool {
        let is_short = self.clock < SHORT;
        let end = self.clock;
        let window = &mut self.windows[number];
        let length = window.until.unwrap_or(end) - window.from;
        if window.from == 0 {
            return false;
        }
        if length >= FIRST * WIDER && !is_short {
            self.gave_up = true;
            return false;
        }
        window.from = window.until.unwrap_or(end).saturating_sub(length.max(1) * WIDER);
        true
    }
}

/// The memory that a definition took a value from.
fn read_from(definition: &Definition) -> Option<(u64, u64)> {
    let memory = definition.memory.as_ref()?;
    let size = u64::from(memory.size);
    match &memory.from {
        Some(from) => Some((number(from), size)),
        // A copy to memory comes from a register.
        None => (!definition.copies || !stores(definition)).then(|| (number(&memory.address), size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::chain::End;
    use crate::why::chain::tests::step;
    use session::rerun::Accessed;

    fn at(clock: u64, definition: Definition) -> Definition {
        Definition { clock, ..definition }
    }

    fn accessing(writes: bool, definition: Definition) -> Definition {
        let address = "0x1000".to_owned();
        let memory = Accessed { address, size: 8, writes, from: None, overwrites: None, return_below: None };
        Definition { memory: Some(memory), ..definition }
    }

    fn open(path: Vec<Definition>) -> Vec<Trail> {
        vec![Trail { is_open: true, ..Trail::new(path, End::Older) }]
    }

    fn origins(definitions: Vec<Definition>) -> Origins {
        Origins { steps: 0, suppressed: 0, failure: None, branches: Vec::new(), definitions }
    }

    #[test]
    fn a_short_run_is_followed_through_ever_more_of_its_end() {
        let mut reach = Reach::new(1, 600_000);
        let mut lengths = Vec::new();
        while reach.extend(&origins(Vec::new()), &[]) {
            lengths.push(600_000 - reach.windows[0].from);
        }
        assert_eq!(lengths, [320_000, 600_000]);
        assert!(reach.is_whole());
    }

    #[test]
    fn writers_are_sought_and_then_what_they_wrote() {
        let end = 900_000_000;
        let mut reach = Reach::new(1, end);
        let load = at(end - 5, accessing(false, step(7, true, &[0], &[])));
        assert!(reach.extend(&origins(vec![load.clone()]), &open(vec![load.clone()])));
        assert_eq!(reach.sought, [(0x1000, 8)].into());
        let store = at(4000, accessing(true, step(3, true, &[0], &[])));
        let load = Definition { values: vec![3], ..load };
        assert!(reach.extend(&origins(vec![load.clone(), store.clone()]), &open(vec![load, store.clone()])));
        assert_eq!(reach.windows[1], Window { thread: 1, from: 2000, until: Some(4001) });
        assert!(reach.suffices(&Trail::new(vec![store], End::Moved)));
    }

    #[test]
    fn an_origin_that_nobody_looked_around_is_not_enough() {
        let mut reach = Reach::new(1, 900_000_000);
        let trail = Trail::new(vec![at(4000, step(3, false, &[], &[]))], End::Computed);
        assert!(!reach.suffices(&trail));
        assert!(reach.extend(&origins(Vec::new()), std::slice::from_ref(&trail)));
        assert!(reach.suffices(&trail) && !reach.extend(&origins(Vec::new()), &[trail]));
    }
}

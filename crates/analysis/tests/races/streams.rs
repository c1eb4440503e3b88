//! Streams written as tables: a column for each thread, a row for each thing done, from top to bottom.
//!
//! ```text
//! T1       | T2
//! lock m   |
//! write x  |
//! unlock m |
//!          | read x
//! ```
//!
//! Names stand for addresses, far apart. `x+4:2` is two bytes at offset 4; the size is 8 if none is given. A row's number
//! (the first is 1) is its site, unless it says `@n`. `5* read x` does it five times. Thread 1 makes the others first,
//! unless it says itself where (`create 2`).

use super::written::Written;
use analysis::races::{
    Classify, Detector, Found, Race, SecondFound, SecondPass, Sieve, Sieved, SiteClass, Survey, Surveyed, Suspects,
};
use std::collections::BTreeMap;
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

/// One thing that a thread does.
#[derive(Clone, Debug)]
pub enum Done {
    Access(Access),
    Event(Event),
}

impl Done {
    pub fn access(&self) -> Option<Access> {
        match self {
            Done::Access(access) => Some(*access),
            Done::Event(_) => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub steps: Vec<(Thread, Done)>,
    pub classes: BTreeMap<u64, SiteClass>,
}

/// How accesses are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// One by one.
    Accesses,
    /// By records of a few.
    Records,
}

impl Stream {
    pub fn of(table: &str) -> Stream {
        let mut rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
        let threads = rows.next().expect("a head row").split('|').count() as Thread;
        let mut stream = Stream::default();
        if !table.contains("create") {
            (2..=threads).for_each(|child| stream.steps.push((1, Done::Event(Event::Created { child }))));
        }
        let mut names = Names::default();
        for (index, row) in rows.enumerate() {
            for (column, text) in row.split('|').enumerate().filter(|(_, text)| !text.trim().is_empty()) {
                let (times, done) = parse(text, index as u32 + 1, &mut names);
                stream.steps.extend(vec![(column as Thread + 1, done); times]);
            }
        }
        stream
    }

    /// Says what the accesses of a site are.
    pub fn with_class(mut self, site: u64, class: SiteClass) -> Stream {
        self.classes.insert(site, class);
        self
    }

    pub fn sieve(&self) -> Sieved {
        let mut sieve = Sieve::new(self.classify());
        self.tell(&mut sieve);
        sieve.into_sieved()
    }

    pub fn survey(&self) -> Surveyed {
        let mut survey = Survey::new(self.sieve().atomics, self.classify());
        self.tell(&mut survey);
        survey.into_surveyed()
    }

    /// What is found with a survey beforehand. What is left by a sieve must have the same races, however it is told.
    pub fn found(&self) -> Found {
        let found = self.found_with(self.survey());
        assert_eq!(self.found_after_sieving(Told::Accesses), found);
        assert_eq!(self.found_after_sieving(Told::Records), found);
        found
    }

    /// What is found by as many passes as it takes.
    pub fn found_after_sieving(&self, told: Told) -> Found {
        let mut sieve = Sieve::new(self.classify());
        self.tell_as(told, &mut sieve);
        let sieved = sieve.into_sieved();
        let suspects = sieved.suspects.clone();
        if suspects.as_ref().is_some_and(Suspects::is_empty) {
            return Found::default();
        }
        let mut second_pass = SecondPass::after(sieved, self.classify(), self.classify());
        self.tell_as(told, &mut second_pass);
        let SecondFound { surveyed, found } = second_pass.into_found();
        found.unwrap_or_else(|| {
            let mut detector = Detector::among(suspects, surveyed, self.classify());
            self.tell_as(told, &mut detector);
            detector.into_found()
        })
    }

    pub fn found_with(&self, surveyed: Surveyed) -> Found {
        let mut detector = Detector::new(surveyed, self.classify());
        self.tell(&mut detector);
        detector.into_found()
    }

    pub fn classify(&self) -> Classify {
        let classes = self.classes.clone();
        Box::new(move |pc| classes.get(&pc).copied().unwrap_or_default())
    }

    fn tell(&self, listener: &mut dyn Listener) {
        self.tell_as(Told::Accesses, listener);
    }

    pub fn tell_as(&self, told: Told, listener: &mut dyn Listener) {
        let sites = self.steps.iter().filter_map(|(_, done)| match done {
            Done::Access(access) => Some(access.site.0),
            Done::Event(_) => None,
        });
        (0..=sites.max().unwrap_or(0)).for_each(|site| listener.site(Site(site), u64::from(site)));
        let is_close = |one: &(Thread, Done), next: &(Thread, Done)| {
            one.0 == next.0 && matches!((&one.1, &next.1), (Done::Access(_), Done::Access(_)))
        };
        let mut written = Written::default();
        for steps in self.steps.chunk_by(is_close) {
            let thread = steps[0].0;
            let accesses: Vec<Access> = steps.iter().filter_map(|(_, done)| done.access()).collect();
            match &steps[0].1 {
                Done::Event(event) => listener.event(thread, event),
                Done::Access(_) if told == Told::Records => written.tell(listener, thread, &accesses),
                Done::Access(_) => accesses.iter().for_each(|access| listener.accesses(thread, &[*access])),
            }
        }
        listener.finished();
    }
}

/// The races of a table, each as the rows of its sides.
pub fn races_of(table: &str) -> Vec<(u64, u64)> {
    rows_of(&Stream::of(table).found().races)
}

pub fn rows_of(races: &[Race]) -> Vec<(u64, u64)> {
    races.iter().map(|race| (race.instances[0].first.pc, race.instances[0].second.pc)).collect()
}

/// The address that a name stands for in a table: names are numbered as they come.
pub fn address(number: u64) -> u64 {
    0x10_0000 * number
}

#[derive(Default)]
struct Names(BTreeMap<String, u64>);

impl Names {
    fn address(&mut self, name: &str) -> u64 {
        let next = self.0.len() as u64 + 1;
        address(*self.0.entry(name.to_owned()).or_insert(next))
    }

    /// The address and size that `x+4:2` stands for.
    fn place(&mut self, text: &str) -> (u64, u64) {
        let (place, size) = text.split_once(':').unwrap_or((text, "8"));
        let (name, offset) = place.split_once('+').unwrap_or((place, "0"));
        (self.address(name) + number(offset), number(size))
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn parse(text: &str, row: u32, names: &mut Names) -> (usize, Done) {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let times = words[0].strip_suffix('*').map(|times| number(times) as usize);
    if times.is_some() {
        words.remove(0);
    }
    let site = words.iter().find_map(|word| word.strip_prefix('@')).map_or(row, |site| number(site) as u32);
    let done = done(words[0], words.get(1).copied().unwrap_or("nothing"), site, names);
    (times.unwrap_or(1), done)
}

fn done(verb: &str, object: &str, site: u32, names: &mut Names) -> Done {
    let mut access = |kind| {
        let (address, size) = names.place(object);
        Done::Access(Access { address, size: size as u32, site: Site(site), kind })
    };
    match verb {
        "read" => access(AccessKind::Read),
        "write" => access(AccessKind::Write),
        "update" => access(AccessKind::Update),
        "atomic" => access(AccessKind::Atomic),
        _ => Done::Event(event(verb, object, u64::from(site), names)),
    }
}

fn event(verb: &str, object: &str, site: u64, names: &mut Names) -> Event {
    let thread = || number(object) as Thread;
    match verb {
        "create" => Event::Created { child: thread() },
        "join" => Event::Joined { other: thread() },
        "end" => Event::Ended,
        "lock" => Event::Locked { object: names.address(object), mode: LockMode::Exclusive, site },
        "share" => Event::Locked { object: names.address(object), mode: LockMode::Shared, site },
        "unlock" => Event::Unlocked { object: names.address(object), site },
        "release" => Event::Released { object: names.address(object), site },
        "acquire" => Event::Acquired { object: names.address(object), site },
        "forget" => Event::Forgotten { object: names.address(object) },
        "futex" => Event::FutexWord { address: names.address(object) },
        "yield" => Event::SystemCall { number: 24, result: 0 },
        "free" => Event::Freed { address: names.address(object), site },
        "malloc" | "map" => {
            let (address, size) = names.place(object);
            if verb == "map" { Event::Mapped { address, size } } else { Event::Allocated { address, size, site } }
        }
        _ => panic!("{verb} is no verb of streams"),
    }
}

//! What came of hunts: the schedule in which each failed first.

use std::path::Path;

/// What a hunt is asked for.
pub struct Search<'a> {
    pub policy: &'a str,
    pub seed: u64,
    pub schedules: u64,
    pub expected: Option<&'a Path>,
}

impl Search<'_> {
    pub fn words(&self) -> Vec<String> {
        let Search { policy, seed, schedules, expected } = self;
        let mut words = vec![format!("--policy={policy}"), format!("--seed={seed}"), format!("-n{schedules}")];
        words.extend(expected.map(|path| format!("--expect-output={}", path.display())));
        words
    }
}

/// What came of one hunt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hunted {
    /// In the schedule of this number; 0 is the program's ordinary order.
    Found(u64),
    Missed,
}

impl Hunted {
    /// From what the hunt says.
    pub fn read(text: &str) -> Option<Hunted> {
        if text.contains("first in the program's ordinary order") {
            return Some(Hunted::Found(0));
        }
        match text.split_once("first in schedule ") {
            Some((_, rest)) => rest.split(' ').next()?.parse().ok().map(Hunted::Found),
            None => text.contains("No failure").then_some(Hunted::Missed),
        }
    }
}

#[derive(Clone, Default)]
pub struct Figures {
    pub hunts: Vec<Hunted>,
}

impl Figures {
    pub const TITLE: &'static str = "    found median   p90   max";

    pub fn add(&mut self, other: &Figures) {
        self.hunts.extend(&other.hunts);
    }

    pub fn cell(&self) -> String {
        let mut sorted = self.hunts.clone();
        sorted.sort_unstable();
        let found = sorted.iter().filter(|hunted| **hunted != Hunted::Missed).count();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            match sorted.get(rank) {
                Some(Hunted::Found(number)) => number.to_string(),
                _ => "-".to_owned(),
            }
        };
        format!("{found:>5}/{:<3}{:>7}{:>6}{:>6}", sorted.len(), at(50), at(90), at(100))
    }
}

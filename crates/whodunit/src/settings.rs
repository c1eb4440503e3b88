//! How a program is run: what `run` was told, and what followed programs inherit.

use crate::faults;
use clap::ValueEnum;
use engine::Level;
use sched::{FaultKinds, Faults, Policy, Random, RoundRobin};

pub const DEFAULT_QUANTUM: u64 = 200_000;
pub const DEFAULT_CACHE: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// Each thread in turn, for one quantum
    RoundRobin,
    /// Any thread, for a random part of the quantum, from the seed
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnDeadlock {
    /// Show what every thread waits for and exit with status 124
    Report,
    /// Keep waiting, as without whodunit
    Wait,
}

/// The processor that the program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cpu {
    /// No more than x86-64-v2: SSE4.2 and POPCNT
    V2,
    /// No more than x86-64-v3: also AVX2, BMI2 and FMA
    V3,
    /// No more than x86-64-v4: also AVX-512
    V4,
    /// All that this machine has
    Native,
}

impl Cpu {
    /// The level that is the most it sees; none if it sees all.
    pub fn level(self) -> Option<Level> {
        match self {
            Cpu::V2 => Some(Level::V2),
            Cpu::V3 => Some(Level::V3),
            Cpu::V4 => Some(Level::V4),
            Cpu::Native => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub seed: u64,
    pub quantum: u64,
    pub policy: PolicyName,
    pub on_deadlock: OnDeadlock,
    /// Whether crashes are reported.
    pub report: bool,
    /// Room for translated code.
    pub cache_mebibytes: u64,
    /// What is made to go wrong.
    pub faults: FaultKinds,
}

impl Settings {
    pub fn new_policy(&self) -> Box<dyn Policy> {
        match self.policy {
            PolicyName::RoundRobin => Box::new(RoundRobin::new(self.quantum)),
            PolicyName::Random => Box::new(Random::new(self.seed, self.quantum)),
        }
    }

    /// What goes wrong, if anything is to.
    pub fn new_faults(&self) -> Option<Faults> {
        (!self.faults.is_empty()).then(|| Faults::new(self.faults, self.seed))
    }

    /// One word from which [`Settings::decode`] makes the same settings.
    pub fn encode(&self) -> String {
        let Settings { seed, quantum, policy, on_deadlock, report, cache_mebibytes, faults } = *self;
        let (policy, on_deadlock, faults) = (name_of(policy), name_of(on_deadlock), faults::encode(faults));
        format!("{seed}:{quantum}:{policy}:{on_deadlock}:{report}:{cache_mebibytes}:{faults}")
    }

    pub fn decode(word: &str) -> Option<Settings> {
        let mut fields = word.split(':');
        let mut next = || fields.next();
        let settings = Settings {
            seed: next()?.parse().ok()?,
            quantum: next()?.parse().ok().filter(|quantum| *quantum > 0)?,
            policy: PolicyName::from_str(next()?, false).ok()?,
            on_deadlock: OnDeadlock::from_str(next()?, false).ok()?,
            report: next()?.parse().ok()?,
            cache_mebibytes: next()?.parse().ok()?,
            faults: faults::decode(next()?)?,
        };
        next().is_none().then_some(settings)
    }
}

/// The name under which a value is given on the command line.
pub fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::FaultKind;

    #[test]
    fn what_is_encoded_is_decoded() {
        for policy in [PolicyName::RoundRobin, PolicyName::Random] {
            for on_deadlock in [OnDeadlock::Report, OnDeadlock::Wait] {
                for report in [false, true] {
                    let (seed, quantum, cache_mebibytes) = (u64::MAX, 1, 4);
                    let faults = [FaultKind::Short, FaultKind::Order].into_iter().filter(|_| report).collect();
                    let settings = Settings { seed, quantum, policy, on_deadlock, report, cache_mebibytes, faults };
                    assert_eq!(Settings::decode(&settings.encode()), Some(settings));
                }
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let good = "0:50000:round-robin:report:true:512:";
        assert!(Settings::decode(good).is_some());
        for bad in [
            "",
            "0",
            "0:0:random:wait:true:4:",
            "0:1:fair:wait:true:4:",
            "0:1:random:wait:maybe:4:",
            "0:1:random:wait:true:4",
            "0:1:random:wait:true:4:all",
            &format!("{good}:"),
        ] {
            assert_eq!(Settings::decode(bad), None, "{bad}");
        }
    }
}

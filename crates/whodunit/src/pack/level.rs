//! The levels of x86-64 that compilers and distributions agree on, by the kernel's names for features.

use std::fmt;

/// What each level adds to the one below it.
const ADDED: [(u8, &[&str]); 3] = [
    (2, &["cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"]),
    (3, &["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"]),
    (4, &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Level(u8);

/// The highest level whose features are all there.
pub fn of(features: &[String]) -> Level {
    let has = |name: &&str| features.iter().any(|feature| feature == name);
    let reached = ADDED.iter().take_while(|(_, added)| added.iter().all(has));
    Level(reached.last().map_or(1, |(level, _)| *level))
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "x86-64-v{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_need_all_below_them() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let joined =
            |levels: &[usize]| levels.iter().flat_map(|&at| ADDED[at].1).copied().collect::<Vec<_>>().join(" ");
        assert_eq!(of(&[]).to_string(), "x86-64-v1");
        assert_eq!(of(&words(&joined(&[0]))), Level(2));
        assert_eq!(of(&words(&joined(&[0, 1]))), Level(3));
        assert_eq!(of(&words(&joined(&[0, 1, 2]))), Level(4));
        assert_eq!(of(&words(&joined(&[0, 2]))), Level(2));
        assert_eq!(of(&words(&joined(&[0, 1]).replace("fma", ""))), Level(2));
    }
}

//! The levels of x86-64 that compilers and distributions agree on, by the kernel's names for features.
//!
//! What a level hides from a program is the engine's business (`engine::Level`); here is how recordings name what is left.

use super::processor::INSTRUCTIONS;
use std::fmt;

/// What each level adds to the one below it.
const ADDED: [(u8, &[&str]); 3] = [
    (2, &["cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"]),
    (3, &["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"]),
    (4, &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

/// Instructions that every machine has on which recordings are replayed, whatever its level.
const COMMON: &[&str] = &["cmov", "fsgsbase", "mmx", "sse", "sse2"];
/// What a program is not shown either, though no instruction that it may come to needs it.
const MODES: &[&str] = &[
    "enqcmd",
    "fxsr_opt",
    "hle",
    "ibt",
    "misalignsse",
    "mpx",
    "rdpru",
    "shstk",
    "tsxldtrk",
    "xfd",
    "xgetbv1",
    "xsaves",
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Level(u8);

/// Those of the machine's features that a program sees which is shown no more than a level.
pub fn shown(mut features: Vec<String>, level: Option<engine::Level>) -> Vec<String> {
    let highest = match level {
        Some(engine::Level::V2) => 2,
        Some(engine::Level::V3) => 3,
        Some(engine::Level::V4) => 4,
        None => return features,
    };
    let kept = ADDED.iter().filter(|(level, _)| *level <= highest).flat_map(|(_, added)| *added);
    let kept: Vec<&str> = kept.chain(COMMON).copied().collect();
    let is_hidden = |name: &str| INSTRUCTIONS.contains(&name) || MODES.contains(&name);
    features.retain(|name| kept.contains(&name.as_str()) || !is_hidden(name));
    features
}

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

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_level_leaves_what_it_has_and_what_is_no_instruction() {
        let machine = words("sse2 pni popcnt ibrs avx avx2 xsave xsavec xgetbv1 aes sha_ni avx512f erms fsgsbase pku");
        let left = |level| shown(machine.clone(), level).join(" ");
        assert_eq!(left(Some(engine::Level::V2)), "sse2 pni popcnt ibrs erms fsgsbase");
        assert_eq!(left(Some(engine::Level::V3)), "sse2 pni popcnt ibrs avx avx2 xsave erms fsgsbase");
        assert_eq!(left(Some(engine::Level::V4)), "sse2 pni popcnt ibrs avx avx2 xsave avx512f erms fsgsbase");
        assert_eq!(left(None), machine.join(" "));
    }

    #[test]
    fn levels_need_all_below_them() {
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

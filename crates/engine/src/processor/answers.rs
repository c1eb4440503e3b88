//! What `cpuid` answers where a level is all that the guest is to see.
//!
//! Words of features keep what the level has, what makes no difference to programs, and instructions that the engine needs
//! or answers itself (`rdfsbase`, `rdtscp`, `rdrand`, `rdseed`, `rdpid`). Features that are not known here are hidden.
//! Brand, family, caches and topology stay as they are.

use super::Level;
use std::arch::x86_64::CpuidResult;

/// The bits whose numbers are given.
const fn bits(numbers: &[u32]) -> u32 {
    let mut word = 0;
    let mut index = 0;
    while index < numbers.len() {
        word |= 1 << numbers[index];
        index += 1;
    }
    word
}

/// Leaf 1, ECX. SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2 and POPCNT make up v2; FMA, MOVBE, XSAVE, OSXSAVE, AVX and F16C
/// belong to v3.
const BASIC_V2: u32 = bits(&[0, 9, 13, 19, 20, 23]);
const BASIC_V3: u32 = bits(&[12, 22, 26, 27, 28, 29]);
/// Debugging, power, virtualisation and interrupts of the kernel's, RDRAND, and that there is a hypervisor.
const BASIC_OTHER: u32 = bits(&[2, 4, 5, 6, 7, 8, 10, 11, 14, 15, 17, 18, 21, 24, 30, 31]);

/// Leaf 7, EBX. BMI1, AVX2 and BMI2 belong to v3; AVX512F, DQ, CD, BW and VL to v4.
const MORE_V3: u32 = bits(&[3, 5, 8]);
const MORE_V4: u32 = bits(&[16, 17, 28, 30, 31]);
/// FSGSBASE, the kernel's TSC, how x87 pointers behave, protection of the kernel, fast `rep movsb`, RDSEED.
const MORE_OTHER: u32 = bits(&[0, 1, 6, 7, 9, 10, 13, 18, 20]);
/// ECX: UMIP, the width of addresses, and RDPID. EDX: fast short `rep movsb`, kinds of cores, mitigations.
const MORE_ECX: u32 = bits(&[2, 16, 22]);
const MORE_EDX: u32 = bits(&[4, 10, 15, 26, 27, 28, 29, 30, 31]);

/// Leaf 0x8000_0001, ECX. LAHF belongs to v2, LZCNT to v3.
const EXTENDED_V2: u32 = bits(&[0]);
const EXTENDED_V3: u32 = bits(&[5]);
/// Topology, the kernel's, and PREFETCHW, which runs everywhere.
const EXTENDED_OTHER: u32 = bits(&[1, 2, 3, 8, 9, 10, 12, 13, 17, 19, 22, 23, 24, 26, 27, 28]);
/// EDX, without MMX extensions, fast FXSAVE and 3DNow.
const EXTENDED_EDX: u32 = !bits(&[22, 25, 30, 31]);

/// Leaf 0x8000_0008, EBX, without CLZERO, RDPRU, MCOMMIT and WBNOINVD.
const SIZES_EBX: u32 = !bits(&[0, 4, 8, 9]);

const NOTHING: CpuidResult = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
const AVX: u32 = 2;
/// Bytes of the legacy part and the header of a save area.
const FIXED_STATE: u32 = 576;

/// The bits of the levels up to `level`.
fn up_to(level: Level, words: &[(Level, u32)]) -> u32 {
    words.iter().filter(|(of, _)| *of <= level).fold(0, |all, (_, word)| all | word)
}

/// What a processor with no more than `level` answers where this machine answers what `ask` tells.
pub fn limited(
    level: Level,
    components: u64,
    leaf: u32,
    subleaf: u32,
    ask: impl Fn(u32, u32) -> CpuidResult,
) -> CpuidResult {
    use Level::{V2, V3, V4};
    let mut answer = ask(leaf, subleaf);
    match leaf {
        1 => answer.ecx &= BASIC_OTHER | up_to(level, &[(V2, BASIC_V2), (V3, BASIC_V3)]),
        7 if subleaf == 0 => {
            answer.eax = 0;
            answer.ebx &= MORE_OTHER | up_to(level, &[(V3, MORE_V3), (V4, MORE_V4)]);
            answer.ecx &= MORE_ECX;
            answer.edx &= MORE_EDX;
        }
        0xd if level >= V3 => return state_leaf(components, subleaf, ask),
        // More features, register state, enclaves, tracing, keys, tiles, AVX10, and features of other makers.
        7 | 0xd | 0x12 | 0x14 | 0x19 | 0x1d | 0x1e | 0x24 | 0x29 | 0x8000_001c | 0x8000_0021 | 0xc000_0001 => {
            return NOTHING;
        }
        0x8000_0001 => {
            answer.ecx &= EXTENDED_OTHER | up_to(level, &[(V2, EXTENDED_V2), (V3, EXTENDED_V3)]);
            answer.edx &= EXTENDED_EDX;
        }
        0x8000_0008 => answer.ebx &= SIZES_EBX,
        _ => {}
    }
    answer
}

/// The register state: XSAVE in its standard form and none of its relatives, and only these components.
fn state_leaf(components: u64, subleaf: u32, ask: impl Fn(u32, u32) -> CpuidResult) -> CpuidResult {
    let is_shown = |component: u32| (AVX..63).contains(&component) && components & 1 << component != 0;
    match subleaf {
        0 => {
            let end = |component| {
                let facts = ask(0xd, component);
                facts.ebx.saturating_add(facts.eax)
            };
            let size = (AVX..63).filter(|component| is_shown(*component)).map(end).max().unwrap_or(FIXED_STATE);
            CpuidResult { eax: components as u32, ebx: size, ecx: size, edx: 0 }
        }
        component if is_shown(component) => ask(0xd, component),
        _ => NOTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRAND: CpuidResult = CpuidResult { eax: 1, ebx: 2, ecx: 3, edx: 4 };

    /// A processor with everything, whose state is laid out as that of one with AVX-512 and AMX.
    fn machine(leaf: u32, subleaf: u32) -> CpuidResult {
        let all = CpuidResult { eax: u32::MAX, ebx: u32::MAX, ecx: u32::MAX, edx: u32::MAX };
        let component = |size, offset| CpuidResult { eax: size, ebx: offset, ecx: 0, edx: 0 };
        match (leaf, subleaf) {
            (0x8000_0002, _) => BRAND,
            (7, 0) => CpuidResult { eax: 2, ..all },
            (0xd, 0) => CpuidResult { eax: 0x602e7, ebx: 11008, ecx: 11008, edx: 0 },
            (0xd, 2) => component(256, 576),
            (0xd, 5) => component(64, 1088),
            (0xd, 6) => component(512, 1152),
            (0xd, 7) => component(1024, 1664),
            (0xd, 9) => component(8, 2688),
            (0xd, 18) => component(8192, 2816),
            _ => all,
        }
    }

    fn asked(level: Level, leaf: u32, subleaf: u32) -> [u32; 4] {
        let answer = limited(level, level.components(), leaf, subleaf, machine);
        [answer.eax, answer.ebx, answer.ecx, answer.edx]
    }

    #[test]
    fn a_level_shows_its_own_features_and_no_higher_ones() {
        let bit = |word: u32, number: u32| word >> number & 1 == 1;
        for level in Level::ALL {
            let [_, _, basic, _] = asked(level, 1, 0);
            let [subleaves, more, more_ecx, more_edx] = asked(level, 7, 0);
            let [_, _, extended, extended_edx] = asked(level, 0x8000_0001, 0);
            let (v3, v4) = (level >= Level::V3, level >= Level::V4);
            assert!(bit(basic, 20) && bit(basic, 23) && bit(extended, 0), "{level:?} has SSE4.2, POPCNT and LAHF");
            let of_v3 = [bit(basic, 27), bit(basic, 28), bit(basic, 12), bit(more, 5), bit(more, 8), bit(extended, 5)];
            assert_eq!(of_v3, [v3; 6], "{level:?}: OSXSAVE, AVX, FMA, AVX2, BMI2, LZCNT");
            assert_eq!([16, 17, 28, 30, 31].map(|number| bit(more, number)), [v4; 5], "{level:?}: AVX-512");
            let hidden =
                [bit(basic, 1), bit(basic, 25), bit(more, 11), bit(more, 29), bit(more_ecx, 3), bit(more_ecx, 9)];
            assert_eq!(hidden, [false; 6], "{level:?}: PCLMULQDQ, AES, RTM, SHA, PKU, VAES");
            assert_eq!((subleaves, bit(more_edx, 24), bit(more_edx, 20)), (0, false, false), "{level:?}: AMX, IBT");
            assert_eq!((bit(extended, 6), bit(extended_edx, 31)), (false, false), "{level:?}: SSE4A, 3DNow");
            assert_eq!([asked(level, 7, 1), asked(level, 0x1d, 1), asked(level, 0x24, 0)], [[0; 4]; 3], "{level:?}");
            assert!(bit(more, 0) && bit(basic, 30) && bit(more, 9), "{level:?} has FSGSBASE, RDRAND, and fast strings");
            assert_eq!(asked(level, 0x8000_0002, 0), [1, 2, 3, 4], "the brand is the machine's");
        }
    }

    #[test]
    fn the_state_is_as_large_as_what_is_shown_of_it() {
        assert_eq!(asked(Level::V2, 0xd, 0), [0; 4], "v2 knows no XSAVE");
        assert_eq!(asked(Level::V3, 0xd, 0), [7, 832, 832, 0]);
        assert_eq!(asked(Level::V4, 0xd, 0), [0xe7, 2688, 2688, 0]);
        assert_eq!(asked(Level::V4, 0xd, 1), [0; 4], "no relatives of XSAVE");
        assert_eq!(asked(Level::V3, 0xd, 2), [256, 576, 0, 0]);
        assert_eq!([asked(Level::V3, 0xd, 5), asked(Level::V3, 0xd, 9), asked(Level::V4, 0xd, 18)], [[0; 4]; 3]);
        // A machine without AVX does not get it from a level.
        let [eax, ebx, ..] = [limited(Level::V3, 3, 0xd, 0, machine)].map(|it| [it.eax, it.ebx])[0];
        assert_eq!((eax, ebx), (3, 576));
    }
}

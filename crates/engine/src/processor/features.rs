//! Which instructions are beyond a level, and which of them a run has come to.
//!
//! A program may use what it was not shown: it was compiled for one machine, or does not ask. The translator therefore
//! ends units before such instructions as long as their features are new, so a unit that begins with one tells that it
//! is really reached. Once told, a feature costs nothing.

use super::Level;
use crate::instructions;
use iced_x86::{CpuidFeature, Instruction, Mnemonic};

/// Every x86-64 processor has these or ignores them, or the engine needs them itself.
const COMMON: &[CpuidFeature] = {
    use CpuidFeature as F;
    &[
        F::INTEL8086,
        F::INTEL186,
        F::INTEL286,
        F::INTEL386,
        F::INTEL486,
        F::X64,
        F::CET_IBT,
        F::CLDEMOTE,
        F::CLFSH,
        F::CMOV,
        F::CX8,
        F::FPU,
        F::FPU287,
        F::FPU387,
        F::FPU387SL_ONLY,
        F::FSGSBASE,
        F::FXSR,
        F::MMX,
        F::MULTIBYTENOP,
        F::PAUSE,
        F::PREFETCHW,
        F::SSE,
        F::SSE2,
        F::SYSCALL,
    ]
};

/// What each level adds to the one below it.
const ADDED: [(Level, &[CpuidFeature]); 3] = {
    use CpuidFeature as F;
    [
        (Level::V2, &[F::CMPXCHG16B, F::POPCNT, F::SSE3, F::SSSE3, F::SSE4_1, F::SSE4_2]),
        (Level::V3, &[F::AVX, F::AVX2, F::BMI1, F::BMI2, F::F16C, F::FMA, F::LZCNT, F::MOVBE, F::XSAVE]),
        (Level::V4, &[F::AVX512F, F::AVX512BW, F::AVX512CD, F::AVX512DQ, F::AVX512VL]),
    ]
};

/// The features beyond a level that a run has not come to yet, and those it has.
pub struct Beyond {
    level: Level,
    /// By the feature's number: instructions that need it are nothing new.
    usual: Vec<bool>,
    /// Come to, and not told yet.
    met: Vec<CpuidFeature>,
}

impl Beyond {
    pub fn new(level: Level) -> Beyond {
        let added = ADDED.iter().filter(|(of, _)| *of <= level).flat_map(|(_, added)| *added);
        let mut usual = vec![false; CpuidFeature::values().len()];
        for &feature in COMMON.iter().chain(added) {
            usual[feature as usize] = true;
        }
        Beyond { level, usual, met: Vec::new() }
    }

    /// Whether a replay needs nothing new for the instruction.
    pub fn knows(&self, instruction: &Instruction) -> bool {
        let features = instruction.cpuid_features();
        features.iter().all(|&feature| self.usual[feature as usize])
            || instructions::kind(instruction).is_some()
            || is_ignored_elsewhere(instruction)
    }

    /// The instruction is about to run.
    pub fn meet(&mut self, instruction: &Instruction) {
        if self.knows(instruction) {
            return;
        }
        for &feature in instruction.cpuid_features() {
            if !std::mem::replace(&mut self.usual[feature as usize], true) {
                self.met.push(feature);
            }
        }
    }

    pub fn has_news(&self) -> bool {
        !self.met.is_empty()
    }

    /// What the run has come to since it was asked last, in words; none if that is nothing.
    pub fn news(&mut self) -> Option<String> {
        let names: Vec<String> = self.met.drain(..).map(|feature| format!("{feature:?}")).collect();
        (!names.is_empty()).then(|| {
            let (names, level) = (names.join(", "), self.level.name());
            format!("the program uses {names}, which it was not shown: beyond x86-64-{level}, and needed for a replay")
        })
    }
}

/// Processors that do not know the shadow stack or bounds take these for no-operations.
fn is_ignored_elsewhere(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Rdsspd
            | Mnemonic::Rdsspq
            | Mnemonic::Bndcl
            | Mnemonic::Bndcn
            | Mnemonic::Bndcu
            | Mnemonic::Bndldx
            | Mnemonic::Bndmk
            | Mnemonic::Bndmov
            | Mnemonic::Bndstx
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decode(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode()
    }

    #[test]
    fn what_is_beyond_a_level_is_told_once() {
        let mut beyond = Beyond::new(Level::V3);
        let sha = decode(&[0x0f, 0x38, 0xcc, 0xc0]); // sha256msg1 xmm0, xmm0
        let wide_aes = decode(&[0xc4, 0xe2, 0x7d, 0xdc, 0xc0]); // vaesenc ymm0, ymm0, ymm0
        assert!(!beyond.knows(&sha) && !beyond.knows(&wide_aes) && !beyond.has_news());
        beyond.meet(&sha);
        beyond.meet(&sha);
        let told = beyond.news().unwrap();
        assert!(told.contains("uses SHA, which it was not shown: beyond x86-64-v3"), "{told}");
        assert!(beyond.knows(&sha) && !beyond.knows(&wide_aes) && beyond.news().is_none());
    }

    #[test]
    fn levels_know_what_they_have() {
        let known = |level, bytes: &[u8]| Beyond::new(level).knows(&decode(bytes));
        let levels = |bytes: &[u8]| Level::ALL.map(|level| known(level, bytes));
        assert_eq!(levels(&[0xf3, 0x0f, 0x1e, 0xfa]), [true; 3], "endbr64");
        assert_eq!(levels(&[0xf3, 0x48, 0x0f, 0x1e, 0xc8]), [true; 3], "rdsspq rax");
        assert_eq!(levels(&[0x0f, 0xa2]), [true; 3], "cpuid");
        assert_eq!(levels(&[0x0f, 0x01, 0xd0]), [true; 3], "xgetbv, which the engine answers");
        assert_eq!(levels(&[0xf3, 0x0f, 0xb8, 0xc0]), [true; 3], "popcnt eax, eax");
        assert_eq!(levels(&[0xc5, 0xf8, 0x77]), [false, true, true], "vzeroupper");
        assert_eq!(levels(&[0x0f, 0xae, 0x20]), [false, true, true], "xsave [rax]");
        assert_eq!(levels(&[0x62, 0xf1, 0xfd, 0x48, 0x6f, 0x38]), [false, false, true], "vmovdqa64 zmm7, [rax]");
        assert_eq!(levels(&[0x66, 0x0f, 0x38, 0xdc, 0xc0]), [false; 3], "aesenc xmm0, xmm0");
    }
}

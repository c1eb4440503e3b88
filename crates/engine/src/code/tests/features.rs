//! Which of the decoder's feature names this processor has.

use iced_x86::CpuidFeature;
use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::{__cpuid, __cpuid_count};

/// Whether an instruction that needs `feature` can run here. Names that are not listed count as missing: an encoding
/// that the processor does not know may mean something else to it.
pub fn is_present(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    match feature {
        F::INTEL8086 | F::INTEL186 | F::INTEL286 | F::INTEL386 | F::INTEL486 | F::X64 => true,
        F::CMOV | F::CX8 | F::FPU | F::FPU287 | F::FPU387 | F::MMX | F::MULTIBYTENOP | F::PAUSE | F::CLFSH => true,
        // No-operations where the processor or the kernel does not use them.
        F::CET_IBT | F::CLDEMOTE => true,
        F::SSE | F::SSE2 => true,
        F::SSE3 => has!("sse3"),
        F::SSSE3 => has!("ssse3"),
        F::SSE4_1 => has!("sse4.1"),
        F::SSE4_2 => has!("sse4.2"),
        F::SSE4A => has!("sse4a"),
        F::ADX => has!("adx"),
        F::AES => has!("aes"),
        F::AVX => has!("avx"),
        F::AVX2 => has!("avx2"),
        F::BMI1 => has!("bmi1"),
        F::BMI2 => has!("bmi2"),
        F::CMPXCHG16B => has!("cmpxchg16b"),
        F::F16C => has!("f16c"),
        F::FMA => has!("fma"),
        F::GFNI => has!("gfni"),
        F::LZCNT => has!("lzcnt"),
        F::MOVBE => has!("movbe"),
        F::PCLMULQDQ => has!("pclmulqdq"),
        F::POPCNT => has!("popcnt"),
        F::SHA => has!("sha"),
        F::TBM => has!("tbm"),
        F::VAES => has!("vaes"),
        F::VPCLMULQDQ => has!("vpclmulqdq"),
        F::AVX512F => has!("avx512f"),
        F::AVX512BW => has!("avx512bw"),
        F::AVX512CD => has!("avx512cd"),
        F::AVX512DQ => has!("avx512dq"),
        F::AVX512VL => has!("avx512vl"),
        F::AVX512_BF16 => has!("avx512bf16"),
        F::AVX512_BITALG => has!("avx512bitalg"),
        F::AVX512_IFMA => has!("avx512ifma"),
        F::AVX512_VBMI => has!("avx512vbmi"),
        F::AVX512_VBMI2 => has!("avx512vbmi2"),
        F::AVX512_VNNI => has!("avx512vnni"),
        F::AVX512_VPOPCNTDQ => has!("avx512vpopcntdq"),
        F::PREFETCHW => extended_ecx(8),
        F::CLZERO => __cpuid(0x8000_0008).ebx & 1 != 0,
        F::CLFLUSHOPT => leaf7_ebx(23),
        F::CLWB => leaf7_ebx(24),
        _ => false,
    }
}

fn extended_ecx(bit: u32) -> bool {
    __cpuid(0x8000_0001).ecx & (1 << bit) != 0
}

fn leaf7_ebx(bit: u32) -> bool {
    __cpuid_count(7, 0).ebx & (1 << bit) != 0
}

//! Whether this machine's processor can run what was recorded on another.

use super::level;
use crate::{machine, voice};
use trace::{Event, Recording};

/// Features that stand for instructions which a program may use, by the kernel's names. Others, such as mitigations and
/// virtualisation, make no difference to programs. Instructions whose outcome is recorded are not among them.
pub const INSTRUCTIONS: &[&str] = &[
    "3dnow",
    "3dnowext",
    "abm",
    "adx",
    "aes",
    "amx_bf16",
    "amx_complex",
    "amx_fp16",
    "amx_int8",
    "amx_tile",
    "avx",
    "avx2",
    "avx512_4fmaps",
    "avx512_4vnniw",
    "avx512_bf16",
    "avx512_bitalg",
    "avx512_fp16",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_vp2intersect",
    "avx512_vpopcntdq",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512er",
    "avx512f",
    "avx512ifma",
    "avx512pf",
    "avx512vbmi",
    "avx512vl",
    "avx_ifma",
    "avx_ne_convert",
    "avx_vnni",
    "avx_vnni_int16",
    "avx_vnni_int8",
    "bmi1",
    "bmi2",
    "cldemote",
    "clflushopt",
    "clwb",
    "clzero",
    "cmov",
    "cmpccxadd",
    "cx16",
    "f16c",
    "fma",
    "fma4",
    "fsgsbase",
    "gfni",
    "lahf_lm",
    "lwp",
    "mmx",
    "mmxext",
    "movbe",
    "movdir64b",
    "movdiri",
    "mwaitx",
    "ospke",
    "pclmulqdq",
    "pku",
    "pni",
    "popcnt",
    "rtm",
    "serialize",
    "sha512",
    "sha_ni",
    "sm3",
    "sm4",
    "sse",
    "sse2",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "ssse3",
    "tbm",
    "user_shstk",
    "vaes",
    "vpclmulqdq",
    "waitpkg",
    "xop",
    "xsave",
    "xsavec",
    "xsaveopt",
];

/// Says what this machine lacks, before a replay meets it.
pub fn warn(recording: &Recording) {
    if let Some(warning) = missing_features(recording) {
        voice::say(&format!("whodunit: {warning}\n"));
    }
}

/// The program may have used all that the recording machine had.
fn missing_features(recording: &Recording) -> Option<String> {
    let mut cursor = recording.log(1).ok()?.cursor();
    let Some(Event::Start(start)) = cursor.next().map(|record| record.event) else { return None };
    let recorded: Vec<String> = start.machine.features.iter().map(str::to_owned).collect();
    describe(&recorded, &machine::features())
}

fn describe(recorded: &[String], here: &[String]) -> Option<String> {
    let is_missing = |name: &&&str| recorded.iter().any(|it| it == **name) && !here.iter().any(|it| it == **name);
    let missing: Vec<&str> = INSTRUCTIONS.iter().filter(is_missing).copied().collect();
    (!missing.is_empty()).then(|| {
        format!(
            "recorded on {}, and this machine ({}) lacks {}: the replay may meet instructions that it cannot run",
            level::of(recorded),
            level::of(here),
            missing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_are_missed() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(describe(&words("sse2 avx2 fma ibrs"), &words("fma sse2 avx2")), None);
        assert_eq!(describe(&words("sse2"), &words("sse2 avx2")), None);
        let said = describe(&words("sse2 fma ibrs avx2"), &words("sse2")).unwrap();
        assert!(said.contains("this machine (x86-64-v1) lacks avx2, fma:"), "{said}");
    }
}

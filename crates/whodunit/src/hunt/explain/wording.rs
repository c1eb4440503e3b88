//! Words for what threads did to memory.

use crate::races::verdicts::{LONGEST_NUMBER, little_endian};
use crate::study::races::Circumstance;

/// `writes pointer = 0 (was 0x550065558020)`: the rest of a sentence that starts with the thread.
pub fn deed(writes: bool, memory: Option<&str>, circumstance: Option<&Circumstance>) -> String {
    let what = memory.map_or_else(|| "memory".to_owned(), short);
    let number = |bytes: Option<&Vec<u8>>| {
        bytes.filter(|bytes| (1..=LONGEST_NUMBER).contains(&bytes.len())).map(|bytes| little_endian(bytes))
    };
    let before = number(circumstance.and_then(|circumstance| circumstance.before.as_ref()));
    let after = number(circumstance.and_then(|circumstance| circumstance.after.as_ref()));
    match (writes, before, after) {
        (false, Some(value), _) => format!("reads {what} = {value}"),
        (false, None, _) => format!("reads {what}"),
        (true, Some(old), Some(new)) => format!("writes {what} = {new} (was {old})"),
        (true, None, Some(new)) => format!("writes {what} = {new}"),
        (true, ..) => format!("writes {what}"),
    }
}

/// Without where a block was allocated.
fn short(name: &str) -> String {
    match name.split_once(" in a block of ") {
        Some((part, _)) => part.to_owned(),
        None => name.to_owned(),
    }
}

/// Whether a module is the C library or the loader.
pub fn is_library(module: &str) -> bool {
    module.starts_with("libc.so") || module.starts_with("ld-linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_to_memory() {
        let values = |before: &[u8], after: &[u8]| Circumstance {
            before: Some(before.to_vec()),
            after: Some(after.to_vec()),
            ..Circumstance::default()
        };
        let field = Some("field refs of struct session in a block of 64 bytes allocated at cache.c:41");
        assert_eq!(deed(false, Some("count"), Some(&values(&[7, 0], &[7, 0]))), "reads count = 7");
        assert_eq!(deed(true, field, Some(&values(&[1], &[0]))), "writes field refs of struct session = 0 (was 1)");
        assert_eq!(deed(true, None, None), "writes memory");
    }
}

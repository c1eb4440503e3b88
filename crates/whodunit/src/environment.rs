//! The environment exactly as it was given: entries without `=` and repeated ones included, which the standard
//! library passes over.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Every entry that the guest is to get, in order.
pub fn entries() -> Vec<OsString> {
    own().into_iter().map(engine::unshield).collect()
}

/// Starts whodunit again if its own loader was given what is meant for the guest's.
pub fn keep_from_own_loader() {
    engine::start_again_if_needed(&own());
}

/// What this process was given. To be asked for at the start: the kernel shows what the process was started with.
fn own() -> Vec<OsString> {
    match std::fs::read("/proc/self/environ") {
        Ok(bytes) => split(&bytes),
        Err(_) => std::env::vars_os().map(|(name, value)| join(name, value)).collect(),
    }
}

/// Each entry ends with a zero byte.
fn split(bytes: &[u8]) -> Vec<OsString> {
    let Some(entries) = bytes.strip_suffix(&[0]) else { return Vec::new() };
    entries.split(|&byte| byte == 0).map(|entry| OsString::from_vec(entry.to_vec())).collect()
}

fn join(name: OsString, value: OsString) -> OsString {
    let mut entry = name;
    entry.push("=");
    entry.push(value);
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_entries_survive() {
        assert_eq!(split(b"A=1\0odd\0\0A=2\0=\0"), ["A=1", "odd", "", "A=2", "="]);
        assert_eq!(split(b""), Vec::<OsString>::new());
    }
}

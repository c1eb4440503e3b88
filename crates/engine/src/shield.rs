//! Variables of the dynamic loader. They are meant for the guest, but the same loader starts the engine and would obey
//! them there too: load libraries into it, trace it, or only list what it needs. So they reach the engine under other
//! names, and the guest under their own.

use crate::kernel;
use crate::startup;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const PREFIX: &[u8] = b"WHODUNIT_GUEST_";

fn is_loaders(entry: &[u8]) -> bool {
    entry.starts_with(b"LD_") || entry.starts_with(b"GLIBC_TUNABLES=")
}

/// An entry of the guest's environment as the engine's own loader may see it.
pub fn shield(entry: OsString) -> OsString {
    if is_loaders(entry.as_bytes()) { OsString::from_vec([PREFIX, entry.as_bytes()].concat()) } else { entry }
}

/// The entry as the guest gave it.
pub fn unshield(entry: OsString) -> OsString {
    match entry.as_bytes().strip_prefix(PREFIX) {
        Some(own) if is_loaders(own) => OsString::from_vec(own.to_vec()),
        _ => entry,
    }
}

/// Starts this program again where its own loader was told things that are meant for the guest. Returns if it was not,
/// or if that is impossible.
pub fn start_again_if_needed(environment: &[OsString]) {
    if !environment.iter().any(|entry| is_loaders(entry.as_bytes())) {
        return;
    }
    let arguments = terminated(std::env::args_os());
    let environment = terminated(environment.iter().cloned().map(shield));
    let (Some(arguments), Some(environment)) = (arguments, environment) else { return };
    let (arguments, environment) = (pointers(&arguments), pointers(&environment));
    // What the runtime has changed would count as inherited.
    startup::restore();
    let own = c"/proc/self/exe";
    let words = [own.as_ptr() as u64, arguments.as_ptr() as u64, environment.as_ptr() as u64, 0, 0, 0];
    kernel::call(libc::SYS_execve as u64, words);
}

/// Words in the form that `execve` takes; `None` if one has a zero in it.
pub fn terminated(words: impl Iterator<Item = OsString>) -> Option<Vec<CString>> {
    words.map(|word| CString::new(word.into_vec()).ok()).collect()
}

/// The list of their addresses, which lives no longer than they do.
pub fn pointers(words: &[CString]) -> Vec<u64> {
    words.iter().map(|word| word.as_ptr() as u64).chain(std::iter::once(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_variables_change_their_names_and_come_back() {
        for (entry, shielded) in [
            ("LD_PRELOAD=/x.so", "WHODUNIT_GUEST_LD_PRELOAD=/x.so"),
            ("GLIBC_TUNABLES=a=b", "WHODUNIT_GUEST_GLIBC_TUNABLES=a=b"),
            ("LDFLAGS=-O", "LDFLAGS=-O"),
            ("odd", "odd"),
            ("", ""),
        ] {
            assert_eq!(shield(entry.into()), shielded);
            assert_eq!(unshield(shielded.into()), entry);
        }
        assert_eq!(unshield("WHODUNIT_GUEST_OTHER=1".into()), "WHODUNIT_GUEST_OTHER=1");
    }
}

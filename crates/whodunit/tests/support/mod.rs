//! What the engine's end-to-end tests share: guest programs and how they are described, built, run and compared.
//!
//! A guest program is one file in `tests/conformance/GROUP/`. Its header lines say how to build and run it
//! (see `spec.rs` for the list). Nothing here knows what a program is about.
#![allow(dead_code, reason = "each test binary compiles this module and uses its own part of it")]

pub mod build;
pub mod compare;
pub mod execute;
pub mod spec;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder that holds the guest programs, one sub-folder a group.
pub fn programs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// The command under test. `WHODUNIT_BIN` names another one, for example a stand-in that runs the program as it is.
pub fn whodunit_binary() -> OsString {
    std::env::var_os("WHODUNIT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_whodunit").into())
}

/// Turns a list of programs into one test each, named `group::program`, and a constant `LISTED` of all of them.
#[macro_export]
macro_rules! guest_programs {
    ($check:path; $($group:ident { $($program:ident)* })*) => {
        const LISTED: &[(&str, &str)] = &[$($((stringify!($group), stringify!($program)),)*)*];
        $(mod $group {
            $(#[test]
            fn $program() {
                $check(stringify!($group), stringify!($program));
            })*
        })*
    };
}

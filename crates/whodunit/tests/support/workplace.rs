//! A folder for a test with a guest program and its recordings, and `whodunit` at work there.
//!
//! Test binaries have it by its path. `WHODUNIT_BIN` names another binary to put in the place of the one just built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty folder of this name.
pub fn fresh_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Makes the program `guest` in a folder; a relative source is in there, too.
#[track_caller]
pub fn compile(folder: &Path, flags: &[&str], source: &Path) {
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-pthread", "-w"]).args(flags).args(["-o", "guest"]).arg(source).current_dir(folder);
    let compiled = compiler.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// The command, with the folder as its own and recordings kept below.
pub fn whodunit(folder: &Path) -> Command {
    let binary = std::env::var_os("WHODUNIT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_whodunit").into());
    let mut command = Command::new(binary);
    command.current_dir(folder).env("WHODUNIT_DIR", folder.join("recordings")).env("NO_COLOR", "1");
    command
}

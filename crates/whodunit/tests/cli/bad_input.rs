//! Programs that cannot be run, and machines that do not let them: one line that says what to change.

use super::harness::{Folder, Outcome, WHODUNIT, finish};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const ELF32: u8 = 1;
const ELF64: u8 = 2;
const LITTLE: u8 = 1;
const BIG: u8 = 2;

/// A file header alone.
fn elf_header(class: u8, order: u8, machine: u16) -> Vec<u8> {
    let half = |value: u16| if order == BIG { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order, 1]);
    header[16..18].copy_from_slice(&half(2));
    header[18..20].copy_from_slice(&half(machine));
    header
}

/// Runs a file with these bytes.
fn run_bytes(name: &str, bytes: &[u8]) -> Outcome {
    let folder = Folder::new(name);
    folder.file("program", bytes, 0o755);
    folder.whodunit(["run", "./program"])
}

/// Runs a line of the shell, in which `$W` is the binary.
fn shell(line: &str) -> Outcome {
    finish(Command::new("sh").args(["-c", line]).env("W", WHODUNIT))
}

#[test]
fn missing_programs() {
    let folder = Folder::new("missing");
    let not_found = "whodunit: frobnicate: command not found; check the name or give a path\n";
    let outcome = folder.whodunit(["run", "--", "frobnicate"]);
    outcome.assert_refused(127, "");
    assert_eq!(outcome.stderr, not_found);
    folder.whodunit(["run", "./frobnicate"]).assert_refused(127, "./frobnicate: no such file");
    folder.whodunit(["run", ""]).assert_refused(127, "command not found");
    folder.file("plain", b"", 0o644);
    folder.whodunit(["run", "./plain/below"]).assert_refused(126, "./plain/below");
}

#[test]
fn directory() {
    Folder::new("directory").whodunit(["run", "/tmp"]).assert_refused(126, "/tmp: is a directory");
}

#[test]
fn no_permission_to_execute() {
    let folder = Folder::new("permission");
    folder.file("program", b"#!/bin/sh\n", 0o644);
    folder.whodunit(["run", "./program"]).assert_refused(126, "chmod +x");
    // Found in the search path, but nothing there may be executed.
    let mut command = Command::new(WHODUNIT);
    finish(command.args(["run", "program"]).env("PATH", &folder.0)).assert_refused(126, "permission denied");
}

#[test]
fn files_of_another_kind() {
    run_bytes("text", b"just words\n").assert_refused(126, "neither an ELF program nor a script");
    run_bytes("empty", b"").assert_refused(126, "./program: ");
    run_bytes("elf32", &elf_header(ELF32, LITTLE, 3)).assert_refused(126, "32-bit");
    run_bytes("aarch64", &elf_header(ELF64, LITTLE, 183)).assert_refused(126, "64-bit ARM");
    run_bytes("big-endian", &elf_header(ELF64, BIG, 22)).assert_refused(126, "big-endian");
}

#[test]
fn truncated_program() {
    let whole = std::fs::read("/bin/true").unwrap();
    for length in [20, 64, 100, 4096] {
        run_bytes(&format!("truncated-{length}"), &whole[..length]).assert_refused(126, "cut short");
    }
}

#[test]
fn missing_interpreters() {
    let folder = Folder::new("interpreters");
    folder.compile("program", "int main(void) { return 0; }", &["-Wl,--dynamic-linker=/nonexistent/ld.so"]);
    folder.whodunit(["run", "./program"]).assert_refused(127, "/nonexistent/ld.so");
    folder.file("script", b"#!/nonexistent/interpreter\n", 0o755);
    folder.whodunit(["run", "./script"]).assert_refused(127, "/nonexistent/interpreter");
}

#[test]
fn setuid_program_of_another_user() {
    if !nix::unistd::geteuid().is_root() {
        println!("not checked: only root can make a program of another user");
        return;
    }
    let folder = Folder::new("setuid");
    let program = folder.path("program");
    std::fs::copy("/bin/true", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    folder.whodunit(["run", "./program"]).assert_refused(126, "setuid");
}

#[test]
fn few_descriptors() {
    shell(r#"ulimit -n 8; exec "$W" run true"#).assert_refused(3, "ulimit -n");
}

#[test]
fn little_address_space() {
    shell(r#"ulimit -v 300000; exec "$W" run true"#).assert_refused(3, "ulimit -v");
}

#[test]
fn refusals_survive_a_closed_standard_error() {
    let outcome = shell(r#"exec "$W" run frobnicate 2>&-"#);
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(127), ""));
}

//! Packs that are made, carried away and replayed.

use super::bench::{Bench, refused, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_pack_replays_where_nothing_of_the_program_is_left() {
    let (bench, written) = Bench::with_pack();
    fs::rename(bench.path("prog.wdp"), bench.path("there/moved")).unwrap();
    fs::remove_dir_all(bench.path("rec")).unwrap();
    fs::remove_dir_all(bench.path("here")).unwrap();
    fs::write(bench.path("prog"), "not the program any more").unwrap();
    fs::remove_file(bench.path("input")).unwrap();
    let replayed = bench.there(["replay", "moved"]);
    assert_eq!((text(&replayed.stdout), replayed.status.code()), (written.clone(), Some(7)), "{replayed:?}");
    let said = text(&replayed.stderr);
    assert!(said.contains("moved is now the recording unpacked-"), "{said}");

    // Found again, and no longer spoken of.
    let verified = bench.there(["verify", "./moved"]);
    assert_eq!((verified.status.code(), text(&verified.stderr)), (Some(0), String::new()), "{verified:?}");
    assert!(text(&verified.stdout).starts_with("process 1: as recorded: "), "{verified:?}");
    let names: Vec<_> = fs::read_dir(bench.path("there/store")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let name = names[0].file_name().into_string().unwrap();
    assert_eq!(names[0].metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(said.contains(&name), "{said}");
    let again = bench.there(["replay", "--quiet", &name]);
    assert_eq!((again.stdout.len(), again.status.code()), (0, Some(7)), "{again:?}");

    // It is a recording like others: it can be packed again, and removed.
    let repacked = bench.there(["pack", &name, "-o", "again"]);
    assert_eq!(repacked.status.code(), Some(0), "{repacked:?}");
    assert_eq!(fs::read(bench.path("there/again")).unwrap(), fs::read(bench.path("there/moved")).unwrap());
    assert_eq!(bench.there(["rm", &name]).status.code(), Some(0));
    assert_eq!(text(&bench.there(["replay", "again"]).stdout), written);
}

#[test]
fn a_recording_of_the_same_name_is_no_pack() {
    let (bench, written) = Bench::with_pack();
    fs::rename(bench.path("prog.wdp"), bench.path("there/pack")).unwrap();
    bench.there(["replay", "pack"]);
    let first = fs::read_dir(bench.path("there/store")).unwrap().next().unwrap().unwrap().path();
    fs::write(first.join("1.log"), "something else").unwrap();
    let replayed = bench.there(["replay", "pack"]);
    assert_eq!((text(&replayed.stdout), replayed.status.code()), (written, Some(7)), "{replayed:?}");
    assert_eq!(fs::read_dir(bench.path("there/store")).unwrap().count(), 2);
    assert_eq!(fs::read(first.join("1.log")).unwrap(), b"something else");
}

#[test]
fn what_was_left_by_a_killed_process_goes() {
    let (bench, _) = Bench::with_pack();
    // No process has this number: the highest that Linux gives is 2^22.
    fs::create_dir_all(bench.path("there/store/.unpacking-4194305/files")).unwrap();
    bench.there(["replay", bench.path("prog.wdp").to_str().unwrap()]);
    assert!(!bench.path("there/store/.unpacking-4194305").exists());
}

#[test]
fn the_verb_tells_what_went_in() {
    let (bench, _) = Bench::with_recording();
    let packed = bench.here(["pack", "./rec", "-o", "prog.wdp"]);
    let said = text(&packed.stdout);
    let program = bench.path("prog").canonicalize().unwrap();
    for words in ["1.log\n", "recording.json\n", "libc.so.6\n", program.to_str().unwrap(), "recorded on: "] {
        assert!(said.contains(words), "`{words}` is missing in\n{said}");
    }
    let level = said.lines().find(|line| line.starts_with("recorded on: ")).unwrap();
    assert!((1..=4).any(|n| level.ends_with(&format!(", x86-64-v{n}"))), "{level}");
    assert!(said.contains("\nfeatures: fpu "), "{said}");
    assert!(said.lines().last().unwrap().starts_with("prog.wdp: "), "{said}");
    let hidden = fs::read_dir(&bench.folder).unwrap().flatten();
    assert_eq!(hidden.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count(), 0);
}

#[test]
fn a_file_is_overwritten_only_by_force() {
    let (bench, _) = Bench::with_recording();
    fs::write(bench.path("there.wdp"), "precious").unwrap();
    let words = ["pack", "./rec", "-o", "there.wdp"];
    refused(&bench.here(words), "there.wdp already exists; name another file, or overwrite it with --force");
    assert_eq!(fs::read(bench.path("there.wdp")).unwrap(), b"precious");
    let forced = bench.here(words.into_iter().chain(["--force"]));
    assert_eq!(forced.status.code(), Some(0), "{forced:?}");
    assert_eq!(bench.there(["replay", "../there.wdp"]).status.code(), Some(7));
    refused(&bench.here(["pack", "./rec", "-o", "there", "--force"]), "cannot write there");
    refused(&bench.here(["pack", "./rec", "-o", "nowhere/x"]), "nowhere");
}

#[test]
fn a_changed_or_missing_program_is_not_packed() {
    let (bench, _) = Bench::with_recording();
    let words = ["pack", "./rec", "-o", "prog.wdp"];
    let program = fs::read(bench.path("prog")).unwrap();
    fs::remove_file(bench.path("prog")).unwrap();
    refused(&bench.here(words), "prog, which the program had mapped, cannot be packed");
    let mut changed = program.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(bench.path("prog"), &changed).unwrap();
    refused(&bench.here(words), "prog has changed since the recording was made");
    assert!(!bench.path("prog.wdp").exists());
    fs::write(bench.path("prog"), &program).unwrap();
    assert_eq!(bench.here(words).status.code(), Some(0));
}

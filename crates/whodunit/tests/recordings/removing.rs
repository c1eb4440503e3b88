//! `whodunit rm`.

use std::fs;

use super::builder::Home;
use super::listing::flip;

const DAY: u64 = 86_400;

fn names(home: &Home) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(home.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_paths_and_the_alias() {
    let home = Home::new();
    home.exited(&["a"], 60, 0);
    home.exited(&["a"], 50, 0);
    home.exited(&["b"], 40, 0);
    let [a, b] = ["a-2", "b-1"].map(|name| home.size_of(name));
    home.run(&["rm", "latest"]).says(&format!("removed b-1: {b}\n1 recording, {b} freed\n"));
    assert_eq!(names(&home), ["a-1", "a-2", "latest"]);
    // The newest of the others is the latest now, and is not removed twice.
    let outcome = home.run(&["rm", "latest", "store/a-2", "a-2"]);
    outcome.says(&format!("removed a-2: {a}\n1 recording, {a} freed\n"));
    assert_eq!(names(&home), ["a-1", "latest"]);
}

#[test]
fn a_dry_run_removes_nothing() {
    let home = Home::new();
    home.exited(&["a"], 60, 0);
    let size = home.size_of("a-1");
    home.run(&["rm", "--dry-run", "a-1"])
        .says(&format!("would remove a-1: {size}\n1 recording, {size} would be freed\n"));
    assert_eq!(names(&home), ["a-1", "latest"]);
}

#[test]
fn what_is_refused_does_not_keep_the_others() {
    let home = Home::new();
    let size = {
        home.exited(&["a"], 60, 0);
        home.size_of("a-1")
    };
    let mut live = home.record(&["live"], 50);
    live.log.start(&["live"], 1, None);
    fs::create_dir_all(home.folder.join("photos")).unwrap();
    fs::write(home.folder.join("photos/summer.jpg"), "").unwrap();
    let (photos, live_folder) = (home.folder.join("photos"), home.path("live-1"));
    let expected = format!(
        "\
whodunit: {} is not a recording; `whodunit ls` lists the recordings there are
whodunit: there is no recording `nothing` in {}; `whodunit ls` lists those there are
whodunit: {} is still being recorded; end the program first
",
        photos.display(),
        home.root().display(),
        live_folder.display()
    );
    for dry_run in [true, false] {
        let mut words = vec!["rm", "./photos", "nothing", "live-1", "a-1"];
        words.extend(dry_run.then_some("--dry-run"));
        let outcome = home.run(&words);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(3), expected.as_str()));
        let verb = if dry_run { "would remove" } else { "removed" };
        assert!(outcome.stdout.starts_with(&format!("{verb} a-1: {size}\n")), "{}", outcome.stdout);
    }
    assert_eq!(names(&home), ["latest", "live-1"]);
    assert!(home.folder.join("photos/summer.jpg").exists());
}

#[test]
fn a_folder_with_more_in_it_stays() {
    let home = Home::new();
    let folder = home.exited(&["a"], 60, 0);
    fs::write(folder.join("thesis.tex"), "all of it").unwrap();
    home.run(&["rm", "a-1"]).refuses(&format!(
        "{} is no part of a recording; move it elsewhere, then remove the recording",
        folder.join("thesis.tex").display()
    ));
    assert!(folder.join("1.log").exists());
}

#[test]
fn a_program_is_not_a_recording() {
    let home = Home::new();
    home.exited(&["a"], 60, 0);
    home.run(&["rm", "a"])
        .refuses("`a` is a program and not one recording; name the recording, such as a-1, its newest");
    assert_eq!(names(&home), ["a-1", "latest"]);
}

#[test]
fn recordings_that_cannot_be_read_can_be_removed() {
    let home = Home::new();
    for (name, at) in [("header", 20), ("newer", 9), ("damaged", 70)] {
        let folder = home.exited(&[name], 60, 0);
        flip(&folder.join("1.log"), at);
    }
    let all = home.run(&["rm", "--all", "--dry-run"]);
    assert_eq!((all.code, all.stdout.lines().count()), (Some(0), 4), "{all:?}");
    let all = home.run(&["rm", "--all"]);
    assert_eq!((all.code, all.stdout.lines().count()), (Some(0), 4), "{all:?}");
    assert_eq!(names(&home), Vec::<String>::new());
}

#[test]
fn all_but_the_live_ones() {
    let home = Home::new();
    home.run(&["rm", "--all"]).says("nothing to remove\n");
    home.exited(&["a"], 60, 0);
    home.exited(&["b"], 50, 0);
    let _live = home.record(&["live"], 40);
    fs::write(home.path("notes.txt"), "").unwrap();
    let outcome = home.run(&["rm", "--all"]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert_eq!(outcome.stdout.lines().count(), 3);
    assert_eq!(names(&home), ["latest", "live-1", "notes.txt"]);
}

#[test]
fn those_older_than_an_age() {
    let home = Home::new();
    home.exited(&["old"], 8 * DAY, 0);
    home.exited(&["new"], 6 * DAY, 0);
    let outcome = home.run(&["rm", "--older-than", "7d"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(names(&home), ["latest", "new-1"]);
    home.run(&["rm", "--older-than", "7d"]).says("nothing to remove\n");
}

#[test]
fn wrong_command_lines() {
    let home = Home::new();
    home.exited(&["a"], 60, 0);
    let lines: [&[&str]; 5] = [
        &["rm"],
        &["rm", "--all", "a-1"],
        &["rm", "--older-than", "soon"],
        &["rm", "--dry-run"],
        &["rm", "--force", "a-1"],
    ];
    for words in lines {
        let outcome = home.run(words);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{words:?}");
    }
    assert_eq!(names(&home), ["a-1", "latest"]);
}

//! Suppression files: what they mean, and what is said of wrong ones.

use analysis::suppressions::{Frame, Kind, Pattern, Suppressions};

fn frame<'a>(function: &'a str, file: &'a str, module: &'a str) -> Frame<'a> {
    Frame { function, file, module }
}

fn matches(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).expect("a pattern").matches(name)
}

#[test]
fn patterns() {
    let yes = [
        ("count", "stats::count"),
        ("count", "recount_all"),
        ("^stats", "stats::count"),
        ("count$", "stats::count"),
        ("^stats::count$", "stats::count"),
        ("st*co", "stats::count"),
        ("^st*nt$", "stats::count"),
        ("*", ""),
        ("a*a$", "banana"),
        ("^a*b*c$", "aXbYbZc"),
        ("é*ü", "caféü"),
    ];
    let no = [
        ("count", "stats::cont"),
        ("^count", "stats::count"),
        ("stats$", "stats::count"),
        ("^stats$", "stats::count"),
        ("co*st", "stats::count"),
        ("^ab*ba$", "aba"),
        ("^a$", "aa"),
        ("a*b$", "abc"),
    ];
    yes.iter().for_each(|(pattern, name)| assert!(matches(pattern, name), "{pattern} matches {name}"));
    no.iter().for_each(|(pattern, name)| assert!(!matches(pattern, name), "{pattern} does not match {name}"));
}

#[test]
fn a_race_is_matched_by_any_function_of_either_stack() {
    let suppressions = Suppressions::parse("# known\n\n  race:legacy_*\nrace:fast.c$\nrace:libnoisy\n").unwrap();
    let quiet = [frame("main", "main.c", "prog")];
    let by_function = [frame("add", "add.c", "prog"), frame("legacy_add", "old.c", "prog")];
    let by_file = [frame("add", "third_party/fast.c", "prog")];
    let by_module = [frame("add", "", "/usr/lib/libnoisy.so.1")];
    assert_eq!(suppressions.of_race(&[&quiet, &quiet]), None);
    let line = |stacks: [&[Frame<'_>]; 2]| suppressions.of_race(&stacks).map(|found| found.line);
    assert_eq!(line([&quiet, &by_function]), Some(3));
    assert_eq!(line([&by_file, &quiet]), Some(4));
    assert_eq!(line([&quiet, &by_module]), Some(5));
}

#[test]
fn the_top_is_the_innermost_function() {
    let suppressions = Suppressions::parse("race_top:^add$").unwrap();
    let inner = [frame("add", "", ""), frame("main", "", "")];
    let outer = [frame("memcpy", "", ""), frame("add", "", "")];
    assert_eq!(suppressions.of_race(&[&inner]).map(|found| found.kind), Some(Kind::RaceTop));
    assert_eq!(suppressions.of_race(&[&outer]), None);
}

#[test]
fn a_library_is_matched_by_what_it_calls() {
    let suppressions = Suppressions::parse("called_from_lib:libnoisy.so").unwrap();
    let called = [frame("memcpy", "", "libc.so.6"), frame("work", "", "libnoisy.so")];
    let innermost = [frame("work", "", "libnoisy.so"), frame("main", "", "prog")];
    assert!(suppressions.of_race(&[&called]).is_some());
    assert!(suppressions.of_deadlock(&[&called]).is_some());
    assert_eq!(suppressions.of_race(&[&innermost]), None);
}

#[test]
fn races_and_deadlocks_are_apart() {
    let suppressions = Suppressions::parse("deadlock:flush\nrace:count").unwrap();
    let both = [frame("flush", "", ""), frame("count", "", "")];
    assert_eq!(suppressions.of_race(&[&both]).map(|found| found.line), Some(2));
    assert_eq!(suppressions.of_deadlock(&[&both]).map(|found| found.line), Some(1));
}

#[test]
fn lines_for_other_findings_of_thread_sanitizer_are_accepted() {
    let suppressions = Suppressions::parse("mutex:m\nthread:worker\nsignal:handler\n").unwrap();
    assert_eq!(suppressions, Suppressions::default());
}

#[test]
fn wrong_lines_are_named_with_what_to_change() {
    let message = |text: &str| Suppressions::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("race:a\nstats count"),
        "line 2: `stats count` has no colon; write a kind and a pattern, as in `race:function_name`, or `#` before a comment"
    );
    assert_eq!(
        message("races:a"),
        "line 1: `races` is no kind of suppression; use one of race, race_top, deadlock, called_from_lib"
    );
    let no_pattern = "has no pattern; name a function, file or module after the colon";
    assert_eq!(message("race:"), format!("line 1: `race:` {no_pattern}"));
    assert_eq!(message("race:^$"), format!("line 1: `race:^$` {no_pattern}"));
}

/// Whatever is in a file, it is refused with a line that it has, or means something.
#[test]
fn files_with_changed_characters() {
    let whole = "# known\nrace:legacy_*\nrace_top:^add$\nmutex:a*b*c\nthread:pool\nsignal:x\ndeadlock:y\ncalled_from_lib:libz.so\n";
    let mut random = fastrand::Rng::with_seed(1);
    let stack = [frame("legacy_add", "old.c", "prog"), frame("main", "main.c", "prog")];
    for _ in 0..1000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = *random.choice(b"\n:*^$# r\0\xff").expect("there are some");
        }
        bytes.truncate(random.usize(bytes.len() / 2..=bytes.len()));
        if let Ok(suppressions) = Suppressions::parse(&String::from_utf8_lossy(&bytes)) {
            suppressions.of_race(&[&stack, &stack]);
        }
    }
}

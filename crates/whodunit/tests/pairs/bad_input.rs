//! What cannot be compared is refused in a sentence that says what to do.

use super::place::Place;

#[track_caller]
fn refuses(place: &Place, words: &[&str], status: i32, sentence: &str) {
    let output = place.whodunit(&[&["pairs"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn nothing_to_compare() {
    let place = Place::new("nothing", "s_counter");
    refuses(&place, &[], 2, "name a program to run, or recordings by --failing and --passing");
    refuses(&place, &["--failing", "x"], 2, "--passing");
    refuses(&place, &["--", "nowhere-at-all"], 127, "command not found");
    refuses(&place, &["--", "/bin/true"], 3, "the program starts no threads");
    refuses(&place, &["-n", "2", "--check", "true", "--", "/bin/true"], 3, "the program starts no threads");
    // Nothing ever writes what is expected.
    let never = ["-n", "2", "--runs", "1", "--expect-output", "/dev/null", "--", "./guest"];
    refuses(&place, &never, 3, "further schedules failed too, so there is nothing to compare with");
    let calm = Place::new("calm", "calm_join");
    refuses(&calm, &["-n", "2", "--", "./guest"], 0, "schedules failed; try more of them (-n)");
}

#[test]
fn runs_of_one_thread_have_nothing_to_tell() {
    let place = Place::new("alone", "s_counter");
    for name in ["one", "two"] {
        place.whodunit(&["record", "-o", name, "--", "/bin/true"]);
    }
    let output = place.whodunit(&["pairs", "--failing", "./one", "--passing", "./two"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("true had one thread only, so threads have no pairs."));
}

#[test]
fn runs_of_different_programs() {
    let place = Place::new("different", "s_counter");
    for name in ["true", "false"] {
        place.whodunit(&["record", "-o", name, "--", &format!("/bin/{name}")]);
    }
    refuses(&place, &["--failing", "./false", "--passing", "./true"], 3, "different programs, false and true");
}

//! Owns comparing the lines of a family both ways, and the report of those that differ.

use std::fs;
use std::path::Path;

use super::compare::{Outcome, describe_status, differences};
use super::debian;
use super::line::{Family, Line};
use super::running::{broken, fresh_folder, run, whodunit};

/// Runs every line natively and under whodunit, and fails with a report of all lines that differ.
pub fn check(family: &Family, lines: &[Line]) {
    debian::need(family.needs);
    // Some lines are meant to crash, and reports have tests of their own.
    let prefix = format!("{} run --no-report --", whodunit().display());
    let failures: Vec<String> = lines.iter().filter_map(|line| check_line(family, line, &prefix)).collect();
    assert!(
        failures.is_empty(),
        "{} of {} lines of {} differ\n\n{}",
        failures.len(),
        lines.len(),
        family.name,
        failures.join("\n"),
    );
}

/// Returns the report of a line whose run behind `prefix` differs from the native one. Its folder is then kept.
fn check_line(family: &Family, line: &Line, prefix: &str) -> Option<String> {
    let base = fresh_folder(family, line);
    let native = run(line, &base, "");
    let found = match broken(line, &base, &native) {
        Some(reason) => vec![reason],
        None => differences(&native, &run(line, &base, prefix)),
    };
    if found.is_empty() {
        fs::remove_dir_all(&base).unwrap_or_else(|error| panic!("{}: {error}", base.display()));
        return None;
    }
    Some(report(line, &base, prefix, &native, &found))
}

fn report(line: &Line, base: &Path, prefix: &str, native: &Outcome, found: &[String]) -> String {
    let script = base.join("line.sh");
    format!(
        "--- {}\n  {}\n  (native run: {})\n  again by hand, natively: env -i sh {script}\n\
         \x20 and under whodunit:      env -i RUN='{prefix}' sh {script}\n",
        line.title(),
        found.join("\n  "),
        describe_status(native.status),
        script = script.display(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::programs::line::guest;

    const FAMILY: Family = Family { name: "harness", needs: &[], setup: "" };

    /// A prefix in the place of whodunit, and what the report of a line run behind it must say.
    fn check_report(line: Line, prefix: &str, expected: &str) {
        let report = check_line(&FAMILY, &line, prefix).expect("the runs differ");
        assert!(report.contains(expected), "{report}");
        let folder = report.split("sh ").last().and_then(|path| Path::new(path.trim()).parent());
        fs::remove_dir_all(folder.expect("the report names the script")).expect("the folder was kept");
    }

    #[test]
    fn a_prefix_that_changes_nothing_is_not_reported() {
        assert_eq!(check_line(&FAMILY, &guest("sh -c 'echo out; echo err >&2; echo file >f'"), "env"), None);
    }

    #[test]
    fn a_prefix_that_changes_the_output_is_reported() {
        check_report(guest("echo text"), "env echo", "standard output differs from byte 0");
    }

    #[test]
    fn a_prefix_that_changes_the_status_is_reported() {
        check_report(guest("true"), "false", "native exit status 0, whodunit exit status 1");
    }

    #[test]
    fn a_prefix_that_hangs_is_ended_and_reported() {
        let mut line = guest("true");
        line.limit = Duration::from_secs(2);
        check_report(line, "tail -f /dev/null", "whodunit killed at the time limit");
    }

    #[test]
    fn a_line_that_fails_natively_is_reported() {
        check_report(guest("false"), "env", "is to end with exit status 0 and ended with exit status 1");
    }
}

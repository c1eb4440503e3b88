//! What counts as a failure of a run, and what makes two failures the same.

use super::order::{Answer, Crash, Ended, Kind};
use std::ffi::OsStr;

/// What it is and where, in one line: equal for failures that are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Failure(pub String);

/// How a run ended that ended by itself, if that is a failure.
pub fn judge(ended: Ended, answer: &Answer) -> Option<Failure> {
    if let Some(crash) = &answer.crash {
        return Some(Failure(signature(crash)));
    }
    match ended {
        Ended::Exited(0) | Ended::Slow => None,
        Ended::Exited(code) => Some(Failure(format!("exit status {code}"))),
        Ended::Killed(signal) => Some(Failure(report::signals::name(signal))),
        Ended::Stuck => Some(Failure("no end, and nothing to do".to_owned())),
    }
}

fn signature(crash: &Crash) -> String {
    let what = match crash.kind {
        Kind::Signal(signal) => report::signals::name(signal),
        Kind::Assertion => "failed assertion".to_owned(),
        Kind::Deadlock => "deadlock".to_owned(),
        Kind::Hang => "hang".to_owned(),
    };
    match crash.places.as_slice() {
        [] => what,
        places => format!("{what} in {}", places.join(" and ")),
    }
}

pub fn other_output() -> Failure {
    Failure("other output than expected".to_owned())
}

pub fn checked(command: &OsStr) -> Failure {
    Failure(format!("--fail-if {}", command.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: Kind, places: &[&str]) -> Answer {
        let places = places.iter().map(|&place| place.to_owned()).collect();
        Answer { crash: Some(Crash { kind, places }), ..Answer::default() }
    }

    fn signature_of(ended: Ended, answer: &Answer) -> Option<String> {
        judge(ended, answer).map(|Failure(signature)| signature)
    }

    #[test]
    fn a_good_end_is_no_failure() {
        assert_eq!(signature_of(Ended::Exited(0), &Answer::default()), None);
        assert_eq!(signature_of(Ended::Slow, &Answer::default()), None);
    }

    #[test]
    fn signatures_tell_what_and_where() {
        let check = |ended, answer, expected: &str| assert_eq!(signature_of(ended, &answer).as_deref(), Some(expected));
        check(Ended::Exited(3), Answer::default(), "exit status 3");
        check(Ended::Killed(9), Answer::default(), "SIGKILL");
        check(Ended::Killed(11), answer(Kind::Signal(11), &["get (a.c:7)"]), "SIGSEGV in get (a.c:7)");
        check(Ended::Killed(6), answer(Kind::Assertion, &["main (a.c:9)"]), "failed assertion in main (a.c:9)");
        let two = answer(Kind::Deadlock, &["one (a.c:1)", "two (a.c:2)"]);
        check(Ended::Exited(124), two, "deadlock in one (a.c:1) and two (a.c:2)");
        check(Ended::Killed(24), answer(Kind::Hang, &[]), "hang");
    }
}

//! What cannot be recorded or replayed yet, in one place, with the reasons. The lists may only become shorter.
//!
//! An entry that is out of date fails its test, unless its fault depends on time.

use Fault::MayShow;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The program notices that it is recorded, or somebody else does.
    Shows,
    /// The same, in some runs.
    MayShow,
    /// The recording cannot be replayed.
    Diverges,
}

/// Group and name of a program of `conformance/`, or a family and words of a line of `programs/`.
pub type Exception = (&'static str, &'static str, Fault, &'static str);

pub const GUESTS: &[Exception] = &[];

/// Programs that are not replayed under some schedules.
pub const ROUNDS: &[Exception] = &[];

pub const LINES: &[Exception] = &[(
    "dash",
    "sleep 30",
    MayShow,
    "whether dash says `Killed` depends on when it hears of it, and a recorded fork takes longer",
)];

const MOST_GUESTS: usize = 0;
const MOST_ROUNDS: usize = 0;
const MOST_LINES: usize = 1;

pub fn find(list: &[Exception], group: &str, name: &str) -> Option<(Fault, &'static str)> {
    list.iter().find(|entry| (entry.0, entry.1) == (group, name)).map(|entry| (entry.2, entry.3))
}

/// The exception of a line, which its words tell.
pub fn find_line(family: &str, title: &str) -> Option<(Fault, &'static str)> {
    LINES.iter().find(|entry| entry.0 == family && title.contains(entry.1)).map(|entry| (entry.2, entry.3))
}

#[test]
fn the_lists_only_become_shorter() {
    for (list, most) in [(GUESTS, MOST_GUESTS), (ROUNDS, MOST_ROUNDS), (LINES, MOST_LINES)] {
        assert!(list.len() <= most);
        assert!(list.iter().all(|(.., reason)| !reason.is_empty()));
    }
}

//! What the verbs on recordings share: finding and opening them, the words for how they ended, and how a verb ends when
//! one cannot be used.

pub mod ends;
pub mod text;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use trace::event::Parent;
use trace::{Event, OpenError, Recording, Store, StoreError};

use crate::{status, voice};
use text::{Paint, escaped};

/// Why a verb did not do all that it was asked for.
pub enum Trouble {
    /// One sentence for the user that says what to do.
    Refused(String),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Refused(error.to_string())
    }
}

impl From<OpenError> for Trouble {
    fn from(error: OpenError) -> Trouble {
        Trouble::Refused(error.to_string())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Output(error)
    }
}

/// The end of a verb: says what went wrong, if anything did.
pub fn conclude(result: Result<(), Trouble>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough.
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Trouble::Output(error)) => refuse(&format!("cannot write to standard output: {error}")),
        Err(Trouble::Refused(sentence)) => refuse(&sentence),
    }
}

fn refuse(sentence: &str) -> ExitCode {
    say_refusal(sentence);
    ExitCode::from(status::MACHINE)
}

/// Names in the sentence may come from a recording.
pub fn say_refusal(sentence: &str) {
    voice::say(&format!("whodunit: {}\n", escaped(sentence)));
}

/// Writes all of a verb's answer to standard output.
pub fn print(text: &str) -> Result<(), Trouble> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Colours for standard output, where they are wanted. `NO_COLOR` counts if it is not empty.
pub fn paint() -> Paint {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Paint { colour: wanted && io::stdout().is_terminal() }
}

/// What users call a recording: its name if it is in the store, else its path.
pub fn name_of(store: &Store, folder: &Path) -> String {
    let is_in_store = |root: &Path| folder.parent() == Some(root);
    let known = is_in_store(store.root()) || store.root().canonicalize().is_ok_and(|root| is_in_store(&root));
    match folder.file_name() {
        Some(name) if known => name.to_string_lossy().into_owned(),
        _ => folder.to_string_lossy().into_owned(),
    }
}

/// Where the logs of a recording come from, as their first events tell.
pub struct Family {
    members: BTreeMap<u32, Member>,
}

struct Member {
    pid: u32,
    parent: Option<Parent>,
}

impl Family {
    pub fn of(recording: &Recording) -> Family {
        let mut members = BTreeMap::new();
        for &number in recording.logs() {
            let Ok(log) = recording.log(number) else { continue };
            let mut cursor = log.cursor();
            if let Some(Event::Start(start)) = cursor.next().map(|record| record.event) {
                members.insert(number, Member { pid: start.identity.pid, parent: start.parent });
            }
        }
        Family { members }
    }

    /// How many processes there are. A program that is executed has a log of its own, but goes on in the same process.
    pub fn processes(&self) -> usize {
        let pid_of = |log: u32| self.members.get(&log).map(|member| member.pid);
        let is_new = |member: &&Member| member.parent.and_then(|parent| pid_of(parent.log)) != Some(member.pid);
        self.members.values().filter(is_new).count()
    }

    /// The log of the program that `log` executed in its event `event`; `told` is what the event says of it, which may be
    /// nothing (0), since the program has no log yet when it is executed.
    pub fn successor(&self, log: u32, event: u64, told: u32) -> Option<u32> {
        let wanted = Some(Parent { log, event });
        let mut members = self.members.iter();
        let found = members.find(|(number, member)| **number > log && member.parent == wanted);
        found
            .map(|(number, _)| *number)
            .or_else(|| Some(told).filter(|told| *told > log && self.members.contains_key(told)))
    }
}

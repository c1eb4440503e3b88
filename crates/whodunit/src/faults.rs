//! The option `--faults`: what is made to go wrong in a run, which functions that concerns, and what a recording tells of
//! it afterwards.

use crate::host::with_room;
use crate::recordings::text::escaped;
use crate::settings::name_of;
use crate::{hunt, show};
use clap::{Args, ValueEnum};
use engine::{Faultable, INJECTED, MappedCode};
use program::space::{AddressSpace, Mapping};
use program::symbols::{SourceFrame, Symbolizer};
use program::unwind::{CodeAddress, CodeAddressKind};
use sched::{FaultKind, FaultKinds};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use trace::{Event, Recording};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum FaultName {
    /// Reads and writes of files, pipes and stream sockets move fewer bytes than asked for
    Short,
    /// Calls that may wait fail with EINTR, where the program has a signal handler that could be the reason
    Eintr,
    /// Waits for condition variables and futexes end though nobody woke them
    Wakeups,
    /// Allocations fail: malloc and its kin, mmap, brk
    Memory,
    /// Which of several waiting threads is woken first is chosen by the seed
    Order,
}

impl FaultName {
    fn kind(self) -> FaultKind {
        match self {
            FaultName::Short => FaultKind::Short,
            FaultName::Eintr => FaultKind::Interruption,
            FaultName::Wakeups => FaultKind::Wakeup,
            FaultName::Memory => FaultKind::Memory,
            FaultName::Order => FaultKind::Order,
        }
    }
}

#[derive(Args, Clone, Debug)]
#[group(id = "faulty")]
pub struct Arguments {
    /// Make things go wrong now and then, as the seed says: all that a correct program must withstand (short, eintr, wakeups
    /// and order), or just these
    #[arg(long, value_name = "KINDS", num_args = 0..=1, require_equals = true, value_delimiter = ',', value_enum,
          default_missing_values = ["short", "eintr", "wakeups", "order"])]
    faults: Vec<FaultName>,
}

impl Arguments {
    pub fn kinds(&self) -> FaultKinds {
        self.faults.iter().map(|name| name.kind()).collect()
    }
}

/// Between the names of kinds in one word.
const AND: char = '+';

/// One word from which [`decode`] makes the same kinds.
pub fn encode(kinds: FaultKinds) -> String {
    let names = FaultName::value_variants().iter().filter(|name| kinds.contains(name.kind()));
    names.map(|name| name_of(*name)).collect::<Vec<_>>().join(&AND.to_string())
}

pub fn decode(word: &str) -> Option<FaultKinds> {
    let names = word.split(AND).filter(|name| !name.is_empty());
    names.map(|name| FaultName::from_str(name, false).ok().map(FaultName::kind)).collect()
}

/// Where the functions begin that the engine can have fail.
pub fn faultable(code: &MappedCode) -> Vec<(u64, Faultable)> {
    let path = Some(PathBuf::from(OsString::from_vec(code.path.clone())));
    let (start, end) = (code.addresses.start, code.addresses.end);
    let mapping = Mapping { start, end, offset: code.offset, executable: true, path };
    with_room(&|| {
        let space = AddressSpace::new(vec![mapping.clone()]);
        let functions = space.functions_meaning(meaning);
        functions.iter().map(|function| (function.start.0, function.meaning)).collect()
    })
}

/// What faults can do to a function, by its symbol's name. Other forms of allocation come to these.
fn meaning(name: &str) -> Option<Faultable> {
    match name {
        "malloc" | "calloc" | "valloc" | "pvalloc" => Some(Faultable::Allocates { size_argument: 0 }),
        "realloc" | "aligned_alloc" | "memalign" => Some(Faultable::Allocates { size_argument: 1 }),
        "posix_memalign" => Some(Faultable::Allocates { size_argument: 2 }),
        "pthread_cond_wait" | "pthread_cond_timedwait" | "pthread_cond_clockwait" => Some(Faultable::Waits),
        _ => None,
    }
}

/// What was made to go wrong in a recorded run, a line each, with the program's own line that it happened to.
pub fn injected(recording: &Recording) -> Vec<String> {
    recording.logs().iter().flat_map(|&log| injected_in(recording, log)).collect()
}

fn injected_in(recording: &Recording, log: u32) -> Vec<String> {
    let mut notes: Vec<(Option<u32>, String)> = Vec::new();
    let Ok(opened) = recording.log(log) else { return Vec::new() };
    let mut cursor = opened.cursor();
    while let Some(record) = cursor.next() {
        if let Event::Note(note) = record.event
            && let Some(text) = note.text.strip_prefix(INJECTED)
        {
            notes.push((note.thread, text.to_owned()));
        }
    }
    let recorded = if notes.is_empty() { None } else { show::recorded(recording, log) };
    let mut symbolizer = recorded.as_ref().map(|recorded| Symbolizer::new(&recorded.space));
    let line = |(thread, text): &(Option<u32>, String)| {
        let (what, callers) = take_apart(text);
        let named = |code: CodeAddress| symbolizer.as_mut().map_or(Vec::new(), |names| names.resolve(code));
        let functions: Vec<SourceFrame> = callers.into_iter().flat_map(named).collect();
        let place = hunt::own_place(&functions).map_or(String::new(), |place| format!(", in {}", escaped(&place)));
        let thread = thread.map_or(String::new(), |thread| format!("thread {thread}: "));
        format!("{thread}{}{place}", escaped(what))
    };
    notes.iter().map(line).collect()
}

/// What a note says, and the code that it speaks of, the innermost first.
fn take_apart(text: &str) -> (&str, Vec<CodeAddress>) {
    let Some((what, rest)) = text.rsplit_once(" [") else { return (text, Vec::new()) };
    let addresses = rest.trim_end_matches(']').split(' ').filter_map(|word| word.strip_prefix("0x"));
    let addresses = addresses.filter_map(|digits| u64::from_str_radix(digits, 16).ok());
    let kinds = std::iter::once(CodeAddressKind::Exact).chain(std::iter::repeat(CodeAddressKind::ReturnAddress));
    (what, addresses.zip(kinds).map(|(pc, kind)| CodeAddress { pc, kind }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let all: FaultKinds = FaultKind::ALL.into_iter().collect();
        for kinds in [FaultKinds::default(), all, [FaultKind::Order].into_iter().collect()] {
            assert_eq!(decode(&encode(kinds)), Some(kinds));
        }
        assert_eq!(encode(all), "short+eintr+wakeups+memory+order");
        assert_eq!(decode("short+flood"), None);
    }

    #[test]
    fn notes_tell_what_and_where() {
        let (what, callers) = take_apart("write moves 3 of 9 bytes [0x10 0x2f]");
        assert_eq!(what, "write moves 3 of 9 bytes");
        let kinds: Vec<_> = callers.iter().map(|code| (code.pc, code.kind)).collect();
        assert_eq!(kinds, [(0x10, CodeAddressKind::Exact), (0x2f, CodeAddressKind::ReturnAddress)]);
        assert_eq!(take_apart("an older note"), ("an older note", Vec::new()));
    }
}

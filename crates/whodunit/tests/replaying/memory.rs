//! Memory is compared too: a byte that comes out differently is found, though no register ever has it.

use std::fs;
use std::path::{Path, PathBuf};

use super::place::{Place, guest, text, told};
use crate::support::execute::{Ending, Outcome};
use trace::event::{Call, Effect};
use trace::format::LogId;
use trace::{Event, List, Recording, Writer};

/// The call by which `unseen` takes what it does not look at, and how much that is.
const SYSINFO: u32 = 99;
const SIZE: u64 = 112;

/// A recording of `unseen`, and what it printed.
fn unseen(place: &Place) -> (PathBuf, Outcome) {
    let recording = place.path("recording");
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(&recording).arg("--").arg(guest("unseen").program);
    let recorded = place.finish(&mut command);
    assert_eq!(recorded.ending, Ending::Exited(0), "{}", told(&recorded));
    (recording, recorded)
}

/// Where the program says that it has put something.
fn address(output: &Outcome, name: &str) -> u64 {
    let said = text(&output.stdout);
    let line = said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {said}"));
    u64::from_str_radix(line.rsplit("0x").next().unwrap(), 16).unwrap()
}

/// Writes the log anew, with other bytes wherever the call wrote to `address`; tells the number of that event.
fn change(recording: &Path, address: u64, flip: u8) -> u64 {
    let opened = Recording::open(recording).unwrap();
    let id = LogId { recording: 7, log: 1 };
    let mut writer = Writer::create(id, vec![0; 1 << 20], Vec::new()).unwrap();
    let mut cursor = opened.log(1).unwrap().cursor();
    let mut changed = None;
    while let Some(record) = cursor.next() {
        match record.event {
            Event::Call(call) if call.number == SYSINFO && is_at(&call, address) => {
                let mut bytes = call.effects.iter().next().unwrap().bytes.to_vec();
                bytes[7] ^= flip;
                let effects = [Effect { address, bytes: &bytes }];
                changed = Some(writer.append(&Event::Call(Call { effects: List::of(&effects), ..call })).unwrap());
            }
            event => drop(writer.append(&event).unwrap()),
        }
    }
    writer.seal().unwrap();
    fs::write(recording.join("1.log"), writer.into_parts().1).unwrap();
    changed.expect("the call is in the recording")
}

fn is_at(call: &Call<'_>, address: u64) -> bool {
    call.effects.iter().any(|effect| effect.address == address && effect.bytes.len() as u64 == SIZE)
}

/// The event at which memory was found to differ, and the range that does.
fn found(outcome: &Outcome) -> (u64, std::ops::Range<u64>) {
    let said = text(&outcome.stdout);
    let after = |words: &str| said.split(words).nth(1).unwrap_or_else(|| panic!("no `{words}` in {said}"));
    let event = after("at event ").lines().next().unwrap().parse().unwrap();
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
        u64::from_str_radix(&digits, 16).unwrap()
    };
    (event, number(after("memory from 0x"))..number(after(" to 0x")))
}

/// A changed byte is found in memory that has it, after the event that brought it.
fn check_found(place: &Place, recording: &Path, recorded: &Outcome, name: &str) -> u64 {
    let address = address(recorded, name);
    assert_eq!(change(recording, address, 0), change(recording, address, 0));
    assert_eq!(place.not_verified(recording), None, "a log that is written anew is still right");
    let changed = change(recording, address, 0x10);
    let verified = place.finish(place.whodunit(["verify"]).arg(recording));
    assert_eq!(verified.ending, Ending::Exited(1), "{}", told(&verified));
    let (event, range) = found(&verified);
    assert!(event > changed && range.contains(&(address + 7)), "{changed}, {address:#x}: {}", told(&verified));
    assert!(text(&verified.stdout).contains("whodunit show --process 1 --events"), "{}", told(&verified));
    event - changed
}

#[test]
fn a_byte_of_a_variable_is_found_at_the_end() {
    let place = Place::new("variable");
    let (recording, recorded) = unseen(&place);
    check_found(&place, &recording, &recorded, "variable");
}

#[test]
fn a_byte_on_a_stack_is_found_at_the_next_switch() {
    let place = Place::new("stack");
    let (recording, recorded) = unseen(&place);
    // Between the two are no more than the call that prints.
    let distance = check_found(&place, &recording, &recorded, "local");
    assert!(distance < 10, "{distance} events later");
    let verified = place.finish(place.whodunit(["verify"]).arg(&recording));
    assert!(text(&verified.stdout).contains("the stack of thread 2"), "{}", told(&verified));
}

#[test]
fn a_replay_tells_and_goes_on() {
    let place = Place::new("told");
    let (recording, recorded) = unseen(&place);
    assert_eq!(place.replay(&recording), recorded);
    change(&recording, address(&recorded, "local"), 0x10);
    let replayed = place.replay(&recording);
    assert_eq!((replayed.ending, &replayed.stdout), (recorded.ending, &recorded.stdout), "{}", told(&replayed));
    let said = text(&replayed.stderr);
    assert!(said.starts_with("whodunit: memory from 0x") && said.lines().count() == 1, "{said}");
    assert!(said.contains("is not as recorded at event"), "{said}");
}

//! Recordings that were made up, with all checksums right: a thread that never comes to the next event is found to have gone
//! astray.

use std::fs;
use std::path::{Path, PathBuf};

use super::place::{Place, guest, text, told};
use crate::support::execute::Ending;
use trace::event::{Call, Effect};
use trace::format::LogId;
use trace::{Event, List, Recording, Writer};

/// The call by which `obedient` takes the byte.
const READ: u32 = 0;

/// A recording of `obedient`, which is told to come to its end.
fn obedient(place: &Place, arguments: &[&str]) -> PathBuf {
    let (recording, input) = (place.path("recording"), place.path("input"));
    fs::write(&input, "e").unwrap();
    let mut command = place.whodunit(["record", "-o"]);
    command.arg(&recording).arg("--").arg(guest("obedient").program).args(arguments);
    let recorded = place.finish(command.stdin(fs::File::open(input).unwrap()));
    assert_eq!((recorded.ending, &*text(&recorded.stdout)), (Ending::Exited(0), "end\n"), "{}", told(&recorded));
    recording
}

/// Writes the log anew with another byte from standard input, and leaves out what follows if it `is_cut` there.
fn change(recording: &Path, byte: u8, is_cut: bool) {
    let opened = Recording::open(recording).unwrap();
    let mut writer = Writer::create(LogId { recording: 7, log: 1 }, vec![0; 1 << 20], Vec::new()).unwrap();
    let mut cursor = opened.log(1).unwrap().cursor();
    while let Some(record) = cursor.next() {
        match record.event {
            Event::Call(call) if call.number == READ && call.result == 1 => {
                let address = call.effects.iter().next().unwrap().address;
                let effects = [Effect { address, bytes: &[byte] }];
                writer.append(&Event::Call(Call { effects: List::of(&effects), ..call })).unwrap();
                if is_cut {
                    break;
                }
            }
            event => drop(writer.append(&event).unwrap()),
        }
    }
    writer.seal().unwrap();
    fs::write(recording.join("1.log"), writer.into_parts().1).unwrap();
}

#[track_caller]
fn check_goes_astray(place: &Place, recording: &Path, words: &str) {
    let replayed = place.replay(recording);
    assert_eq!((replayed.ending, &*text(&replayed.stdout)), (Ending::Exited(3), ""), "{}", told(&replayed));
    let said = text(&replayed.stderr);
    assert!(said.contains("went another way than was recorded") && said.contains(words), "{}", told(&replayed));
    let verified = place.finish(place.whodunit(["verify"]).arg(recording));
    assert_eq!(verified.ending, Ending::Exited(1), "{}", told(&verified));
}

#[test]
fn computing_for_ever_before_a_call() {
    let place = Place::new("astray-call");
    let recording = obedient(&place, &[]);
    change(&recording, b'c', false);
    check_goes_astray(&place, &recording, "no end of what it computes");
}

#[test]
fn computing_for_ever_before_an_event_without_a_clock() {
    let place = Place::new("astray-instruction");
    let recording = obedient(&place, &["time"]);
    change(&recording, b'c', false);
    check_goes_astray(&place, &recording, "no end of what it computes");
}

#[test]
fn calls_that_nothing_answers() {
    let place = Place::new("astray-calls");
    let recording = obedient(&place, &["time"]);
    change(&recording, b's', false);
    check_goes_astray(&place, &recording, "getppid(");
}

#[test]
fn computing_for_ever_behind_the_last_event() {
    let place = Place::new("astray-cut");
    let recording = obedient(&place, &[]);
    change(&recording, b'c', true);
    let replayed = place.replay(&recording);
    assert_eq!(replayed.ending, Ending::Exited(0), "{}", told(&replayed));
    assert!(text(&replayed.stderr).contains("the program had not ended"), "{}", told(&replayed));
}

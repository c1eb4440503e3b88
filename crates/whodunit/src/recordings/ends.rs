//! How recordings and their processes ended, in words and for programs.

use serde_json::{Value, json};
use trace::event::{Abort, EndKind, SwitchReason};
use trace::{Ending, Event, Log, OpenError, Recording, State, Unopened};

use super::Family;

/// Log 1 may end by executing another program: goes on to where the process really ended. A program that was not recorded
/// is log 0.
pub fn follow(recording: &Recording, family: &Family, mut state: State) -> State {
    let mut number = 1;
    while let State::Executed { next_log } = state {
        let event = recording.log(number).map_or(0, |log| log.event_count().saturating_sub(1));
        let Some(next) = family.successor(number, event, next_log) else {
            return State::Executed { next_log: 0 };
        };
        number = next;
        state = recording.log(next).map_or_else(State::Unreadable, |log| last_state(&log));
    }
    state
}

/// From the last event alone.
fn last_state(log: &Log) -> State {
    let mut cursor = log.cursor();
    cursor.seek(log.event_count().saturating_sub(1));
    let mut state = State::Cut;
    while let Some(record) = cursor.next() {
        state = state_after(&record.event);
    }
    after_ending(state, cursor.ending())
}

/// What the state is if nothing follows this event.
pub fn state_after(event: &Event<'_>) -> State {
    match event {
        Event::End(end) => State::Ended(end.kind),
        Event::Exec(exec) => State::Executed { next_log: exec.next_log },
        _ => State::Cut,
    }
}

pub fn after_ending(state: State, ending: Ending) -> State {
    match ending {
        Ending::Damaged(damage) => State::Damaged(damage),
        Ending::Whole | Ending::Cut => state,
    }
}

/// `exited 0`, `SIGSEGV`, `still recording`: short enough for a column.
pub fn words(state: &State) -> String {
    match state {
        State::Live => "still recording".to_owned(),
        State::Ended(end) => end_words(*end),
        State::Executed { next_log: 0 } => "executed a program".to_owned(),
        State::Executed { next_log } => format!("executed {next_log}"),
        State::Cut => "cut short (killed)".to_owned(),
        State::Damaged(damage) => {
            let part = if damage.in_tail { "tail" } else { "log" };
            format!("damaged at byte {} of {}.{part}", damage.offset, damage.log)
        }
        State::Unreadable(error) => unreadable_words(error),
    }
}

pub fn end_words(end: EndKind) -> String {
    match end {
        EndKind::Exited(status) => format!("exited {status}"),
        EndKind::Killed(death) => report::signals::name(signal_number(death.signal)),
        EndKind::Aborted(abort) => format!("stopped: {}", abort_words(abort)),
    }
}

/// Signals are small; what is not is no signal whatever it is.
pub fn signal_number(signal: u32) -> i32 {
    i32::try_from(signal).unwrap_or(i32::MAX)
}

fn abort_words(abort: Abort) -> String {
    match abort {
        Abort::SizeLimit => "size limit".to_owned(),
        Abort::TimeLimit => "time limit".to_owned(),
        Abort::DiskFull => "disk full".to_owned(),
        Abort::Asked => "on request".to_owned(),
        Abort::Other(code) => format!("reason {code}"),
    }
}

fn unreadable_words(error: &OpenError) -> String {
    match &error.why {
        Unopened::Empty => "empty".to_owned(),
        Unopened::NotARecording => "not a recording".to_owned(),
        Unopened::Newer(version) => format!("format {version} (newer)"),
        Unopened::DamagedHeader => {
            let file = error.path.file_name().unwrap_or_default().to_string_lossy();
            format!("damaged at byte 0 of {file}")
        }
        Unopened::Missing | Unopened::NotAFolder | Unopened::Unreadable(_) => "unreadable".to_owned(),
    }
}

/// Why a thread's turn ended.
pub fn switch_words(reason: SwitchReason) -> String {
    match reason {
        SwitchReason::QuantumOver => "quantum over".to_owned(),
        SwitchReason::Yielded => "yielded".to_owned(),
        SwitchReason::Waiting => "waits".to_owned(),
        SwitchReason::Ended => "thread ended".to_owned(),
        SwitchReason::Signal => "signal".to_owned(),
        SwitchReason::Asked => "on request".to_owned(),
        SwitchReason::Other(code) => format!("reason {code}"),
    }
}

/// One object: `state` is a fixed word, `text` is for people.
pub fn json(state: &State) -> Value {
    let mut value = match state {
        State::Live => json!({"state": "live"}),
        State::Ended(EndKind::Exited(status)) => json!({"state": "exited", "status": status}),
        State::Ended(EndKind::Killed(death)) => {
            json!({"state": "killed", "signal": death.signal, "code": death.code, "address": death.address})
        }
        State::Ended(EndKind::Aborted(_)) => json!({"state": "stopped"}),
        State::Executed { next_log } => json!({"state": "executed", "next_log": next_log}),
        State::Cut => json!({"state": "cut"}),
        State::Damaged(damage) => {
            json!({"state": "damaged", "log": damage.log, "in_tail": damage.in_tail, "offset": damage.offset})
        }
        State::Unreadable(error) => json!({"state": "unreadable", "problem": error.to_string()}),
    };
    value["text"] = words(state).into();
    value
}

//! `show --events`: one line an event.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use trace::event::{Exec, File, InstructionKind, Map, Signal, SignalPlace, Start, Stream, Written};
use trace::{Ending, Event, Log, Record};

use super::image::{PROGRAM_COUNTER, command_of};
use super::{Range, calls, files, tally};
use crate::recordings::ends;
use crate::recordings::text::{escaped, escaped_bytes, keep_start, size};

/// Of what was written, a line shows so many characters.
const LONGEST_EXTRACT: usize = 60;

/// Returns what comes after the last event; events outside the range are not looked at.
pub fn write(log: &Log, range: Range, as_json: bool) -> io::Result<Ending> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut cursor = log.cursor();
    cursor.seek(range.first);
    while let Some(record) = cursor.next() {
        if record.number > range.last {
            out.flush()?;
            return Ok(Ending::Cut);
        }
        match as_json {
            true => writeln!(out, "{}", json(&record))?,
            false => writeln!(out, "{}", line(&record))?,
        }
    }
    out.flush()?;
    Ok(cursor.ending())
}

/// `   1234  T2 @5678        read(3, 0x7f00…, 4096) = 42, 42 bytes`
fn line(record: &Record<'_>) -> String {
    let who = match (record.event.moment(), record.thread()) {
        (Some((thread, clock)), _) => format!("T{thread} @{clock}"),
        (None, Some(thread)) => format!("T{thread}"),
        (None, None) => String::new(),
    };
    format!("{:>7}  {who:<14}  {}", record.number, describe(&record.event))
}

fn json(record: &Record<'_>) -> Value {
    let mut value = json!({
        "event": record.number,
        "kind": tally::kind(&record.event),
        "thread": record.thread(),
        "clock": record.event.moment().map(|(_, clock)| clock),
        "text": describe(&record.event),
    });
    if let Event::Call(call) = record.event {
        value["call"] = calls::name(call.number).into();
        value["arguments"] = json!(call.arguments);
        value["result"] = call.result.into();
    }
    value
}

pub fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Start(start) => describe_start(start),
        Event::File(file) => describe_file(file),
        Event::Map(map) => describe_map(map),
        Event::Memory(memory) => format!("memory at {:#x}, {} bytes", memory.address, memory.bytes.len()),
        Event::Call(call) => calls::describe(call),
        Event::Switch(switch) => format!("turn to T{}: {}", switch.to, ends::switch_words(switch.reason)),
        Event::Signal(signal) => describe_signal(signal),
        Event::Instruction(instruction) => {
            let values: Vec<String> = instruction.values.iter().map(|value| format!("{value:#x}")).collect();
            format!("{}: {}", instruction_name(instruction.what), values.join(" "))
        }
        Event::Thread(thread) => format!("starts T{}, tid {}", thread.child, thread.tid),
        Event::ThreadEnd(end) => format!("thread ends, status {}", end.status),
        Event::Fork(fork) => format!("forks process {}, pid {}", fork.child_log, fork.child_pid),
        Event::Exec(Exec { next_log: 0, .. }) => "executes a program".to_owned(),
        Event::Exec(exec) => format!("executes a program, {}", exec.next_log),
        Event::Output(output) => describe_output(output),
        Event::Hash(hash) => {
            let bytes = hash.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.length));
            format!("registers {}, memory {} of {}", hash.registers, hash.memory, size(bytes))
        }
        Event::Registers(registers) => {
            let pc = registers.values.iter().nth(PROGRAM_COUNTER);
            format!("registers of T{}{}", registers.thread, pc.map(|pc| format!(", pc {pc:#x}")).unwrap_or_default())
        }
        Event::Stream(stream) => describe_stream(*stream),
        Event::Change(change) => {
            let bytes = change.bytes.len();
            format!("file {} has {}, {bytes} bytes from {:#x} changed", change.file, size(change.size), change.offset)
        }
        Event::Points(points) => {
            format!("the clock also counts {} further instructions", points.addresses.len())
        }
        Event::Time(time) => format!("the next call was done {:.6} s after 1970 began", time.nanoseconds as f64 / 1e9),
        Event::Note(note) => format!("note: {}", escaped(note.text)),
        Event::End(end) => format!("end: {}", ends::end_words(end.kind)),
        Event::Unknown { kind, bytes } => {
            format!("of a kind that a newer whodunit knows ({kind}), {} bytes", bytes.len())
        }
    }
}

fn describe_stream(change: Stream) -> String {
    let stream = match change.stream {
        1 => "standard output",
        2 => "standard error",
        _ => "neither standard output nor error",
    };
    format!("descriptor {} leads to {stream}", change.descriptor)
}

fn describe_start(start: &Start<'_>) -> String {
    let command = command_of(start);
    format!("starts {command} in {}, pid {}", escaped_bytes(start.directory), start.identity.pid)
}

fn describe_file(file: &File<'_>) -> String {
    let build_id = files::build_id(file);
    let build_id = if build_id.is_empty() { build_id } else { format!(", build id {build_id}") };
    format!("file {} is {}, {}{build_id}", file.id, escaped_bytes(file.path), size(file.size))
}

fn describe_map(map: &Map<'_>) -> String {
    let rights: String = [(1, 'r'), (2, 'w'), (4, 'x')]
        .map(|(bit, letter)| if map.protection & bit != 0 { letter } else { '-' })
        .iter()
        .collect();
    let file = map.file.map(|part| format!(" of file {} from {:#x}", part.id, part.offset)).unwrap_or_default();
    let content = map.content.map(|content| format!(", holds {}", size(content.len() as u64))).unwrap_or_default();
    format!("maps {:#x} to {:#x} {rights}{file}{content}", map.address, map.address.saturating_add(map.length))
}

/// The signal's number is the first field of `siginfo_t`.
fn describe_signal(signal: &Signal<'_>) -> String {
    let [a, b, c, d, ..] = *signal.info;
    let name = report::signals::name(i32::from_le_bytes([a, b, c, d]));
    let place = match signal.place {
        SignalPlace::AtClock => "between instructions".to_owned(),
        SignalPlace::AtInstruction => "raised by the instruction".to_owned(),
        SignalPlace::InsideCall => "inside a system call".to_owned(),
        SignalPlace::AfterCall => "after a system call".to_owned(),
        SignalPlace::Other(code) => format!("place {code}"),
    };
    format!("{name} {place}, pc {:#x}", signal.pc)
}

fn instruction_name(what: InstructionKind) -> String {
    match what {
        InstructionKind::Rdtsc => "rdtsc".to_owned(),
        InstructionKind::Rdtscp => "rdtscp".to_owned(),
        InstructionKind::Cpuid => "cpuid".to_owned(),
        InstructionKind::Rdrand => "rdrand".to_owned(),
        InstructionKind::Rdseed => "rdseed".to_owned(),
        InstructionKind::Xgetbv => "xgetbv".to_owned(),
        InstructionKind::Other(code) => format!("instruction {code}"),
    }
}

fn describe_output(output: &Written<'_>) -> String {
    let extract = &output.bytes[..output.bytes.len().min(4 * LONGEST_EXTRACT)];
    let text = keep_start(&escaped_bytes(extract), LONGEST_EXTRACT);
    format!("writes {} bytes to {}: \"{text}\"", output.bytes.len(), output.descriptor)
}

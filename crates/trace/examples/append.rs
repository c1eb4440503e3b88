//! Prints what writing and reading events costs: `cargo run --release -p trace --example append`.

use std::time::{Duration, Instant};

use trace::event::{Call, Effect, Glimpse, Switch, SwitchReason};
use trace::format::{LogId, TAIL_SIZE};
use trace::{Digest, Event, List, Log, LogParts, Writer};

/// As many as fit into a tail, many times over.
const ROUNDS: u64 = 200;
const EVENTS: u64 = 8_000;

fn main() {
    println!("{:<24} {:>10} {:>12} {:>10} {:>12}", "an event of", "append", "+ its share", "read", "in the log");
    println!("{:<24} {:>10} {:>12} {:>10} {:>12}", "", "", "of a chunk", "", "");
    measure("call, no effects", |writer, i| write(writer, &Event::Call(call(i, &[]))));
    measure("call, 16 bytes written", |writer, i| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(i * 0x1234_5678).to_le_bytes());
        let effects = [Effect { address: 0x7fff_f7a1_0000 + i % 4096, bytes: &bytes }];
        write(writer, &Event::Call(call(i, &effects)));
    });
    measure("switch", |writer, i| {
        let registers = Digest(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (from, to) = (1 + i as u32 % 4, 1 + (i as u32 + 1) % 4);
        let (clock, reason) = (i * 40_000, SwitchReason::QuantumOver);
        let memory = Some(Glimpse { stack: Some(registers), page: None });
        write(writer, &Event::Switch(Switch { from, to, clock, reason, registers, memory }));
    });
}

type Memory = Writer<Vec<u8>, Vec<u8>>;

fn call<'a>(i: u64, effects: &'a [Effect<'a>]) -> Call<'a> {
    let arguments = Some([3, 0x7fff_f7a1_0000 + i % 4096, 4096, 0, 0, 0]);
    Call { thread: 1 + i as u32 % 4, clock: i * 523, number: 0, result: 16, arguments, effects: List::of(effects) }
}

fn write(writer: &mut Memory, event: &Event<'_>) {
    writer.append(event).expect("memory does not fail");
}

fn measure(name: &str, append: impl Fn(&mut Memory, u64)) {
    let id = LogId { recording: 1, log: 1 };
    let mut writer = Writer::create(id, vec![0; TAIL_SIZE], Vec::new()).expect("memory does not fail");
    let (mut appending, mut sealing) = (Duration::ZERO, Duration::ZERO);
    for round in 0..ROUNDS {
        let start = Instant::now();
        (0..EVENTS).for_each(|i| append(&mut writer, round * EVENTS + i));
        appending += start.elapsed();
        let start = Instant::now();
        writer.seal().expect("memory does not fail");
        sealing += start.elapsed();
    }
    let (tail, log) = writer.into_parts();
    let size = log.len() as f64;
    let log = Log::from_parts(LogParts { log: Box::new(log), tail }).expect("just written");
    let start = Instant::now();
    let (count, ending) = log.check();
    let reading = start.elapsed();
    assert_eq!((count, ending), (ROUNDS * EVENTS, trace::Ending::Cut));
    let each = |time: Duration| format!("{:.1} ns", time.as_nanos() as f64 / count as f64);
    let bytes = format!("{:.1} bytes", size / count as f64);
    println!("{name:<24} {:>10} {:>12} {:>10} {bytes:>12}", each(appending), each(appending + sealing), each(reading));
}

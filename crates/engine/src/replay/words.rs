//! Events in words, for a divergence.

use crate::kernel::Arguments;
use trace::event::Event;

pub fn describe_call(number: u64, arguments: Option<Arguments>, result: Option<i64>) -> String {
    let name =
        guest::syscall::lookup(number).map_or_else(|| format!("system call {number}"), |call| call.name.to_owned());
    let words: Vec<String> = arguments.unwrap_or_default().iter().map(|word| format!("{word:#x}")).collect();
    let result = result.map_or(String::new(), |result| format!(" = {result}"));
    format!("{name}({}){result}", words.join(", "))
}

/// An event in words, for a divergence.
pub fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Call(call) => {
            let text = describe_call(u64::from(call.number), call.arguments, Some(call.result));
            format!("thread {} makes {text} at {}", call.thread, call.clock)
        }
        Event::Switch(switch) => {
            format!(
                "a switch from thread {} at {} to thread {} ({:?})",
                switch.from, switch.clock, switch.to, switch.reason
            )
        }
        Event::Signal(signal) => format!(
            "signal {} for thread {} at {}, {:#x} ({:?})",
            signal.info[0], signal.thread, signal.clock, signal.pc, signal.place
        ),
        Event::End(end) => format!("the end, {:?}", end.kind),
        Event::Instruction(instruction) => format!("{:?} by thread {}", instruction.what, instruction.thread),
        other => format!("{other:?}").chars().take(80).collect(),
    }
}

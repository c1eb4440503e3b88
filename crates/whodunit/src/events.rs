//! `run --events`: everything that a program does to memory and to the flow of control, a line each.

use engine::{Access, Batch, Elements, Event, EventKind, Observer, PrivateFile, Value};
use std::fmt::Write as _;
use std::io::Write;

/// Writes events down as lines, in program order.
pub struct Lines {
    file: PrivateFile,
    text: String,
    /// A file that cannot be written to is not tried again.
    is_broken: bool,
}

impl Lines {
    pub fn new(file: PrivateFile) -> Lines {
        Lines { file, text: String::new(), is_broken: false }
    }

    fn write_out(&mut self) {
        self.is_broken |= self.file.write_all(self.text.as_bytes()).is_err();
        self.text.clear();
    }
}

impl Observer for Lines {
    fn batch(&mut self, batch: &Batch<'_>) {
        const PIECE: usize = 1 << 16;
        if self.is_broken {
            return;
        }
        for event in batch.events() {
            line(&mut self.text, &event);
            if self.text.len() >= PIECE {
                self.write_out();
            }
        }
    }

    fn settle(&mut self) {
        self.write_out();
    }

    fn finished(&mut self) {
        self.write_out();
    }
}

fn line(text: &mut String, event: &Event<'_>) {
    let _ = write!(text, "{} {:x} ", event.thread.0, event.pc);
    let _ = match event.kind {
        EventKind::Entry { instructions } => write!(text, "entry {instructions}"),
        EventKind::Access(access) => {
            access_line(text, &access);
            Ok(())
        }
        EventKind::Branch { target, taken } => {
            write!(text, "branch {target:x} {}", if taken { "taken" } else { "passed" })
        }
        EventKind::Marked { mark, words } => write!(text, "mark {mark:?} {words:x?}"),
        EventKind::Call { target, return_address } => write!(text, "call {target:x} from {return_address:x}"),
        EventKind::Return { target } => write!(text, "return {target:x}"),
    };
    text.push('\n');
}

fn access_line(text: &mut String, access: &Access<'_>) {
    let kind = match access.kind {
        engine::AccessKind::Load => "load",
        engine::AccessKind::Store => "store",
        engine::AccessKind::Update => "update",
        engine::AccessKind::Atomic => "atomic",
    };
    let _ = write!(text, "{kind} {:x} {}", access.address, access.size);
    let _ = match access.elements {
        Elements::One => Ok(()),
        Elements::Upward(count) => write!(text, " up {count}"),
        Elements::Downward(count) => write!(text, " down {count}"),
    };
    value(text, " was ", access.before);
    value(text, " is ", access.after);
}

/// Bytes in hexadecimal, lowest address first.
fn value(text: &mut String, name: &str, value: Option<Value<'_>>) {
    if let Some(value) = value {
        text.push_str(name);
        for byte in value.bytes() {
            let _ = write!(text, "{byte:02x}");
        }
    }
}

//! Events as a trace for ui.perfetto.dev, in the JSON form that Chrome's tracing defined: a track a thread, slices for
//! calls and for what threads do to each other, instants for accesses, and arrows from who releases to who acquires.
//!
//! Times are ordinals, an event a microsecond: the same trace comes out every time. Between two events there can be many
//! calls and returns; they are a nanosecond apart in the second half of that microsecond. Locks that are held do not nest,
//! so they have tracks of their own.

mod arrows;

use super::{Form, memory};
use crate::last_write::call_name;
use crate::naming::Naming;
use crate::study::lines::{Line, What};
use arrows::{Arrows, End};
use program::symbols::SourceFrame;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// In nanoseconds.
const EVENT: u64 = 1000;
const HALF: u64 = EVENT / 2;
/// How long the slice of an event is.
const LENGTH: u64 = 400;

pub struct Trace<'a> {
    out: &'a mut dyn Write,
    process: u32,
    has_begun: bool,
    /// Threads that have a track.
    threads: BTreeSet<u32>,
    /// Calls since the last event, and which event comes next.
    calls: (u64, u64),
    /// How many slices of calls are open, by thread.
    open: BTreeMap<u32, u64>,
    /// Locks that are held, by thread and address: their names, and how often.
    held: BTreeMap<(u32, u64), (String, u64)>,
    arrows: Arrows,
    /// In nanoseconds.
    now: u64,
}

impl Trace<'_> {
    pub fn new(out: &mut dyn Write, process: u32) -> Trace<'_> {
        Trace {
            out,
            process,
            has_begun: false,
            threads: BTreeSet::new(),
            calls: (0, 0),
            open: BTreeMap::new(),
            held: BTreeMap::new(),
            arrows: Arrows::default(),
            now: 0,
        }
    }

    /// All that the format wants is added: process, thread and time.
    fn put(&mut self, thread: u32, at: u64, mut event: Value) -> io::Result<()> {
        event["pid"] = self.process.into();
        event["tid"] = thread.into();
        event["ts"] = microseconds(at);
        let start = if self.has_begun { ",\n" } else { "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" };
        self.has_begun = true;
        self.out.write_all(start.as_bytes())?;
        Ok(serde_json::to_writer(&mut *self.out, &event)?)
    }

    fn track(&mut self, thread: u32) -> io::Result<()> {
        if !self.threads.insert(thread) {
            return Ok(());
        }
        let name = format!("thread {thread}");
        self.put(thread, 0, json!({ "ph": "M", "name": "thread_name", "args": { "name": name } }))?;
        self.put(thread, 0, json!({ "ph": "M", "name": "thread_sort_index", "args": { "sort_index": thread } }))
    }

    /// When a line is.
    fn time(&mut self, line: &Line) -> u64 {
        let start = line.ordinal.saturating_mul(EVENT);
        if !matches!(line.what, What::Call { .. } | What::Return { .. }) {
            return start;
        }
        let (count, next) = self.calls;
        let count = if next == line.ordinal { count + 1 } else { 0 };
        self.calls = (count, line.ordinal);
        start.saturating_sub(HALF).saturating_add(count.min(HALF - 1))
    }

    fn call(&mut self, line: &Line, naming: &mut Naming) -> io::Result<()> {
        let open = self.open.entry(line.thread).or_default();
        match line.what {
            What::Call { site, target } => {
                *open += 1;
                let args = json!({ "from": words(&naming.site(site)), "event": line.event });
                let name = function(&naming.site(target));
                self.put(line.thread, self.now, json!({ "ph": "B", "cat": "calls", "name": name, "args": args }))
            }
            _ if *open == 0 => Ok(()),
            _ => {
                *open -= 1;
                self.put(line.thread, self.now, json!({ "ph": "E", "cat": "calls" }))
            }
        }
    }

    /// An event that takes a moment, so that arrows can start and end there.
    fn slice(&mut self, line: &Line, shown: Shown) -> io::Result<()> {
        let Shown { category, name, args } = shown;
        let length = microseconds(LENGTH);
        self.put(
            line.thread,
            self.now,
            json!({ "ph": "X", "cat": category, "name": name, "dur": length, "args": args }),
        )
    }

    fn access(&mut self, line: &Line, shown: Shown) -> io::Result<()> {
        let Shown { category, name, args } = shown;
        self.put(line.thread, self.now, json!({ "ph": "i", "s": "t", "cat": category, "name": name, "args": args }))
    }

    /// A lock is held from the first time that it is taken to the last that it is given up.
    fn hold(&mut self, line: &Line, naming: &mut Naming) -> io::Result<()> {
        match line.what {
            What::Lock { object, .. } => {
                let name = format!("{} held", object_name(line, object, naming));
                let (_, count) = self.held.entry((line.thread, object)).or_insert((name.clone(), 0));
                *count += 1;
                if *count == 1 {
                    return self.held_mark("b", (line.thread, object), &name);
                }
            }
            What::Unlock { object, .. } => {
                let key = (line.thread, object);
                if let Some((name, count)) = self.held.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        let name = std::mem::take(name);
                        self.held.remove(&key);
                        return self.held_mark("e", key, &name);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn held_mark(&mut self, phase: &str, (thread, object): (u32, u64), name: &str) -> io::Result<()> {
        let id = format!("{thread}:{object:#x}");
        self.put(thread, self.now, json!({ "ph": phase, "cat": "locks", "id": id, "name": name }))
    }

    fn draw(&mut self, line: &Line) -> io::Result<()> {
        if let What::Create { child } = line.what {
            // The new thread has done nothing yet: its track is free for where the arrow ends.
            self.track(child)?;
            let length = microseconds(LENGTH / 4);
            let start = json!({ "ph": "X", "cat": "threads", "name": "start", "dur": length, "args": {} });
            self.put(child, self.now + LENGTH / 2, start)?;
        }
        if let Some(arrow) = self.arrows.hear(line, self.now) {
            let id = arrow.number;
            let mark = |phase: &str| json!({ "ph": phase, "cat": "order", "name": arrow.name, "id": id, "bp": "e" });
            let End { thread, at } = arrow.from;
            self.put(thread, at, mark("s"))?;
            let End { thread, at } = arrow.to;
            self.put(thread, at, mark("f"))?;
        }
        Ok(())
    }
}

impl Form for Trace<'_> {
    fn line(&mut self, line: &Line, naming: &mut Naming) -> io::Result<()> {
        self.now = self.time(line);
        if !self.has_begun {
            let name = format!("process {}", self.process);
            self.put(0, 0, json!({ "ph": "M", "name": "process_name", "args": { "name": name } }))?;
        }
        self.track(line.thread)?;
        match line.what {
            What::Call { .. } | What::Return { .. } => return self.call(line, naming),
            What::Access(_) => self.access(line, shown(line, naming))?,
            _ => self.slice(line, shown(line, naming))?,
        }
        self.hold(line, naming)?;
        self.draw(line)
    }

    /// What is still open ends here.
    fn finish(&mut self) -> io::Result<()> {
        self.now = self.now.saturating_add(EVENT);
        for (thread, count) in std::mem::take(&mut self.open) {
            for _ in 0..count {
                self.put(thread, self.now, json!({ "ph": "E", "cat": "calls" }))?;
            }
        }
        for (key, (name, _)) in std::mem::take(&mut self.held) {
            self.held_mark("e", key, &name)?;
        }
        let end = if self.has_begun { "\n]}\n" } else { "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[]}\n" };
        self.out.write_all(end.as_bytes())
    }
}

/// What people see of an event.
struct Shown {
    category: &'static str,
    name: String,
    args: Value,
}

fn shown(line: &Line, naming: &mut Naming) -> Shown {
    let (category, name) = match &line.what {
        What::Access(access) => {
            let named = naming.address(&memory(line, access.address, u64::from(access.size)));
            let what = named.map_or_else(|| format!("{:#x}", access.address), |named| named.text);
            ("accesses", format!("{} {what}", super::json::mode(access.mode)))
        }
        What::Lock { object, .. } => ("sync", format!("lock {}", object_name(line, *object, naming))),
        What::Unlock { object, .. } => ("sync", format!("unlock {}", object_name(line, *object, naming))),
        What::Release { object, .. } => ("sync", format!("release {}", object_name(line, *object, naming))),
        What::Acquire { object, .. } => ("sync", format!("acquire {}", object_name(line, *object, naming))),
        What::Forget { object } => ("sync", format!("forget {}", object_name(line, *object, naming))),
        What::FutexWord { address } => ("sync", format!("futex {}", object_name(line, *address, naming))),
        What::Allocate { size, .. } => ("memory", format!("allocate {size} bytes")),
        What::Free { address, .. } => ("memory", format!("free {address:#x}")),
        What::Map { size, .. } => ("memory", format!("map {size} bytes")),
        What::Create { child } => ("threads", format!("create thread {child}")),
        What::End => ("threads", "end".to_owned()),
        What::Join { other } => ("threads", format!("join thread {other}")),
        What::SystemCall { number, .. } => ("syscalls", call_name(*number)),
        What::Call { .. } | What::Return { .. } => ("calls", String::new()),
    };
    Shown { category, name, args: arguments(line, naming) }
}

fn arguments(line: &Line, naming: &mut Naming) -> Value {
    let mut args = json!({ "event": line.event });
    if let Some(memory) = line.what.memory() {
        args["address"] = format!("{:#x}", memory.start).into();
        args["size"] = (memory.end - memory.start).into();
    }
    match line.what {
        What::Access(ref access) => args["at"] = words(&naming.site(access.pc)).into(),
        What::SystemCall { result, .. } => args["result"] = result.cast_signed().into(),
        _ => {
            if let Some(site) = line.what.code()[0] {
                args["at"] = words(&naming.site(site)).into();
            }
        }
    }
    args
}

fn object_name(line: &Line, address: u64, naming: &mut Naming) -> String {
    naming.object(&memory(line, address, 1)).unwrap_or_else(|| format!("{address:#x}"))
}

fn function(frames: &[SourceFrame]) -> String {
    // The outermost is what was called; others are inlined into its start.
    let frame = frames.last();
    let place = |frame: &SourceFrame| format!("{}+{:#x}", frame.module, frame.module_offset);
    frame.map_or_else(String::new, |frame| frame.function.clone().unwrap_or_else(|| place(frame)))
}

/// `step at loop.c:12`.
fn words(frames: &[SourceFrame]) -> String {
    let Some(frame) = frames.first() else { return String::new() };
    let name = function(std::slice::from_ref(frame));
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            let file = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
            format!("{name} at {file}:{line}")
        }
        _ => name,
    }
}

fn microseconds(nanoseconds: u64) -> Value {
    let (whole, rest) = (nanoseconds / EVENT, nanoseconds % EVENT);
    if rest == 0 { whole.into() } else { (nanoseconds as f64 / EVENT as f64).into() }
}

//! A program that a signal ended.

use program::source::SourceCache;
use program::symbols::{SourceFrame, UNMAPPED};

use crate::look::{Ink, Look, WIDTH};
use crate::stack::{self, Extent};
use crate::text::{Indent, count, keep_start, printable, wrap};
use crate::{excerpt, signals};

pub use crate::threads::{FrameFacts, ThreadFacts};

/// Threads shown besides the one that crashed.
const MAX_OTHER_THREADS: usize = 16;

/// Longer function names are cut in the headline; the stack has them.
const MAX_HEADLINE_NAME: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Execute,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashFacts {
    pub program: String,
    pub pid: i32,
    pub signal: i32,
    /// The kernel's `si_code`.
    pub signal_code: i32,
    pub fault_address: Option<u64>,
    pub access: Option<Access>,
    pub faulting_instruction: Option<String>,
    /// In encoding order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub registers: [u64; 16],
    pub pc: u64,
    pub flags: u64,
    /// The one that crashed first.
    pub threads: Vec<ThreadFacts>,
    /// What lies at the faulting address: "12 bytes past the global `table`", "the null page", "unmapped".
    pub what: Option<String>,
}

/// The report, ending in a line feed.
pub fn render(facts: &CrashFacts, sources: &mut SourceCache, look: &Look) -> String {
    let suspect = facts.threads.first().and_then(|thread| Suspect::of(thread, sources));
    let mut lines: Vec<String> =
        headline(facts, suspect.as_ref(), look).iter().map(|line| look.paint(Ink::Alarm, line)).collect();
    lines.extend(particulars(facts).iter().map(|line| look.paint(Ink::Faint, line)));
    if let Some(suspect) = &suspect {
        add_part(&mut lines, excerpt::lines(suspect.frame, sources, look));
    }
    for (position, thread) in facts.threads.iter().take(1 + MAX_OTHER_THREADS).enumerate() {
        let extent = if position == 0 { Extent::FULL } else { Extent::SHORT };
        let mut part = stack::heading(thread, look);
        part.extend(stack::frames(thread, extent, look));
        add_part(&mut lines, part);
    }
    add_part(&mut lines, threads_left_out(facts));
    add_part(&mut lines, registers(facts, look));
    add_part(&mut lines, vec![look.paint(Ink::Faint, "To run without this report: --no-report")]);
    lines.join("\n") + "\n"
}

/// Parts are set apart by an empty line.
fn add_part(lines: &mut Vec<String>, part: Vec<String>) {
    if !part.is_empty() {
        lines.push(String::new());
        lines.extend(part);
    }
}

/// The function whose source a reader wants to see first: the innermost one with a source that can be read. Failures
/// often surface in a library that was handed something wrong.
struct Suspect<'a> {
    frame: &'a SourceFrame,
    /// How many functions it is away from the innermost one.
    distance: usize,
}

impl<'a> Suspect<'a> {
    /// Headers of the system can be read, but rarely are to blame; they are taken only if there is nothing else.
    fn of(thread: &'a ThreadFacts, sources: &mut SourceCache) -> Option<Suspect<'a>> {
        let functions = thread.functions().enumerate();
        let readable: Vec<_> = functions.filter(|(_, frame)| excerpt::is_readable(frame, sources)).collect();
        let own = readable.iter().find(|(_, frame)| !is_of_the_system(frame));
        let (distance, frame) = *own.or(readable.first())?;
        Some(Suspect { frame, distance })
    }
}

fn is_of_the_system(frame: &SourceFrame) -> bool {
    const FOLDERS: [&str; 3] = ["/usr/include", "/usr/local/include", "/usr/lib"];
    frame.file.as_ref().is_some_and(|file| FOLDERS.iter().any(|folder| file.starts_with(folder)))
}

/// `SIGSEGV: invalid write to 0x10 (the null page) in `list_push` at list.c:41`
fn headline(facts: &CrashFacts, suspect: Option<&Suspect>, look: &Look) -> Vec<String> {
    let innermost = facts.threads.first().and_then(|thread| thread.functions().next());
    let text = format!("{}: {}{}", signals::name(facts.signal), event(facts), scene(facts, innermost, suspect, look));
    wrap(&text, WIDTH, Indent(0, 4))
}

/// What happened.
fn event(facts: &CrashFacts) -> String {
    let code = signals::code(facts.signal, facts.signal_code);
    match (facts.signal, facts.fault_address) {
        (signals::SIGSEGV | signals::SIGBUS, Some(address)) => invalid_access(facts, address),
        (signals::SIGFPE | signals::SIGILL, _) => {
            code.map_or(signals::meaning(facts.signal), |(_, meaning)| meaning).into()
        }
        _ => signals::meaning(facts.signal).into(),
    }
}

fn invalid_access(facts: &CrashFacts, address: u64) -> String {
    let attempt = match facts.access {
        Some(Access::Read) => "read from",
        Some(Access::Write) => "write to",
        Some(Access::Execute) => "jump to",
        None => "access to",
    };
    let what = facts.what.as_ref().map(|what| format!(" ({})", printable(what))).unwrap_or_default();
    format!("invalid {attempt} {address:#x}{what}")
}

/// Where it happened, as the end of the headline.
fn scene(facts: &CrashFacts, innermost: Option<&SourceFrame>, suspect: Option<&Suspect>, look: &Look) -> String {
    let within = innermost.and_then(quoted_name).map(|name| format!(" in {name}"));
    let is_nowhere = innermost.is_some_and(|frame| frame.module == UNMAPPED);
    match (suspect, innermost) {
        (Some(suspect), _) if suspect.distance == 0 => name_and_place("in", suspect.frame, look),
        // How a program aborts itself is of no interest, only that it did.
        (Some(suspect), _) if facts.signal == signals::SIGABRT => name_and_place("by", suspect.frame, look),
        (Some(suspect), _) if is_nowhere => name_and_place("from", suspect.frame, look),
        (Some(suspect), _) => {
            let relation = if suspect.distance == 1 { "called by" } else { "reached from" };
            format!("{},{}", within.unwrap_or_default(), name_and_place(relation, suspect.frame, look))
        }
        (None, Some(frame)) if !is_nowhere => name_and_place("in", frame, look),
        _ => String::new(),
    }
}

/// ` in `list_push` at list.c:41`; without a name just ` at list+0x1139`.
fn name_and_place(relation: &str, frame: &SourceFrame, look: &Look) -> String {
    let name = quoted_name(frame).map(|name| format!(" {relation} {name}")).unwrap_or_default();
    let place = stack::place(&SourceFrame { column: None, ..frame.clone() }, look);
    format!("{name} at {place}")
}

fn quoted_name(frame: &SourceFrame) -> Option<String> {
    let name = frame.function.as_ref()?;
    Some(format!("`{}`", keep_start(&printable(name), MAX_HEADLINE_NAME)))
}

/// The line below the headline, and the instruction.
fn particulars(facts: &CrashFacts) -> Vec<String> {
    const INDENT: Indent = Indent(2, 4);
    let program = format!("{}, process {}", printable(&facts.program), facts.pid);
    let cause = match signals::code(facts.signal, facts.signal_code) {
        Some((name, meaning)) if meaning == event(facts) => format!("; {name}"),
        Some((name, meaning)) => format!("; {name}: {meaning}"),
        None => String::new(),
    };
    let mut lines = wrap(&(program + &cause), WIDTH, INDENT);
    if let Some(instruction) = &facts.faulting_instruction {
        lines.extend(wrap(&format!("{:#x}: {}", facts.pc, printable(instruction)), WIDTH, INDENT));
    }
    lines
}

fn threads_left_out(facts: &CrashFacts) -> Vec<String> {
    match facts.threads.len().saturating_sub(1 + MAX_OTHER_THREADS) {
        0 => Vec::new(),
        left_out => vec![format!("... and {}", count(left_out, "more thread"))],
    }
}

const REGISTER_NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

fn registers(facts: &CrashFacts, look: &Look) -> Vec<String> {
    let mut lines = vec![look.paint(Ink::Strong, "Registers:")];
    let cells: Vec<String> =
        REGISTER_NAMES.iter().zip(facts.registers).map(|(name, value)| format!("{name:<3} {value:016x}")).collect();
    lines.extend(cells.chunks(4).map(|row| format!("  {}", row.join("  "))));
    lines.push(format!("  rip {:016x}  flags {:x}{}", facts.pc, facts.flags, flag_names(facts.flags)));
    lines
}

fn flag_names(flags: u64) -> String {
    const NAMES: [(u32, &str); 9] =
        [(0, "CF"), (2, "PF"), (4, "AF"), (6, "ZF"), (7, "SF"), (8, "TF"), (9, "IF"), (10, "DF"), (11, "OF")];
    let set = NAMES.iter().filter(|(bit, _)| flags >> bit & 1 == 1);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(" ")) }
}

//! Events as JSON Lines. `docs/trace.md` tells what each field means; what does not apply is left out.

use super::Form;
use crate::last_write::{call_name, hexadecimal, plain};
use crate::naming::{Named, Naming};
use crate::study::lines::{Access, Line, Mode, What};
use program::symbols::SourceFrame;
use serde::Serialize;
use std::io::{self, Write};

pub struct Lines<'a> {
    out: &'a mut dyn Write,
}

impl Lines<'_> {
    pub fn new(out: &mut dyn Write) -> Lines<'_> {
        Lines { out }
    }
}

impl Form for Lines<'_> {
    fn line(&mut self, line: &Line, naming: &mut Naming) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, &record(line, naming))?;
        self.out.write_all(b"\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default, Serialize)]
struct Record {
    ordinal: u64,
    event: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inherited: bool,
    thread: u32,
    kind: &'static str,
    #[serde(flatten)]
    details: Details,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<Site>,
}

/// What only some kinds have.
#[derive(Default, Serialize)]
struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<BlockRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    /// The thread that was made or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callee: Option<Site>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    jump: bool,
}

#[derive(Serialize)]
struct BlockRecord {
    address: String,
    size: u64,
    site: Site,
}

/// The innermost function at an instruction, and those that it is inlined into.
#[derive(Serialize)]
struct Site {
    pc: String,
    #[serde(flatten)]
    frame: FrameRecord,
    module: String,
    module_offset: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlined_into: Vec<FrameRecord>,
}

#[derive(Serialize)]
struct FrameRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

fn record(line: &Line, naming: &mut Naming) -> Record {
    let (kind, details) = details(line, naming);
    let site = match line.what {
        // What the kernel does while it loads a program is done by no instruction.
        What::Access(Access { pc, .. }) | What::Call { site: pc, .. } if pc != 0 => Some(site(pc, &naming.site(pc))),
        What::Lock { site: pc, .. }
        | What::Unlock { site: pc, .. }
        | What::Release { site: pc, .. }
        | What::Acquire { site: pc, .. }
        | What::Allocate { site: pc, .. }
        | What::Free { site: pc, .. }
        | What::Return { site: pc, .. }
            if pc != 0 =>
        {
            Some(site(pc, &naming.call_site(pc)))
        }
        _ => None,
    };
    let Line { ordinal, event, inherited, thread, .. } = *line;
    Record { ordinal, event, inherited, thread, kind, details, site }
}

fn details(line: &Line, naming: &mut Naming) -> (&'static str, Details) {
    let none = Details::default;
    match &line.what {
        What::Access(access) => (mode(access.mode), access_details(line, access, naming)),
        What::Lock { object, is_shared, .. } => {
            let mode = Some(if *is_shared { "shared" } else { "exclusive" });
            ("lock", Details { mode, ..at(line, *object, naming) })
        }
        What::Unlock { object, .. } => ("unlock", at(line, *object, naming)),
        What::Release { object, .. } => ("release", at(line, *object, naming)),
        What::Acquire { object, .. } => ("acquire", at(line, *object, naming)),
        What::Forget { object } => ("forget", at(line, *object, naming)),
        What::FutexWord { address } => ("futex", at(line, *address, naming)),
        What::Allocate { address, size, .. } => ("allocate", only_at(*address, Some(*size))),
        What::Free { address, .. } => {
            let size = line.block.map(|block| block.size);
            ("free", Details { block: block(line, naming), ..only_at(*address, size) })
        }
        What::Map { address, size } => ("map", only_at(*address, Some(*size))),
        What::Create { child } => ("create", Details { other: Some(*child), ..none() }),
        What::End => ("end", none()),
        What::Join { other } => ("join", Details { other: Some(*other), ..none() }),
        What::Call { target, .. } => ("call", Details { callee: Some(callee(*target, naming)), ..none() }),
        What::Return { target, is_jump, .. } => {
            ("return", Details { callee: Some(callee(*target, naming)), jump: *is_jump, ..none() })
        }
        What::SystemCall { number, result } => {
            let call = Some(call_name(*number));
            ("syscall", Details { call, number: Some(*number), result: Some(result.cast_signed()), ..none() })
        }
    }
}

pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "read",
        Mode::Write => "write",
        Mode::Update => "update",
        Mode::Atomic => "atomic",
    }
}

fn access_details(line: &Line, access: &Access, naming: &mut Naming) -> Details {
    let size = u64::from(access.size);
    let named = naming.address(&super::memory(line, access.address, size));
    let value = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| value(bytes, named.as_ref(), naming));
    let (before, after) = (value(&access.before), value(&access.after));
    let bytes = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(hexadecimal);
    Details {
        before,
        after,
        before_bytes: bytes(&access.before),
        after_bytes: bytes(&access.after),
        block: block(line, naming),
        variable: named.map(|named| named.text),
        ..only_at(access.address, Some(size))
    }
}

/// By its type, where that is known.
fn value(bytes: &[u8], named: Option<&Named>, naming: &Naming) -> String {
    match named.and_then(|named| named.type_id) {
        Some(type_id) => naming.variables().format_value(type_id, bytes, None),
        None => plain(bytes),
    }
}

fn only_at(address: u64, size: Option<u64>) -> Details {
    Details { address: Some(hex(address)), size, ..Details::default() }
}

/// An object that threads synchronise by.
fn at(line: &Line, address: u64, naming: &mut Naming) -> Details {
    let variable = naming.object(&super::memory(line, address, 1));
    Details { variable, block: block(line, naming), ..only_at(address, None) }
}

fn block(line: &Line, naming: &mut Naming) -> Option<BlockRecord> {
    let block = line.block?;
    let frames = naming.call_site(block.site);
    Some(BlockRecord { address: hex(block.address), size: block.size, site: site(block.site, &frames) })
}

fn callee(target: u64, naming: &mut Naming) -> Site {
    site(target, &naming.site(target))
}

fn site(pc: u64, frames: &[SourceFrame]) -> Site {
    let (module, offset) =
        frames.first().map_or((String::new(), 0), |frame| (frame.module.clone(), frame.module_offset));
    let mut records = frames.iter().map(|frame| FrameRecord {
        function: frame.function.clone(),
        file: frame.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
        line: frame.line,
        column: frame.column,
    });
    let unknown = FrameRecord { function: None, file: None, line: None, column: None };
    let frame = records.next().unwrap_or(unknown);
    Site { pc: hex(pc), frame, module, module_offset: hex(offset), inlined_into: records.collect() }
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

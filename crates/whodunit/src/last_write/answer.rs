//! What a replay has found out, with names: variables, functions, lines, values by their types.

use super::watch::{By, Change, Watch};
use crate::scene::Scene;
use program::evaluate::{EvaluationError, Target};
use program::space::GuestAddress;
use program::symbols::SourceFrame;
use program::unwind::{CodeAddress, CodeAddressKind, Memory};
use program::variables::{Place, Scope, Variables};
use program::whereabouts::{Where, WhereError};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;

/// What is watched where nothing tells a size.
const WORD: u64 = 8;

/// Where something is: an address and a length, or a problem.
pub fn locate(place: &Where, scene: Scene) -> Value {
    match find(&Variables::new(scene.space()), place, scene.memory()) {
        Ok((target, address)) => {
            let length = target.size.filter(|size| *size > 0).unwrap_or(WORD);
            json!({ "address": address.0, "length": length })
        }
        Err(problem) => json!({ "problem": problem }),
    }
}

fn find(variables: &Variables, place: &Where, memory: &dyn Memory) -> Result<(Target, GuestAddress), String> {
    let scope = Scope { memory: Some(memory), ..Scope::default() };
    let sites = variables.resolve(place, &scope).map_err(|error| explain(&error))?;
    let mut problem = "there is nothing of that name".to_owned();
    for site in sites {
        match site.target.map(|target| (target.address(), target)) {
            Ok((Some(address), target)) => return Ok((target, address)),
            Ok((None, target)) => problem = explain_place(&target.text, &target.place.to_string()),
            Err(error) => problem = explain(&WhereError::Evaluation(error)),
        }
    }
    Err(problem)
}

fn explain_place(text: &str, place: &str) -> String {
    format!("`{text}` is not in memory ({place}); only what has an address can be asked for")
}

fn explain(error: &WhereError) -> String {
    let frame = matches!(
        error,
        WhereError::Evaluation(EvaluationError::NeedsFrame { .. } | EvaluationError::ThreadLocal { .. })
    );
    let unreadable = matches!(error, WhereError::Evaluation(EvaluationError::Unreadable { .. }));
    match (frame, unreadable) {
        (true, _) => format!(
            "{error}; globals, static variables and what they point at can be asked for, and addresses (0xADDRESS:LENGTH)"
        ),
        (_, true) => format!("{error} at that moment; --at tells another"),
        _ => error.to_string(),
    }
}

/// Everything that was found out about the watched bytes. `seen` is what they are at the end.
pub fn history(place: &Where, range: &Range<u64>, watch: &Watch, seen: Option<&[u8]>, mut scene: Scene) -> Value {
    let variables = Variables::new(scene.space());
    let target = find(&variables, place, scene.memory()).ok().map(|(target, _)| target).filter(|target| {
        target.address() == Some(GuestAddress(range.start))
            && target.size.is_none_or(|size| size == range.end - range.start)
    });
    let described = variables.describe(GuestAddress(range.start), range.end - range.start);
    let values = Values { variables: &variables, target, start: range.start, length: range.end - range.start };
    let last = watch.changes.back();
    let history: Vec<Value> = watch.changes.iter().map(|change| told(change, &values, &mut scene)).collect();
    json!({
        "address": format!("{:#x}", range.start),
        "length": range.end - range.start,
        "variable": described.as_ref().map(|described| described.path.clone()),
        "offset": described.as_ref().map_or(0, |described| described.offset),
        "type": values.type_name(),
        "value": last.and_then(|change| change.new.as_deref()).map(|bytes| values.text(bytes)),
        "left_out": watch.left_out,
        "complete": watch.now() == seen,
        "history": history,
    })
}

fn told(change: &Change, values: &Values<'_>, scene: &mut Scene) -> Value {
    let (by, call, file) = match &change.by {
        By::Instruction => ("instruction", None, None),
        By::Call(number) => ("system call", Some(call_name(u64::from(*number))), None),
        By::Kernel => ("kernel", None, None),
        By::Mapping(file) => ("mapping", None, file.clone()),
    };
    let is_code = change.by == By::Instruction;
    let kind = if is_code { CodeAddressKind::Exact } else { CodeAddressKind::ReturnAddress };
    let part = values.part(&change.part);
    let value = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| part.text(bytes));
    json!({
        "by": by,
        "call": call,
        "file": file,
        "event": change.moment.event,
        "inherited": change.moment.inherited,
        "thread": change.thread,
        "pc": format!("{:#x}", change.pc),
        "instruction": is_code.then(|| scene.instruction_at(change.pc)).flatten(),
        "offset": change.part.start,
        "size": change.part.len(),
        "part": part.target.as_ref().map(|target| target.text.clone()),
        "old": value(&change.old),
        "new": value(&change.new),
        "old_bytes": change.old.as_deref().map(|bytes| hexadecimal(&bytes[change.part.clone()])),
        "new_bytes": change.new.as_deref().map(|bytes| hexadecimal(&bytes[change.part.clone()])),
        "stack": stack(change, kind, scene),
    })
}

fn stack(change: &Change, kind: CodeAddressKind, scene: &mut Scene) -> Vec<Value> {
    if matches!(change.by, By::Mapping(_) | By::Kernel) {
        return Vec::new();
    }
    let callers = change.callers.iter().map(|&pc| CodeAddress { pc, kind: CodeAddressKind::ReturnAddress });
    let addresses = std::iter::once(CodeAddress { pc: change.pc, kind }).chain(callers);
    addresses
        .flat_map(|address| scene.functions_at(address).into_iter().map(move |frame| told_frame(address, &frame)))
        .collect()
}

fn told_frame(address: CodeAddress, frame: &SourceFrame) -> Value {
    json!({
        "pc": format!("{:#x}", address.pc),
        "function": frame.function,
        "file": frame.file.as_ref().map(|file| file.to_string_lossy()),
        "line": frame.line,
        "column": frame.column,
        "inlined": frame.inlined,
        "module": frame.module,
        "module_offset": format!("{:#x}", frame.module_offset),
    })
}

pub fn call_name(number: u64) -> String {
    let known = guest::syscall::lookup(number);
    known.map_or_else(|| format!("system call {number}"), |call| call.name.to_owned())
}

/// The watched bytes, or a part of them, as something with a type.
struct Values<'a> {
    variables: &'a Variables,
    target: Option<Target>,
    start: u64,
    length: u64,
}

impl<'a> Values<'a> {
    fn type_name(&self) -> Option<String> {
        Some(self.variables.type_of(self.target.as_ref()?.type_id?).name.clone())
    }

    /// All the watched bytes in; the value of this part of them out.
    fn text(&self, bytes: &[u8]) -> String {
        let moment = Bytes { start: self.start, bytes };
        let scope = Scope { memory: Some(&moment), ..Scope::default() };
        let typed = self.target.as_ref().filter(|target| target.type_id.is_some());
        let typed = typed.and_then(|target| self.variables.format_target(target, &scope));
        typed.unwrap_or_else(|| plain(bytes))
    }

    /// The element or field that a write is to; everything if it is not to just one.
    fn part(&self, part: &Range<usize>) -> Values<'a> {
        let inner = self.target.as_ref().filter(|target| target.bits.is_none()).and_then(|target| {
            let inner = self.variables.path_in(target.type_id?, part.start as u64, part.len() as u64);
            let offset = (part.start as u64).checked_sub(inner.offset)?;
            let place = Place::Address(GuestAddress(self.start + offset));
            let whole =
                Target { text: String::new(), place, type_id: Some(inner.type_id), size: Some(inner.size), bits: None };
            let fits = inner.size > 0 && offset + inner.size <= self.length && !inner.text.is_empty();
            fits.then(|| Target { text: format!("{}{}", target.text, inner.text), ..whole })
        });
        Values { target: inner.or_else(|| self.target.clone()), ..*self }
    }
}

/// Without a type: a number if it can be one.
pub fn plain(bytes: &[u8]) -> String {
    let mut word = [0; 8];
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            word[..bytes.len()].copy_from_slice(bytes);
            let number = u64::from_le_bytes(word);
            if number < 10 { number.to_string() } else { format!("{number} ({number:#x})") }
        }
        _ => hexadecimal(bytes),
    }
}

/// As many bytes as somebody looks at.
pub fn hexadecimal(bytes: &[u8]) -> String {
    const MOST: usize = 64;
    let mut text = String::new();
    for byte in bytes.iter().take(MOST) {
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > MOST {
        text.push('…');
    }
    text
}

/// Memory that is nothing but the watched bytes at some moment.
struct Bytes<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Memory for Bytes<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let part = address.checked_sub(self.start).and_then(|offset| {
            let offset = usize::try_from(offset).ok()?;
            self.bytes.get(offset..offset.checked_add(buffer.len())?)
        });
        part.is_some_and(|part| {
            buffer.copy_from_slice(part);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_a_type() {
        assert_eq!(plain(&[7, 0, 0, 0]), "7");
        assert_eq!(plain(&[0xff, 1]), "511 (0x1ff)");
        assert_eq!(plain(&[1, 2, 0xff]), "0102ff");
    }

    #[test]
    fn memory_of_a_moment() {
        let moment = Bytes { start: 10, bytes: &[1, 2, 3] };
        let mut two = [0; 2];
        assert!(moment.read(11, &mut two));
        assert_eq!(two, [2, 3]);
        assert!(!moment.read(12, &mut two));
        assert!(!moment.read(9, &mut two));
    }
}

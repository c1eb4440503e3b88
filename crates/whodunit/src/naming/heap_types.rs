//! What a block of the heap holds, by the statement that allocated it.
//!
//! `struct session *s = malloc(sizeof *s);` tells it three times: by the variable declared on that line, by what is
//! assigned to, and by what `sizeof` measures. A type counts only if it fits into the block.
//!
//! May miss: allocations inside of wrappers such as `xmalloc`, and statements of several lines. May go wrong: two types of
//! one name and size.

use super::Block;
use program::copies::Copies;
use program::expression::Expression;
use program::source::SourceCache;
use program::symbols::SourceFrame;
use program::types::{TypeId, TypeKind};
use program::unwind::{self, CodeAddress, CodeAddressKind, Registers};
use program::variables::{Scope, Variables};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Somewhere on a stack: only types are asked for.
const ANY_FRAME: u64 = 0x7000_0000_0000;

pub struct HeapTypes {
    sources: SourceCache,
    /// By site and size.
    known: BTreeMap<(u64, u64), Option<TypeId>>,
}

/// A part of a block, in words that go before "in a block".
pub struct Part {
    pub text: String,
    /// If it is all of that.
    pub type_id: Option<TypeId>,
}

impl HeapTypes {
    pub fn new(copies: Arc<Copies>) -> HeapTypes {
        HeapTypes { sources: SourceCache::with_copies(copies), known: BTreeMap::new() }
    }

    /// What `size` bytes are, `offset` bytes from the start of a block; `frames` are those of its allocation.
    pub fn part(
        &mut self,
        variables: &Variables,
        block: &Block,
        frames: &[SourceFrame],
        offset: u64,
        size: u64,
    ) -> Option<Part> {
        let type_id = self.type_of(variables, block, frames)?;
        let whole = variables.type_of(type_id);
        let element = whole.size.filter(|element| *element > 0)?;
        let is_row = block.size.is_multiple_of(element);
        if !is_row && offset.saturating_add(size) > element {
            return None;
        }
        let path = match is_row {
            true => variables.path_in_block(type_id, block.size, offset, size),
            false => variables.path_in(type_id, offset, size),
        };
        let is_whole = path.offset == 0 && path.size == size;
        let text = in_words(&path.text, path.offset, &whole.name);
        Some(Part { text, type_id: is_whole.then_some(path.type_id) })
    }

    fn type_of(&mut self, variables: &Variables, block: &Block, frames: &[SourceFrame]) -> Option<TypeId> {
        let key = (block.site, block.size);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let found = self.find(variables, block, frames);
        self.known.insert(key, found);
        found
    }

    fn find(&mut self, variables: &Variables, block: &Block, frames: &[SourceFrame]) -> Option<TypeId> {
        let frame = frames.first()?;
        let (file, line) = (frame.file.as_ref()?, frame.line?);
        let code = CodeAddress { pc: block.site, kind: CodeAddressKind::ReturnAddress };
        let locals = variables.locals(code);
        let declared = locals.iter().filter(|local| {
            local.declared.as_ref().is_some_and(|declared| declared.line == line && declared.file == *file)
        });
        let mut candidates: Vec<TypeId> = declared.filter_map(|local| pointed_at(variables, local.type_id)).collect();
        let text = self.sources.source_line(file, line).unwrap_or_default();
        candidates.extend(assigned(&text).and_then(|target| type_of_target(variables, code, &target)));
        candidates.extend(measured(&text).into_iter().flat_map(|name| variables.types_named(&name)));
        candidates.into_iter().find(|type_id| fits(variables, *type_id, block.size))
    }
}

/// A single byte tells nothing that the offset does not.
fn fits(variables: &Variables, type_id: TypeId, size: u64) -> bool {
    variables.type_of(type_id).size.is_some_and(|element| (2..=size).contains(&element))
}

fn pointed_at(variables: &Variables, type_id: TypeId) -> Option<TypeId> {
    match variables.type_of(type_id).kind {
        TypeKind::Pointer { target, .. } => Some(target),
        _ => None,
    }
}

/// What the pointer points at that an expression names, whatever its value is.
fn type_of_target(variables: &Variables, code: CodeAddress, expression: &Expression) -> Option<TypeId> {
    if let Expression::Name(name) = expression
        && let Some(local) = variables.locals(code).into_iter().find(|local| local.name == *name)
    {
        return pointed_at(variables, local.type_id);
    }
    let registers = Registers::full(code.pc, [0; 16]);
    let scope = Scope {
        code: Some(code),
        registers: Some(&registers),
        memory: Some(&Blank),
        frame_address: Some(ANY_FRAME),
        thread_pointer: None,
    };
    let target = variables.evaluate(expression, &scope).ok()?;
    pointed_at(variables, target.type_id?)
}

/// Memory that is zero everywhere.
struct Blank;

impl unwind::Memory for Blank {
    fn read(&self, _address: u64, buffer: &mut [u8]) -> bool {
        buffer.fill(0);
        true
    }
}

/// What a line assigns to first: `s->next` of `s->next = malloc(8);`, `s` of `struct session *s = malloc(8);`.
fn assigned(line: &str) -> Option<Expression> {
    let bytes = line.as_bytes();
    let is_assignment = |at: &usize| {
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        bytes[*at] == b'=' && bytes.get(at + 1) != Some(&b'=') && !b"=!<>+-*/%&|^".contains(&before)
    };
    let end = (0..bytes.len()).find(is_assignment)?;
    let left = line[..end].trim_end();
    let is_part = |letter: char| letter.is_alphanumeric() || "_.->[]:".contains(letter);
    let start = left.char_indices().rev().take_while(|(_, letter)| is_part(*letter)).last()?.0;
    let expression = Expression::parse(&left[start..]).ok()?;
    // With nothing in front of it, a star is no part of a declaration.
    match left[..start].trim().trim_start_matches(['{', '}', '(', ';']) {
        "*" => Some(Expression::Dereference(Box::new(expression))),
        _ => Some(expression),
    }
}

/// What a line takes the size of: `session` of `malloc(sizeof(struct session))`, `Node` of `new Node(1)`.
fn measured(line: &str) -> Option<String> {
    let behind = |word: &str| Some(line.split_once(word)?.1.trim_start());
    let named = behind("sizeof(").or_else(|| behind("sizeof (")).or_else(|| behind("new "))?;
    let named = ["struct ", "union ", "class "].iter().fold(named, |name, word| name.trim_start_matches(word));
    let length = named.find(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter))?;
    Some(named[..length].to_owned()).filter(|name| !name.is_empty())
}

fn in_words(path: &str, offset: u64, type_name: &str) -> String {
    let start = match path.strip_prefix('.') {
        Some(field) => format!("field {field} of {type_name}"),
        None if path.is_empty() => type_name.to_owned(),
        None => format!("{path} of {type_name}"),
    };
    if offset == 0 { start } else { format!("byte {offset} of {start}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_assigns_to() {
        let target = |line: &str| assigned(line).map(|expression| expression.to_string());
        assert_eq!(target("    struct session *s = malloc(sizeof *s);").as_deref(), Some("s"));
        assert_eq!(target("    list->tail.next = calloc(1, n);").as_deref(), Some("list->tail.next"));
        assert_eq!(target("  if (x == 1) table[3] = malloc(9);").as_deref(), Some("table[3]"));
        assert_eq!(target("    *out = malloc(9);").as_deref(), Some("*out"));
        assert_eq!(target("    return malloc(8);"), None);
        assert_eq!(target("    if (a <= b) use(malloc(8));"), None);
        assert_eq!(target("="), None);
    }

    #[test]
    fn what_a_line_measures() {
        assert_eq!(measured("p = malloc(sizeof(struct session));").as_deref(), Some("session"));
        assert_eq!(measured("p = calloc(4, sizeof (node_t));").as_deref(), Some("node_t"));
        assert_eq!(measured("auto p = new list::Node(4);").as_deref(), Some("list::Node"));
        assert_eq!(measured("p = malloc(sizeof *p);"), None);
        assert_eq!(measured("p = malloc(64);"), None);
    }

    #[test]
    fn parts_in_words() {
        assert_eq!(in_words(".refs", 0, "struct session"), "field refs of struct session");
        assert_eq!(in_words("[3].refs", 0, "struct session"), "[3].refs of struct session");
        assert_eq!(in_words("", 4, "struct session"), "byte 4 of struct session");
    }
}

//! From addresses to the words that a programmer would use: `table[3].next`, field `refs` of a `struct session`.
//!
//! May be ambiguous: of a union's members the first is named whose type fits the access, and in a Rust enum a field is
//! named only if no other variant has one there.

use std::fmt;

use crate::space::GuestAddress;
use crate::types::{Field, Type, TypeId, TypeKind, Variants};
use crate::variables::{GlobalPlace, Local, Place, Scope, SourceLine, Variables};

/// Types nest no deeper.
const MAX_DEPTH: usize = 24;
/// How many members of unions are tried for one address, in all.
const MAX_TRIES: usize = 256;

/// The way from the start of a value to something inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerPath {
    /// What follows the value's name: `[3].next`; empty for the value itself.
    pub text: String,
    /// What the path leads to.
    pub type_id: TypeId,
    /// The size of that; 0 if not known.
    pub size: u64,
    /// Bytes from its start: not 0 if the path could not be followed to the end.
    pub offset: u64,
}

/// What an address is, in terms of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// `table[3].next`.
    pub path: String,
    /// Bytes from the start of what `path` names.
    pub offset: u64,
    /// The size of what `path` names; 0 if not known.
    pub size: u64,
    /// `None` if only a symbol table knows the variable.
    pub type_id: Option<TypeId>,
    /// The function whose local it is; `None` for globals.
    pub function: Option<String>,
    pub declared: Option<SourceLine>,
}

/// The middle of a sentence: "`table[3].next`", "byte 2 of `total`", "`i` of `main`".
impl fmt::Display for Described {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.offset != 0 {
            write!(formatter, "byte {} of ", self.offset)?;
        }
        write!(formatter, "`{}`", self.path)?;
        match &self.function {
            Some(function) => write!(formatter, " of `{function}`"),
            None => Ok(()),
        }
    }
}

impl Variables {
    /// The global that an access of `size` bytes at `address` is to.
    pub fn describe(&self, address: GuestAddress, size: u64) -> Option<Described> {
        let (global, offset) = self.global_at(address)?;
        let inner = global.type_id.map(|type_id| self.path_in(type_id, offset, size));
        Some(described(&global.name, offset, global.size, inner, None, global.declared))
    }

    /// The same for a thread-local variable, given the offset in the thread's block of a module.
    pub fn describe_thread_local(&self, place: &Place, size: u64) -> Option<Described> {
        let Place::ThreadLocal { module, offset } = *place else {
            return None;
        };
        let (global, start) = self.thread_local_at(module, offset)?;
        let inner = global.type_id.map(|type_id| self.path_in(type_id, offset - start, size));
        Some(described(&global.name, offset - start, global.size, inner, None, global.declared))
    }

    /// The thread-local variable of the program itself that an address is in, in the thread with this thread pointer.
    pub fn describe_thread_local_at(&self, address: GuestAddress, thread_pointer: u64, size: u64) -> Option<Described> {
        let program = self.all_modules().find(|module| module.is_program)?;
        let start = program.thread_local_start(thread_pointer)?;
        let offset = address.0.checked_sub(start).filter(|_| address.0 < thread_pointer)?;
        self.describe_thread_local(&Place::ThreadLocal { module: program.module_idx, offset }, size)
    }

    /// The local of the frame that `scope` gives, if `address` is in one of them.
    pub fn describe_local(&self, address: GuestAddress, size: u64, scope: &Scope<'_>) -> Option<Described> {
        let locals = self.locals(scope.code?);
        locals.into_iter().find_map(|local| {
            let Some(Place::Address(start)) = self.place(&local, scope) else {
                return None;
            };
            let offset = address.0.checked_sub(start.0).filter(|offset| *offset < local.size.unwrap_or(0))?;
            let inner = Some(self.path_in(local.type_id, offset, size));
            let whole = local.size.unwrap_or(0);
            Some(described(&local.name, offset, whole, inner, Some(local.function), local.declared))
        })
    }

    /// Local pointers in scope that point exactly at `address`, each with the type of what it points at: how a block
    /// from the heap gets a type.
    pub fn pointers_to(&self, address: GuestAddress, scope: &Scope<'_>) -> Vec<(Local, TypeId)> {
        let locals = scope.code.map(|code| self.locals(code)).unwrap_or_default();
        let points = |local: Local| {
            let TypeKind::Pointer { target, .. } = self.type_of(local.type_id).kind else {
                return None;
            };
            let value = self.place(&local, scope)?.read(8, scope.registers, scope.memory)?;
            (value == address.0.to_le_bytes()).then_some((local, target))
        };
        locals.into_iter().filter_map(points).collect()
    }

    /// The way into a value of a type. `size` is that of the access: what is smaller than it is not entered.
    pub fn path_in(&self, type_id: TypeId, offset: u64, size: u64) -> InnerPath {
        let mut tries = MAX_TRIES;
        self.descend(type_id, offset, size.max(1), MAX_DEPTH, &mut tries)
    }

    /// The way into a block of memory that holds one value of a type, or as many as fit.
    pub fn path_in_block(&self, type_id: TypeId, block_size: u64, offset: u64, size: u64) -> InnerPath {
        let element = self.type_of(type_id).size.filter(|element| *element > 0 && *element <= block_size / 2);
        let Some(element) = element else {
            return self.path_in(type_id, offset, size);
        };
        let mut path = self.path_in(type_id, offset % element, size);
        path.text.insert_str(0, &format!("[{}]", offset / element));
        path
    }

    fn descend(&self, type_id: TypeId, offset: u64, size: u64, depth: usize, tries: &mut usize) -> InnerPath {
        let found = self.type_of(type_id);
        let here = || InnerPath { text: String::new(), type_id, size: found.size.unwrap_or(0), offset };
        if depth == 0 {
            return here();
        }
        let mut enter = |text: String, inner: TypeId, start: u64| {
            let mut path = self.descend(inner, offset - start, size, depth - 1, tries);
            path.text.insert_str(0, &text);
            path
        };
        match &found.kind {
            TypeKind::Array { element, count } => match self.element_at(*element, *count, offset, size) {
                Some((index, start)) => enter(format!("[{index}]"), *element, start),
                None => here(),
            },
            TypeKind::Structure { fields } => match self.only_field(fields, offset, size) {
                Some(field) => match field.bits {
                    Some(bits) => self.bit_field(field, bits.bytes(), offset),
                    None => enter(step(field), field.type_id, field.offset),
                },
                None => here(),
            },
            TypeKind::Union { .. } => self.best_member(&found, offset, size, depth, tries).unwrap_or_else(here),
            TypeKind::Variants(variants) => match self.only_variant(variants, offset, size) {
                Some(field) => enter(step(field), field.type_id, field.offset),
                None => here(),
            },
            _ => here(),
        }
    }

    fn bit_field(&self, field: &Field, bytes: u64, offset: u64) -> InnerPath {
        InnerPath { text: step(field), type_id: field.type_id, size: bytes, offset: offset - field.offset }
    }

    /// Index and start of the element that an access lies in.
    fn element_at(&self, element: TypeId, count: Option<u64>, offset: u64, size: u64) -> Option<(u64, u64)> {
        let element_size = self.type_of(element).size.filter(|size| *size > 0)?;
        let index = offset / element_size;
        let within = offset % element_size;
        let fits = within.saturating_add(size) <= element_size;
        // An array at a structure's end may be written with no bound, or with none worth the name.
        let exists = count.is_none_or(|count| index < count || count <= 1);
        (fits && exists).then_some((index, index * element_size))
    }

    fn covers(&self, field: &Field, offset: u64, size: u64) -> bool {
        let field_size = match field.bits {
            Some(bits) => bits.bytes(),
            // An array without a bound reaches as far as the memory does.
            None => self.type_of(field.type_id).size.unwrap_or(u64::MAX),
        };
        let end = field.offset.saturating_add(field_size);
        field.offset <= offset && offset.saturating_add(size) <= end
    }

    /// Bit fields can share a byte, and then none of them is named.
    fn only_field<'a>(&self, fields: &'a [Field], offset: u64, size: u64) -> Option<&'a Field> {
        let mut covering = fields.iter().filter(|field| self.covers(field, offset, size));
        let first = covering.next()?;
        covering.next().is_none().then_some(first)
    }

    fn best_member(&self, found: &Type, offset: u64, size: u64, depth: usize, tries: &mut usize) -> Option<InnerPath> {
        let mut first = None;
        for field in found.fields().iter().filter(|field| self.covers(field, offset, size)) {
            *tries = tries.checked_sub(1)?;
            let mut path = match field.bits {
                Some(bits) => self.bit_field(field, bits.bytes(), offset),
                None => self.descend(field.type_id, offset - field.offset, size, depth - 1, tries),
            };
            if field.bits.is_none() {
                path.text.insert_str(0, &step(field));
            }
            if path.offset == 0 && path.size == size {
                return Some(path);
            }
            first.get_or_insert(path);
        }
        first
    }

    fn only_variant<'a>(&self, variants: &'a Variants, offset: u64, size: u64) -> Option<&'a Field> {
        let has_field = |field: &&Field| {
            let inner = self.type_of(field.type_id);
            let within = offset.checked_sub(field.offset);
            within.is_some_and(|within| inner.fields().iter().any(|field| self.covers(field, within, size)))
        };
        let mut fields = variants.variants.iter().map(|variant| &variant.field).filter(has_field);
        let first = fields.next()?;
        fields.next().is_none().then_some(first)
    }

    fn thread_local_at(
        &self,
        module_idx: crate::space::ModuleIdx,
        offset: u64,
    ) -> Option<(crate::variables::Global, u64)> {
        let global = self.thread_local_covering(module_idx, offset)?;
        match global.place {
            GlobalPlace::ThreadLocal(start) => Some((global, start)),
            GlobalPlace::Address(_) => None,
        }
    }
}

/// Anonymous parts and base classes are not written.
fn step(field: &Field) -> String {
    match &field.name {
        Some(name) if !field.base => format!(".{name}"),
        _ => String::new(),
    }
}

fn described(
    name: &str,
    offset: u64,
    size: u64,
    inner: Option<InnerPath>,
    function: Option<String>,
    declared: Option<SourceLine>,
) -> Described {
    match inner {
        Some(inner) => Described {
            path: format!("{name}{}", inner.text),
            offset: inner.offset,
            size: inner.size,
            type_id: Some(inner.type_id),
            function,
            declared,
        },
        None => Described { path: name.to_owned(), offset, size, type_id: None, function, declared },
    }
}

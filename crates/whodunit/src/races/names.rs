//! What `races` has to know of code and memory by name.

use crate::naming::{Memory, Naming};
use analysis::races::Race;
use program::space::{AddressSpace, GuestAddress};
use program::types::{TypeId, TypeKind};
use program::variables::Variables;
use report::findings;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use trace::finding::Place;

/// Functions with one of these in their names are atomic operations of C++ and Rust.
const ATOMIC_OPERATIONS: [&str; 6] =
    ["std::atomic", "std::__atomic", "core::sync::atomic::", "std::sync::atomic::", "atomic_load", "atomic_store"];

/// A function that only programs written in Go have.
const GO: &str = "runtime.schedule";
/// The packages of Go that synchronise, and hand goroutines from thread to thread.
const GO_SYNCHRONISERS: [&str; 4] = ["runtime.", "runtime/", "internal/runtime/", "sync."];
/// Functions among them that copy and clear the program's own memory.
const GO_COPIES: &str = "runtime.mem";

pub struct Names {
    space: AddressSpace,
    naming: RefCell<Naming>,
}

impl Names {
    pub fn new(space: AddressSpace, naming: Naming) -> Names {
        Names { space, naming: RefCell::new(naming) }
    }

    /// Where the modules are whose names begin like this.
    pub fn code_of(&self, beginning: &str) -> Vec<Range<u64>> {
        let meant = self.space.modules().filter(|(_, module)| module.name().starts_with(beginning));
        meant.map(|(_, module)| module.start..module.end).collect()
    }

    /// The code of Go's own runtime, in a program that has one. It synchronises by plain accesses too.
    pub fn go_runtime(&self) -> Vec<Range<u64>> {
        if self.space.functions_meaning(|name| (name == GO).then_some(())).is_empty() {
            return Vec::new();
        }
        let code = self.space.code_named(|name| {
            GO_SYNCHRONISERS.iter().any(|beginning| name.starts_with(beginning)) && !name.starts_with(GO_COPIES)
        });
        code.into_iter().map(|range| range.start.0..range.end.0).collect()
    }

    /// The name of the module that an address lies in, code or data.
    pub fn module(&self, address: u64) -> Option<String> {
        self.space.locate(GuestAddress(address)).map(|(index, _)| self.space.module(index).name())
    }

    /// Whether an address lies in any module, code or data.
    pub fn is_in_module(&self, address: u64) -> bool {
        self.space.locate(GuestAddress(address)).is_some()
    }

    /// Whether an address lies in the C library, code or data.
    pub fn is_in_c_library(&self, address: u64) -> bool {
        let module = self.space.locate(GuestAddress(address)).map(|(index, _)| self.space.module(index));
        module.is_some_and(|module| module.name().starts_with("libc.so"))
    }

    /// Instructions of the races that are atomic operations, or access atomic variables.
    pub fn atomic_sites(&self, races: &[Race]) -> BTreeSet<u64> {
        let instances = races.iter().flat_map(|race| &race.instances);
        let sides =
            instances.flat_map(|instance| [(&instance.first, instance.address), (&instance.second, instance.address)]);
        sides.filter(|(side, address)| self.is_atomic(side.pc, *address)).map(|(side, _)| side.pc).collect()
    }

    /// Whether an access is an atomic operation, or to an atomic variable.
    pub fn is_atomic(&self, pc: u64, address: u64) -> bool {
        self.is_atomic_operation(pc) || self.is_atomic_variable(address)
    }

    fn is_atomic_operation(&self, pc: u64) -> bool {
        // Those of the C library are macros, and its debug information takes long to read.
        if self.is_in_c_library(pc) {
            return false;
        }
        let frames = self.naming.borrow_mut().site(pc);
        // Inlined functions, and the one that they are inlined into.
        let own = frames.iter().position(|frame| !frame.inlined).map_or(frames.len(), |last| last + 1);
        let mut names = frames[..own].iter().filter_map(|frame| frame.function.as_deref());
        names.any(|name| ATOMIC_OPERATIONS.iter().any(|part| name.contains(part)))
    }

    /// C's `_Atomic int`, `atomic_int` and the like, whose operations leave no function behind.
    fn is_atomic_variable(&self, address: u64) -> bool {
        let naming = self.naming.borrow();
        let variables = naming.variables();
        let described = variables.describe(GuestAddress(address), 1);
        let type_id = described.and_then(|described| described.type_id);
        type_id.is_some_and(|type_id| variables.type_of(type_id).name.contains("tomic"))
    }

    /// The innermost function first.
    pub fn place(&self, pc: u64) -> Vec<Place> {
        let frames = self.naming.borrow_mut().site(pc);
        frames.iter().map(|frame| findings::place(pc, frame)).collect()
    }

    /// A stack from its innermost instruction and the return addresses behind it.
    pub fn stack(&self, pc: u64, callers: &[u64]) -> Vec<Place> {
        let mut stack = self.place(pc);
        stack.extend(self.callers(callers));
        stack
    }

    /// The stack of a call, from return addresses alone.
    pub fn callers(&self, callers: &[u64]) -> Vec<Place> {
        let frames = |&caller: &u64| {
            let frames = self.naming.borrow_mut().call_site(caller);
            frames.iter().map(|frame| findings::place(caller, frame)).collect::<Vec<_>>()
        };
        callers.iter().flat_map(frames).collect()
    }

    /// What memory is called, and the name of its type.
    pub fn memory(&self, memory: &Memory<'_>) -> Option<(String, Option<String>)> {
        let named = self.naming.borrow_mut().address(memory)?;
        let naming = self.naming.borrow();
        let type_name = named.type_id.map(|type_id| naming.variables().type_of(type_id).name.clone());
        Some((named.text, type_name))
    }

    /// What memory is called, without the names that libraries give to the inside of their objects.
    pub fn object(&self, memory: &Memory<'_>) -> Option<String> {
        self.naming.borrow_mut().object(memory)
    }

    /// What a lock is called.
    pub fn lock(&self, address: u64) -> Option<String> {
        self.object(&Memory { address, size: 1, ..Memory::default() })
    }

    /// The array that an address lies in, within a global variable: what it is called, and where it is.
    pub fn array_at(&self, address: u64) -> Option<(String, Range<u64>)> {
        let range = {
            let naming = self.naming.borrow();
            let (global, offset) = naming.variables().global_at(GuestAddress(address))?;
            array_within(naming.variables(), global.type_id?, address.checked_sub(offset)?, address)?
        };
        let name = self.memory(&Memory { address: range.start, size: 1, ..Memory::default() })?.0;
        Some((name.strip_suffix("[0]").unwrap_or(&name).to_owned(), range))
    }

    /// Whether the memory is a variable that people can ask for by this name.
    pub fn is_global(&self, address: u64) -> bool {
        self.naming.borrow().variables().global_at(GuestAddress(address)).is_some()
    }
}

/// The innermost array around an address, in a value of a type that starts at `start`.
fn array_within(variables: &Variables, type_id: TypeId, start: u64, address: u64) -> Option<Range<u64>> {
    let behind = address.checked_sub(start)?;
    match &variables.type_of(type_id).kind {
        TypeKind::Array { element, count } => {
            let size = variables.type_of(*element).size.filter(|size| *size > 0)?;
            let range = start..start.checked_add(size.checked_mul((*count)?)?)?;
            let inner = array_within(variables, *element, start + behind / size * size, address);
            inner.or_else(|| Some(range).filter(|range| range.contains(&address)))
        }
        TypeKind::Structure { fields } => {
            let field = fields.iter().filter(|field| field.offset <= behind).max_by_key(|field| field.offset)?;
            array_within(variables, field.type_id, start + field.offset, address)
        }
        _ => None,
    }
}

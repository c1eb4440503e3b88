//! Names for the instructions and addresses of races.

use analysis::races::Race;
use program::space::{AddressSpace, GuestAddress};
use program::symbols::{SourceFrame, Symbolizer};
use program::unwind::{CodeAddress, CodeAddressKind};
use program::variables::Variables;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use trace::finding::{Address, Place};

/// Functions with one of these in their names are atomic operations of C++ and Rust.
const ATOMIC_OPERATIONS: [&str; 6] =
    ["std::atomic", "std::__atomic", "core::sync::atomic::", "std::sync::atomic::", "atomic_load", "atomic_store"];

pub struct Names {
    space: AddressSpace,
    symbolizer: RefCell<Symbolizer>,
    variables: Variables,
}

impl Names {
    pub fn new(space: &AddressSpace) -> Names {
        let symbolizer = RefCell::new(Symbolizer::new(space));
        Names { space: space.clone(), symbolizer, variables: Variables::new(space) }
    }

    /// Where the modules are whose names begin like this.
    pub fn code_of(&self, beginning: &str) -> Vec<Range<u64>> {
        let meant = self.space.modules().filter(|(_, module)| module.name().starts_with(beginning));
        meant.map(|(_, module)| module.start..module.end).collect()
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
        sides
            .filter(|(side, address)| self.is_atomic_operation(side.pc) || self.is_atomic_variable(*address))
            .map(|(side, _)| side.pc)
            .collect()
    }

    fn is_atomic_operation(&self, pc: u64) -> bool {
        let frames = self.frames(pc, CodeAddressKind::Exact);
        // Inlined functions, and the one that they are inlined into.
        let own = frames.iter().position(|frame| !frame.inlined).map_or(frames.len(), |last| last + 1);
        let names = frames[..own].iter().filter_map(|frame| frame.function.as_deref());
        names.into_iter().any(|name| ATOMIC_OPERATIONS.iter().any(|part| name.contains(part)))
    }

    /// C's `_Atomic`, which leaves no function behind.
    fn is_atomic_variable(&self, address: u64) -> bool {
        let described = self.variables.describe(GuestAddress(address), 1);
        let type_id = described.and_then(|described| described.type_id);
        type_id.is_some_and(|type_id| self.variables.type_of(type_id).name.contains("_Atomic"))
    }

    /// The innermost function first.
    pub fn place(&self, pc: u64) -> Vec<Place> {
        self.frames(pc, CodeAddressKind::Exact).iter().map(|frame| place(frame, pc)).collect()
    }

    /// A stack from its innermost instruction and the return addresses behind it.
    pub fn stack(&self, pc: u64, callers: &[u64]) -> Vec<Place> {
        let mut stack = self.place(pc);
        for &caller in callers {
            let frames = self.frames(caller, CodeAddressKind::ReturnAddress);
            stack.extend(frames.iter().map(|frame| place(frame, caller)));
        }
        stack
    }

    /// The stack of a call, from return addresses alone.
    pub fn callers(&self, callers: &[u64]) -> Vec<Place> {
        match callers.split_first() {
            Some((&innermost, rest)) => {
                let frames = self.frames(innermost, CodeAddressKind::ReturnAddress);
                let first = frames.iter().map(|frame| place(frame, innermost));
                first.chain(rest.iter().flat_map(|&caller| self.callers(&[caller]))).collect()
            }
            None => Vec::new(),
        }
    }

    /// The global variable that an access is to: its name and its type's.
    pub fn variable(&self, address: u64, size: u64) -> Option<(String, Option<String>)> {
        let described = self.variables.describe(GuestAddress(address), size)?;
        let type_name = described.type_id.map(|type_id| self.variables.type_of(type_id).name.clone());
        Some((described.path, type_name))
    }

    fn frames(&self, pc: u64, kind: CodeAddressKind) -> Vec<SourceFrame> {
        self.symbolizer.borrow_mut().resolve(CodeAddress { pc, kind })
    }
}

fn place(frame: &SourceFrame, pc: u64) -> Place {
    Place {
        function: frame.function.clone(),
        file: frame.file.clone(),
        line: frame.line,
        column: frame.column,
        inlined: frame.inlined,
        module: Some(frame.module.clone()),
        module_offset: Some(Address(frame.module_offset)),
        pc: Some(Address(pc)),
    }
}

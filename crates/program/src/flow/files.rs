//! Control flow of the functions in a program's files.

use super::{Code, Graph};
use crate::linkage::Stubs;
use crate::space::{AddressSpace, FileVma, GuestAddress, Module, ModuleIdx};
use crate::symbol_table::SymbolTable;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Functions that never return, as they are called in C, C++ and Rust.
const NEVER_RETURN: [&str; 16] = [
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "__assert_fail",
    "__assert_perror_fail",
    "__stack_chk_fail",
    "__chk_fail",
    "pthread_exit",
    "longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "__cxa_throw",
    "__cxa_rethrow",
    "_Unwind_Resume",
];
/// The same, by how the names begin; Rust's panics, which are mangled.
const NEVER_RETURN_PREFIXES: [&str; 3] = ["_ZN4core9panicking", "_ZN3std9panicking", "_ZSt"];
/// What of the C++ library's functions with such a beginning does not return: `std::__throw_…`, `std::terminate`.
const THROWING: [&str; 2] = ["__throw_", "terminatev"];

/// What one module knows.
struct ModuleCode {
    functions: SymbolTable,
    stubs: Stubs,
    /// The file's segments: where each starts, and its bytes.
    segments: Vec<(u64, Vec<u8>)>,
}

impl ModuleCode {
    fn load(module: &Module) -> Option<ModuleCode> {
        let image = module.image()?;
        let images: Vec<_> = [Some(image), module.debug_image()].into_iter().flatten().map(|image| &**image).collect();
        let bytes = |address: u64| Some((address, image.tail_of_segment(address)?.bytes.bytes().to_vec()));
        Some(ModuleCode {
            functions: SymbolTable::functions(&images),
            stubs: Stubs::load(Some(image)),
            segments: image.segments().iter().filter_map(|segment| bytes(segment.address)).collect(),
        })
    }

    /// The start and the name of the function that an address is in.
    fn function(&self, address: FileVma) -> Option<(FileVma, &str)> {
        let near = self.functions.covering(address)?;
        Some((FileVma(address.0.checked_sub(near.offset)?), near.name))
    }

    fn returns(&self, callee: FileVma) -> bool {
        let stub = self.stubs.name_at(callee);
        let name = match self.functions.covering(callee) {
            Some(near) if near.offset == 0 => Some(near.name),
            _ => stub.as_deref().and_then(|name| name.strip_suffix("@plt")),
        };
        !name.is_some_and(never_returns)
    }
}

fn never_returns(name: &str) -> bool {
    NEVER_RETURN.contains(&name)
        || NEVER_RETURN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && (!name.starts_with("_ZSt") || THROWING.iter().any(|part| name.contains(part)))
}

/// Compilers put what runs rarely into a function of its own: `work.cold` is part of `work`.
fn whole_name(name: &str) -> &str {
    name.split_once(".cold").map_or(name, |(whole, _)| whole)
}

/// One function of a module.
struct Function<'a> {
    module: &'a Module,
    code: &'a ModuleCode,
    name: &'a str,
}

impl Code for Function<'_> {
    fn read(&self, address: GuestAddress, into: &mut [u8]) -> usize {
        let address = self.module.file_vma(address).0;
        let inside = |(start, bytes): &&(u64, Vec<u8>)| {
            address.checked_sub(*start).is_some_and(|offset| offset < bytes.len() as u64)
        };
        let Some((start, bytes)) = self.code.segments.iter().find(inside) else { return 0 };
        let rest = &bytes[(address - start) as usize..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        length
    }

    fn returns(&self, callee: GuestAddress) -> bool {
        self.code.returns(self.module.file_vma(callee))
    }

    fn is_inside(&self, target: GuestAddress) -> bool {
        let function = self.code.function(self.module.file_vma(target));
        function.is_some_and(|(_, name)| whole_name(name) == whole_name(self.name))
    }
}

/// Answers for one address space; keeps what it has read.
pub struct Flows {
    space: AddressSpace,
    modules: BTreeMap<ModuleIdx, Option<ModuleCode>>,
    /// By the functions' starts.
    graphs: BTreeMap<GuestAddress, Option<Arc<Graph>>>,
}

impl Flows {
    pub fn new(space: &AddressSpace) -> Flows {
        Flows { space: space.clone(), modules: BTreeMap::new(), graphs: BTreeMap::new() }
    }

    /// Of the function that an instruction is in; nothing without a symbol for it.
    pub fn around(&mut self, pc: GuestAddress) -> Option<Arc<Graph>> {
        let (module_idx, address) = self.space.locate(pc)?;
        let module = self.space.module(module_idx);
        let code = self.modules.entry(module_idx).or_insert_with(|| ModuleCode::load(module)).as_ref()?;
        let (start, name) = code.function(address)?;
        let start = module.guest_address(start);
        let graph = self.graphs.entry(start).or_insert_with(|| {
            // A part that was put elsewhere belongs to the function that jumps there.
            let whole = (whole_name(name) != name).then(|| code.functions.named(whole_name(name))).flatten();
            let entry = whole.map_or(start, |whole| module.guest_address(whole));
            Graph::of(entry, &Function { module, code, name }).map(Arc::new)
        });
        graph.clone().filter(|graph| graph.block_of(pc).is_some())
    }

    /// Where the functions of a module start, in ascending order.
    pub fn functions_of(&mut self, module_idx: ModuleIdx) -> Vec<GuestAddress> {
        let module = self.space.module(module_idx);
        let code = self.modules.entry(module_idx).or_insert_with(|| ModuleCode::load(module));
        let starts =
            code.as_ref().map(|code| code.functions.starts().map(|start| module.guest_address(start)).collect());
        starts.unwrap_or_default()
    }
}

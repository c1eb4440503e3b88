//! What is known of an instruction without running it: its statement, its function, its module.

use crate::rerun::structures::StructuresOf;
use iced_x86::Register;
use program::movable::NamedLocal;
use program::space::{AddressSpace, GuestAddress};
use program::symbols::{DataSymbol, SourceFrame, Symbolizer};
use program::unwind::{CodeAddress, CodeAddressKind};
use program::variables::Variables;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub struct Sites {
    space: AddressSpace,
    structures: StructuresOf,
    symbolizer: RefCell<Symbolizer>,
    known: RefCell<BTreeMap<u64, Rc<Vec<SourceFrame>>>>,
    variables: Variables,
    /// What instructions name in their frames.
    locals: RefCell<BTreeMap<u64, Option<NamedLocal>>>,
}

/// Where memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    Global,
    Heap,
    Stack,
    Nowhere,
}

/// Stacks, the heap and other memory without a file, as the engine places them.
const BREAK: std::ops::Range<u64> = 0x5510_0000_0000..0x5550_0000_0000;
const MAPPINGS: std::ops::Range<u64> = 0x7e80_0000_0000..0x7ea0_0000_0000;
const MAIN_STACK: std::ops::Range<u64> = 0x7eaf_f000_0000..0x7eb0_0000_0000;

/// Functions of the C library's allocator, without what their names begin with.
const ALLOCATOR: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "int_malloc",
    "int_realloc",
    "int_memalign",
    "mid_memalign",
    "sysmalloc",
    "tcache_get",
];
/// Libraries that C++ programs throw and catch with.
const CPP_RUNTIME: [&str; 2] = ["libstdc++", "libgcc_s"];
/// Where sources lie that are compiled into programs without being theirs.
const FOREIGN_SOURCES: [&str; 3] = ["/rustc/", "/usr/include/", "/usr/lib/"];
const REGISTRY: &str = "/.cargo/registry/";
/// What the C library puts before the names of its functions.
const PREFIXES: [&str; 4] = ["__GI_", "__libc_", "__", "_"];

/// Whether a module is the C library or its loader.
pub fn is_library(module: &str) -> bool {
    ["libc.so", "ld-linux", "libm.so"].iter().any(|name| module.starts_with(name))
}

/// Whether a source file belongs to a library, though its code was compiled into the program.
pub fn is_foreign_source(file: &str) -> bool {
    FOREIGN_SOURCES.iter().any(|folder| file.starts_with(folder)) || file.contains(REGISTRY)
}

impl Sites {
    pub fn new(space: &AddressSpace) -> Sites {
        let symbolizer = RefCell::new(Symbolizer::new(space));
        Sites {
            space: space.clone(),
            structures: StructuresOf::new(space),
            symbolizer,
            known: RefCell::default(),
            variables: Variables::new(space),
            locals: RefCell::default(),
        }
    }

    pub fn frames(&self, pc: u64) -> Rc<Vec<SourceFrame>> {
        let mut known = self.known.borrow_mut();
        let resolve = || {
            let address = CodeAddress { pc, kind: CodeAddressKind::Exact };
            Rc::new(self.symbolizer.borrow_mut().resolve(address))
        };
        Rc::clone(known.entry(pc).or_insert_with(resolve))
    }

    /// Where the function that was called last before an address went on as another one, if that is known.
    pub fn tail_jump(&self, return_address: u64) -> Option<u64> {
        self.structures.tail_jump(return_address)
    }

    /// The function that an instruction is in, if that is known.
    pub fn function_around(&self, pc: u64) -> Option<std::ops::Range<u64>> {
        self.structures.function_around(pc)
    }

    /// Whether the loops that an instruction is in go by what they read alone; none if it is in no loop.
    pub fn loops_are_unbounded(&self, pc: u64) -> Option<bool> {
        self.structures.loops_are_unbounded(pc)
    }

    /// Whether the call that returns to an address asks for what is the same every time.
    pub fn asks_for_constant(&self, return_address: u64) -> bool {
        self.structures.asks_for_constant(return_address)
    }

    /// Behind the instructions that gave the first two arguments to the call that returns to an address, as far as they are
    /// known.
    pub fn arguments(&self, return_address: u64) -> Vec<u64> {
        let set = |register| self.structures.set_before_call(return_address, register);
        [Register::RDI, Register::RSI].into_iter().filter_map(set).collect()
    }

    /// Where the instruction behind another one is, if that is known.
    pub fn behind(&self, pc: u64) -> Option<u64> {
        self.structures.behind(pc)
    }

    /// Whether an instruction makes the pointer to the stack, or one to a frame.
    pub fn makes_stack_pointer(&self, pc: u64) -> bool {
        self.structures.makes_stack_pointer(pc)
    }

    /// Whether two instructions belong to the same statement, or to the same function of a library without lines.
    pub fn same_statement(&self, one: u64, other: u64) -> bool {
        let is_library = self.is_in_c_library(one);
        let (one, other) = (self.frames(one), self.frames(other));
        let (Some(one), Some(other)) = (one.first(), other.first()) else { return false };
        match (one.line, other.line) {
            (Some(_), Some(_)) if !is_library => (&one.file, one.line) == (&other.file, other.line),
            _ => one.function.is_some() && one.function == other.function,
        }
    }

    /// Whether an instruction is the C library's.
    pub fn is_in_c_library(&self, pc: u64) -> bool {
        self.module(pc).is_some_and(|module| is_library(&module))
    }

    /// Whether an instruction is part of the C library's allocator, as far as its functions have names.
    pub fn is_in_allocator(&self, pc: u64) -> bool {
        let frames = self.frames(pc);
        let name = frames.last().and_then(|frame| frame.function.as_deref()).unwrap_or("");
        let plain = PREFIXES.iter().fold(name, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
        ALLOCATOR.contains(&plain) && self.is_in_c_library(pc)
    }

    /// Whether an instruction belongs to what C++ programs throw and catch with.
    pub fn is_in_cpp_runtime(&self, pc: u64) -> bool {
        self.module(pc).is_some_and(|module| CPP_RUNTIME.iter().any(|name| module.starts_with(name)))
    }

    /// Whether an instruction is the loader's, which writes wherever programs want something relocated.
    pub fn is_in_loader(&self, pc: u64) -> bool {
        self.module(pc).is_some_and(|module| module.starts_with("ld-linux"))
    }

    fn module(&self, pc: u64) -> Option<String> {
        let (index, _) = self.space.locate(GuestAddress(pc))?;
        Some(self.space.module(index).name().to_string())
    }

    /// Whether an address can be a good pointer.
    pub fn is_mapped(&self, address: u64) -> bool {
        self.area(address) != Area::Nowhere
    }

    /// The variable of a frame that an instruction of the program's own names.
    pub fn named_local(&self, pc: u64) -> Option<NamedLocal> {
        let known = self.locals.borrow().get(&pc).cloned();
        let name = || match self.is_in_c_library(pc) {
            true => None,
            false => program::movable::named_local(&self.variables, GuestAddress(pc)),
        };
        let named = known.unwrap_or_else(name);
        self.locals.borrow_mut().insert(pc, named.clone());
        named
    }

    /// Whether what an instruction stores may go anywhere: it does not save a register, and names no variable of its frame
    /// as such.
    pub fn stores_through_pointer(&self, pc: u64) -> bool {
        let is_plain = self.named_local(pc).is_some_and(|named| !named.is_indexed);
        !is_plain && !self.makes_stack_pointer(pc)
    }

    /// The global variable that an address is in, or the last one before it.
    pub fn symbol(&self, address: u64) -> Option<DataSymbol> {
        self.symbolizer.borrow_mut().data_symbol(GuestAddress(address))
    }

    pub fn area(&self, address: u64) -> Area {
        if self.space.locate(GuestAddress(address)).is_some() {
            return Area::Global;
        }
        match address {
            _ if BREAK.contains(&address) || MAPPINGS.contains(&address) => Area::Heap,
            _ if MAIN_STACK.contains(&address) => Area::Stack,
            _ if self.space.mapping_at(GuestAddress(address)).is_some() => Area::Heap,
            _ => Area::Nowhere,
        }
    }
}

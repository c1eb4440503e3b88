//! From code addresses to functions and source lines, and from data addresses to variables.
//!
//! Debug information is asked first, then the symbol tables, and the module with an offset is always there. A function
//! name from a symbol table is given only where the symbol covers the address: a stripped library exports a few of its
//! functions, and the nearest exported one is usually not the one that runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::line_tables::{LineTables, SourcePlace};
use crate::linkage::Stubs;
use crate::space::{AddressSpace, FileVma, GuestAddress, Module, ModuleIdx};
use crate::symbol_table::SymbolTable;
use crate::unwind::{CodeAddress, CodeAddressKind};

/// The module name of an address that is not mapped at all.
pub const UNMAPPED: &str = "[unmapped]";
/// The module name of an address in memory without a file or a name.
pub const ANONYMOUS: &str = "[anonymous]";

/// The function name of the frame between a signal handler and the code that the signal interrupted.
pub const SIGNAL_RETURN: &str = "<signal handler called>";

/// Further behind a variable, an address has nothing to do with it.
const MAX_DISTANCE: u64 = 4096;

/// One function, with the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Demangled.
    pub function: Option<String>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// Whether the compiler placed this function's code inside the next frame's function.
    pub inlined: bool,
    /// The file's name without its folder; in brackets if the address lies in no file.
    pub module: String,
    /// The address as the module's file states it, as other tools take it; without a module, the offset in the mapping.
    pub module_offset: u64,
}

/// A variable, and where an address lies in relation to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSymbol {
    pub name: String,
    /// Bytes from the variable's start; at `size` or more the address lies behind it.
    pub offset: u64,
    pub size: u64,
    pub module: String,
}

/// The middle of a sentence: "12 bytes past the global `table`".
impl fmt::Display for DataSymbol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (distance, relation) = match self.offset {
            0 => return write!(formatter, "at the global `{}`", self.name),
            offset if offset < self.size => (offset, "into"),
            offset => (offset - self.size, "past"),
        };
        let unit = if distance == 1 { "byte" } else { "bytes" };
        match distance {
            0 => write!(formatter, "just past the global `{}`", self.name),
            _ => write!(formatter, "{distance} {unit} {relation} the global `{}`", self.name),
        }
    }
}

/// What one module knows, read on first use.
struct ModuleSymbols {
    line_tables: Option<LineTables>,
    functions: SymbolTable,
    objects: SymbolTable,
    stubs: Stubs,
}

impl ModuleSymbols {
    fn load(module: &Module) -> ModuleSymbols {
        // A separate debug file has the full table where the module has only exports.
        let images: Vec<_> =
            [module.image(), module.debug_image()].into_iter().flatten().map(|image| &**image).collect();
        ModuleSymbols {
            line_tables: LineTables::load(module),
            functions: SymbolTable::functions(&images),
            objects: SymbolTable::objects(&images),
            stubs: Stubs::load(module.image()),
        }
    }

    fn function(&self, address: FileVma) -> Option<String> {
        let covering = self.functions.covering(address).map(|near| demangle(near.name));
        covering.or_else(|| self.stubs.name_at(address).map(|name| demangle(&name)))
    }

    /// Never empty. A function without debug information still has a name in the symbol table.
    fn places(&self, address: FileVma) -> Vec<SourcePlace> {
        let mut places = self.line_tables.as_ref().map(|tables| tables.places(address)).unwrap_or_default();
        if places.is_empty() {
            places.push(SourcePlace { function: None, file: None, line: None, column: None });
        }
        if let Some(outermost) = places.last_mut().filter(|place| place.function.is_none()) {
            outermost.function = self.function(address);
        }
        places
    }
}

fn demangle(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

/// Answers for one address space; keeps what it has read.
pub struct Symbolizer {
    space: AddressSpace,
    modules: BTreeMap<ModuleIdx, ModuleSymbols>,
}

impl Symbolizer {
    pub fn new(space: &AddressSpace) -> Symbolizer {
        Symbolizer { space: space.clone(), modules: BTreeMap::new() }
    }

    /// The functions at a code address, the innermost inlined one first. Never empty.
    pub fn resolve(&mut self, code_address: CodeAddress) -> Vec<SourceFrame> {
        let lookup = code_address.for_lookup();
        let Some((module_idx, file_vma)) = self.space.locate(lookup) else {
            return vec![self.outside_modules(lookup)];
        };
        let mut places = self.symbols(module_idx).places(file_vma);
        if code_address.kind == CodeAddressKind::SignalReturn {
            places = vec![SourcePlace { function: Some(SIGNAL_RETURN.to_owned()), ..SourcePlace::default() }];
        }
        let module = self.space.module(module_idx);
        let module_offset = module.file_vma(GuestAddress(code_address.pc)).0;
        let outermost = places.len() - 1;
        let frame = |(position, place): (usize, SourcePlace)| SourceFrame {
            function: place.function,
            file: place.file,
            line: place.line,
            column: place.column,
            inlined: position < outermost,
            module: module.name(),
            module_offset,
        };
        places.into_iter().enumerate().map(frame).collect()
    }

    /// The variable that an address lies in or not far behind.
    pub fn data_symbol(&mut self, address: GuestAddress) -> Option<DataSymbol> {
        let (module_idx, file_vma) = self.space.locate(address)?;
        let near = self.symbols(module_idx).objects.covering_or_before(file_vma)?;
        if near.offset.saturating_sub(near.size) > MAX_DISTANCE {
            return None;
        }
        let (name, offset, size) = (demangle(near.name), near.offset, near.size);
        Some(DataSymbol { name, offset, size, module: self.space.module(module_idx).name() })
    }

    fn symbols(&mut self, module_idx: ModuleIdx) -> &ModuleSymbols {
        let module = self.space.module(module_idx);
        self.modules.entry(module_idx).or_insert_with(|| ModuleSymbols::load(module))
    }

    fn outside_modules(&self, address: GuestAddress) -> SourceFrame {
        let mapping = self.space.mapping_at(address);
        let name = match mapping {
            None => UNMAPPED.to_owned(),
            Some(mapping) => {
                mapping.path.as_ref().map_or(ANONYMOUS.to_owned(), |path| path.to_string_lossy().into_owned())
            }
        };
        let start = mapping.map_or(0, |mapping| mapping.start);
        SourceFrame {
            function: None,
            file: None,
            line: None,
            column: None,
            inlined: false,
            module: name,
            module_offset: address.0 - start,
        }
    }
}

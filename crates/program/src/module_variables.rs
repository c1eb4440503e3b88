//! What one module knows about variables, in the numbering of its file.

use std::collections::BTreeMap;

use object::elf::{ET_EXEC, PT_TLS};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::debug_info::DebugInfo;
use crate::declarations::{Declarations, FixedPlace, VariableEntry};
use crate::elf::{Image, Segment};
use crate::object_symbols::{ObjectSymbolEntry, ObjectSymbols};
use crate::qualified_names::{last_segment, name_matches};
use crate::space::{Module, ModuleIdx};
use crate::type_entries::TypeReader;
use crate::types::TypeId;

pub(crate) struct ModuleVariables {
    pub module_idx: ModuleIdx,
    pub debug_info: Option<(DebugInfo, Declarations)>,
    pub symbols: ObjectSymbols,
    /// Sizes of the declared variables, in their order, which is that of their places.
    sizes: Vec<u64>,
    /// Whether this is the program itself and not a library.
    pub is_program: bool,
    /// Bytes from the start of the program's own thread-local block to the thread pointer.
    thread_local_size: Option<u64>,
}

/// A variable found in debug information or else in a symbol table.
#[derive(Clone, Copy)]
pub(crate) enum Found<'a> {
    Declared(usize, &'a VariableEntry),
    Symbol(&'a ObjectSymbolEntry),
}

impl ModuleVariables {
    pub fn load(module_idx: ModuleIdx, module: &Module) -> ModuleVariables {
        let images: Vec<&Image> =
            [module.image(), module.debug_image()].into_iter().flatten().map(|image| &**image).collect();
        let debug_info = DebugInfo::load(module).map(|debug_info| {
            let segments = module.image().map(|image| image.segments()).unwrap_or_default();
            let declarations = Declarations::load(&debug_info, |place| is_loaded(&segments, place));
            (debug_info, declarations)
        });
        let mut loaded = ModuleVariables {
            module_idx,
            debug_info,
            symbols: ObjectSymbols::load(&images),
            sizes: Vec::new(),
            is_program: images.first().is_some_and(|image| is_program(image)),
            thread_local_size: images.first().and_then(|image| thread_local_size(image)),
        };
        loaded.sizes = loaded.declared_sizes();
        loaded
    }

    pub fn type_reader(&self) -> Option<TypeReader<'_>> {
        let (debug_info, declarations) = self.debug_info.as_ref()?;
        Some(TypeReader { debug_info, declarations, module: self.module_idx })
    }

    /// A symbol may state more than the type: an array at a structure's end has no bound, a declaration has no size.
    fn declared_sizes(&self) -> Vec<u64> {
        let Some((debug_info, declarations)) = &self.debug_info else {
            return Vec::new();
        };
        let reader = TypeReader { debug_info, declarations, module: self.module_idx };
        let mut known = BTreeMap::new();
        let size = |variable: &VariableEntry| {
            let type_id = TypeId::new(self.module_idx, debug_info.type_of(variable.entry));
            let stated = known.entry(type_id).or_insert_with(|| reader.size(type_id).unwrap_or(0));
            self.symbols.size_at(variable.place).unwrap_or(0).max(*stated)
        };
        declarations.variables.iter().map(size).collect()
    }

    pub fn size(&self, position: usize) -> u64 {
        self.sizes.get(position).copied().unwrap_or(0)
    }

    /// By name, qualified or not. Symbols are asked only if the debug information knows none.
    pub fn named(&self, name: &str) -> Vec<Found<'_>> {
        let declared = self.declared_named(name);
        if !declared.is_empty() {
            return declared;
        }
        let symbols = self.symbols.named(last_segment(name));
        symbols.filter(|symbol| name_matches(&symbol.name, name)).map(Found::Symbol).collect()
    }

    fn declared_named(&self, name: &str) -> Vec<Found<'_>> {
        let Some((debug_info, declarations)) = &self.debug_info else {
            return Vec::new();
        };
        let positions = declarations.variables_by_name.get(last_segment(name)).map(Vec::as_slice).unwrap_or_default();
        let found = positions.iter().map(|position| (*position, &declarations.variables[*position]));
        let matching = found.filter(|(_, variable)| {
            let full = declarations.variable_name(debug_info, variable);
            full.is_some_and(|full| name_matches(&full, name))
        });
        matching.map(|(position, variable)| Found::Declared(position, variable)).collect()
    }

    pub fn covering(&self, address: u64) -> Option<Found<'_>> {
        self.at(FixedPlace::Address(address))
    }

    pub fn thread_local_covering(&self, offset: u64) -> Option<Found<'_>> {
        self.at(FixedPlace::ThreadLocal(offset))
    }

    fn at(&self, place: FixedPlace) -> Option<Found<'_>> {
        self.declared_at(place).or_else(|| self.symbols.covering(place).map(Found::Symbol))
    }

    fn declared_at(&self, place: FixedPlace) -> Option<Found<'_>> {
        let (_, declarations) = self.debug_info.as_ref()?;
        let variables = &declarations.variables;
        let past = variables.partition_point(|variable| variable.place <= place);
        // Variables do not overlap, but a few names can share a place.
        let mut candidates = (0..past).rev().take(16).map(|position| (position, &variables[position]));
        let covering = candidates.find(|(position, variable)| {
            variable.place.distance_to(place).is_some_and(|distance| distance < self.size(*position))
        });
        covering.map(|(position, variable)| Found::Declared(position, variable))
    }

    /// Where the thread-local block starts in the thread with this thread pointer: known for the program itself, whose
    /// block ends at the thread pointer. Those of libraries are found at run time only.
    pub fn thread_local_start(&self, thread_pointer: u64) -> Option<u64> {
        let size = self.thread_local_size.filter(|_| self.is_program)?;
        Some(thread_pointer.wrapping_sub(size))
    }
}

/// What linkers discard has an address where nothing is, most often zero.
fn is_loaded(segments: &[Segment], place: FixedPlace) -> bool {
    match place {
        FixedPlace::ThreadLocal(_) => true,
        FixedPlace::Address(address) => {
            let holds = |segment: &Segment| (segment.address..segment.end()).contains(&address);
            address != 0 && segments.iter().any(holds)
        }
    }
}

/// Position-independent programs look like libraries but for one flag.
pub(crate) fn is_program(image: &Image) -> bool {
    const DT_FLAGS_1: u64 = 0x6fff_fffb;
    const DF_1_PIE: u64 = 0x0800_0000;
    let Some(file) = image.file() else {
        return false;
    };
    let fixed = file.elf_header().e_type(file.endian()) == ET_EXEC;
    let dynamic = image.section(".dynamic").map(|section| section.bytes);
    let entries = dynamic.as_ref().map(|bytes| bytes.bytes().chunks_exact(16)).into_iter().flatten();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    fixed || entries.into_iter().any(|entry| word(&entry[..8]) == DT_FLAGS_1 && word(&entry[8..]) & DF_1_PIE != 0)
}

fn thread_local_size(image: &Image) -> Option<u64> {
    let file = image.file()?;
    let endian = file.endian();
    let header = file.elf_program_headers().iter().find(|header| header.p_type(endian) == PT_TLS)?;
    header.p_memsz(endian).checked_next_multiple_of(header.p_align(endian).max(1))
}

//! What a module's debug information declares, from one pass over all its entries: variables with a fixed place,
//! functions with code, and the names of types.
//!
//! Names are kept unqualified. What encloses a declaration is kept as a *context*, a short chain of entries, and turned
//! into a qualified name only when somebody asks: most of a large program's names are never asked for.

use std::collections::BTreeMap;
use std::ops::Range;

use gimli::{AttributeValue, DwTag, Expression, Operation};

use crate::debug_info::{DebugInfo, Entry, EntryId, flag};
use crate::elf::Bytes;
use crate::qualified_names::ANONYMOUS_NAMESPACE;

/// Nested deeper, names are not qualified further.
const MAX_CONTEXTS: usize = 32;
/// Longer qualified names are cut at the front.
const MAX_QUALIFIED: usize = 4096;

/// Together, names are longer only in files made to exhaust memory.
const MAX_NAME_BYTES: usize = 256 << 20;
/// Together, functions have more ranges only in such files.
const MAX_FUNCTION_RANGES: usize = 1 << 22;

/// A position in [`Declarations::contexts`].
type ContextIdx = u32;

#[derive(Debug)]
struct Context {
    parent: Option<ContextIdx>,
    entry: EntryId,
}

/// Where a variable with a fixed place is, in the numbering of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FixedPlace {
    Address(u64),
    /// In the block that every thread has for this module.
    ThreadLocal(u64),
}

impl FixedPlace {
    /// How many bytes another place of the same kind is behind this one.
    pub fn distance_to(self, other: FixedPlace) -> Option<u64> {
        match (self, other) {
            (FixedPlace::Address(start), FixedPlace::Address(end)) => end.checked_sub(start),
            (FixedPlace::ThreadLocal(start), FixedPlace::ThreadLocal(end)) => end.checked_sub(start),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct VariableEntry {
    pub entry: EntryId,
    pub place: FixedPlace,
    context: Option<ContextIdx>,
}

#[derive(Debug)]
pub(crate) struct FunctionEntry {
    pub entry: EntryId,
    /// Never empty.
    pub ranges: Vec<Range<u64>>,
    context: Option<ContextIdx>,
}

#[derive(Debug, Default)]
pub(crate) struct Declarations {
    contexts: Vec<Context>,
    pub variables: Vec<VariableEntry>,
    pub functions: Vec<FunctionEntry>,
    pub variables_by_name: BTreeMap<String, Vec<usize>>,
    pub functions_by_name: BTreeMap<String, Vec<usize>>,
    /// Definitions, in file order.
    pub types_by_name: BTreeMap<String, Vec<EntryId>>,
    /// Start, end and position of functions, sorted.
    function_ranges: Vec<(u64, u64, usize)>,
    /// What encloses types, and entries that others are instances of; sorted, since the pass goes in that order.
    enclosed: Vec<(EntryId, ContextIdx)>,
    /// Bytes of all names that have been kept.
    name_bytes: usize,
    /// Ranges of all functions that have been kept.
    n_ranges: usize,
}

impl Declarations {
    /// Variables at places that are not `loaded` are left out: linkers leave the declarations of what they discard.
    pub fn load(debug_info: &DebugInfo, loaded: impl Fn(FixedPlace) -> bool) -> Declarations {
        let mut declarations = Declarations::default();
        for unit in debug_info.unit_numbers() {
            declarations.read_unit(debug_info, unit);
        }
        declarations.variables.retain(|variable| loaded(variable.place));
        declarations.name_variables(debug_info);
        declarations.name_functions(debug_info);
        declarations
    }

    fn read_unit(&mut self, debug_info: &DebugInfo, number: u32) {
        let Some((_, unit)) = debug_info.unit(number) else {
            return;
        };
        let Ok(mut entries) = unit.entries_raw(None) else {
            return;
        };
        let mut entry = Entry::null();
        // Depth and context of the entries around the current one, as far as they lend their name.
        let mut around: Vec<(isize, ContextIdx)> = Vec::new();
        while !entries.is_empty() {
            match entries.read_entry(&mut entry) {
                Err(_) => return,
                Ok(false) => continue,
                Ok(true) => {}
            }
            while around.last().is_some_and(|(depth, _)| *depth >= entry.depth()) {
                around.pop();
            }
            let id = EntryId { unit: number, offset: entry.offset().0 };
            let context = around.last().map(|(_, context)| *context);
            self.read_entry(debug_info, id, &entry, context);
            if entry.has_children() && around.len() < MAX_CONTEXTS && lends_name(&entry) {
                let next = ContextIdx::try_from(self.contexts.len()).unwrap_or(ContextIdx::MAX);
                self.contexts.push(Context { parent: context, entry: id });
                around.push((entry.depth(), next));
            }
        }
    }

    fn read_entry(&mut self, debug_info: &DebugInfo, id: EntryId, entry: &Entry, context: Option<ContextIdx>) {
        match entry.tag() {
            gimli::DW_TAG_variable => match fixed_place(debug_info, id, entry) {
                Some(place) => self.variables.push(VariableEntry { entry: id, place, context }),
                // Of these there are few, and a definition elsewhere may refer to them; of other locals there are many.
                None if is_declaration(entry) => self.enclose(id, context),
                None => {}
            },
            gimli::DW_TAG_member if flag(entry, gimli::DW_AT_declaration) => self.enclose(id, context),
            gimli::DW_TAG_subprogram => {
                let ranges = debug_info.ranges(id, entry).unwrap_or_default();
                self.enclose(id, context);
                self.n_ranges += ranges.len();
                if !ranges.is_empty() && self.n_ranges <= MAX_FUNCTION_RANGES {
                    self.functions.push(FunctionEntry { entry: id, ranges, context });
                }
            }
            gimli::DW_TAG_typedef => self.read_type(debug_info, id, entry, context),
            tag if is_aggregate(tag) => self.read_type(debug_info, id, entry, context),
            _ => {}
        }
    }

    fn read_type(&mut self, debug_info: &DebugInfo, id: EntryId, entry: &Entry, context: Option<ContextIdx>) {
        self.enclose(id, context);
        if !flag(entry, gimli::DW_AT_declaration)
            && let Some(name) = debug_info.own_name(id, entry)
            && has_room(&mut self.name_bytes, &name)
        {
            self.types_by_name.entry(name).or_default().push(id);
        }
    }

    fn enclose(&mut self, id: EntryId, context: Option<ContextIdx>) {
        self.enclosed.extend(context.map(|context| (id, context)));
    }

    fn name_variables(&mut self, debug_info: &DebugInfo) {
        self.variables.sort_by_key(|variable| (variable.place, variable.entry));
        // A variable of a header is described in every unit that includes it.
        self.variables.dedup_by(|later, first| {
            later.place == first.place && debug_info.name(later.entry) == debug_info.name(first.entry)
        });
        for (position, variable) in self.variables.iter().enumerate() {
            if let Some(name) = debug_info.name(variable.entry)
                && has_room(&mut self.name_bytes, &name)
            {
                self.variables_by_name.entry(name).or_default().push(position);
            }
        }
    }

    fn name_functions(&mut self, debug_info: &DebugInfo) {
        for (position, function) in self.functions.iter().enumerate() {
            if let Some(name) = debug_info.name(function.entry)
                && has_room(&mut self.name_bytes, &name)
            {
                self.functions_by_name.entry(name).or_default().push(position);
            }
            self.function_ranges.extend(function.ranges.iter().map(|range| (range.start, range.end, position)));
        }
        self.function_ranges.sort();
    }

    /// The function whose code an address is in.
    pub fn function_at(&self, address: u64) -> Option<&FunctionEntry> {
        let past = self.function_ranges.partition_point(|(start, _, _)| *start <= address);
        // Ranges do not overlap unless damaged or merged by the linker; a few tries are enough.
        let mut candidates = self.function_ranges[..past].iter().rev().take(16);
        let (_, _, position) = candidates.find(|(_, end, _)| address < *end)?;
        self.functions.get(*position)
    }

    pub fn variable_name(&self, debug_info: &DebugInfo, variable: &VariableEntry) -> Option<String> {
        self.qualified(debug_info, variable.entry, variable.context)
    }

    pub fn function_name(&self, debug_info: &DebugInfo, function: &FunctionEntry) -> Option<String> {
        self.qualified(debug_info, function.entry, function.context)
    }

    /// The qualified name of a type or of a function's entry.
    pub fn name_of(&self, debug_info: &DebugInfo, id: EntryId) -> Option<String> {
        self.qualified(debug_info, id, self.context_of(id))
    }

    fn context_of(&self, id: EntryId) -> Option<ContextIdx> {
        let position = self.enclosed.binary_search_by_key(&id, |(entry, _)| *entry).ok()?;
        Some(self.enclosed[position].1)
    }

    /// Qualified by what encloses the entry's last origin, its declaration; an instance may stand elsewhere.
    fn qualified(&self, debug_info: &DebugInfo, id: EntryId, context: Option<ContextIdx>) -> Option<String> {
        let mut segments = vec![debug_info.name(id)?];
        let mut length = segments[0].len();
        let mut next = self.declaring_context(debug_info, id).or(context);
        while let Some(enclosing) = next.and_then(|idx| self.contexts.get(idx as usize)) {
            let segment = self.segment(debug_info, enclosing.entry);
            length += segment.as_ref().map_or(0, |segment| segment.len() + 2);
            if length > MAX_QUALIFIED || segments.len() > MAX_CONTEXTS {
                break;
            }
            segments.extend(segment);
            next = self.declaring_context(debug_info, enclosing.entry).or(enclosing.parent);
        }
        segments.reverse();
        Some(segments.join("::"))
    }

    fn declaring_context(&self, debug_info: &DebugInfo, id: EntryId) -> Option<ContextIdx> {
        let origins = debug_info.origins(id);
        origins.iter().skip(1).rev().find_map(|(origin, _)| self.context_of(*origin))
    }

    fn segment(&self, debug_info: &DebugInfo, id: EntryId) -> Option<String> {
        let named = debug_info.name(id);
        let is_namespace = || debug_info.entry(id).is_some_and(|entry| entry.tag() == gimli::DW_TAG_namespace);
        named.or_else(|| is_namespace().then(|| ANONYMOUS_NAMESPACE.to_owned()))
    }

    /// The definition that a forward declaration of a type stands for: one with the same qualified name, in the same unit
    /// if there is one.
    pub fn definition_of(&self, debug_info: &DebugInfo, id: EntryId, declaration: &Entry) -> Option<EntryId> {
        let candidates = self.types_by_name.get(&debug_info.own_name(id, declaration)?)?;
        let name = self.name_of(debug_info, id);
        let same_tag = |entry: &Entry| {
            let classes = [gimli::DW_TAG_class_type, gimli::DW_TAG_structure_type];
            entry.tag() == declaration.tag() || [entry.tag(), declaration.tag()].iter().all(|tag| classes.contains(tag))
        };
        // A name that very many types share would make every lookup slow.
        let mut matching = candidates.iter().take(256).copied().filter(|candidate| {
            debug_info.entry(*candidate).is_some_and(|entry| same_tag(&entry))
                && self.name_of(debug_info, *candidate) == name
        });
        let first = matching.next()?;
        let near = (first.unit != id.unit).then(|| matching.find(|candidate| candidate.unit == id.unit)).flatten();
        Some(near.unwrap_or(first))
    }
}

fn has_room(name_bytes: &mut usize, name: &str) -> bool {
    *name_bytes = name_bytes.saturating_add(name.len());
    *name_bytes <= MAX_NAME_BYTES
}

fn is_aggregate(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_interface_type
    )
}

fn is_declaration(variable: &Entry) -> bool {
    !variable.has_attr(gimli::DW_AT_location) && !variable.has_attr(gimli::DW_AT_abstract_origin)
}

fn lends_name(entry: &Entry) -> bool {
    matches!(entry.tag(), gimli::DW_TAG_namespace | gimli::DW_TAG_module | gimli::DW_TAG_subprogram)
        || is_aggregate(entry.tag()) && entry.tag() != gimli::DW_TAG_enumeration_type
}

fn fixed_place(debug_info: &DebugInfo, id: EntryId, entry: &Entry) -> Option<FixedPlace> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
        return None;
    };
    constant_place(debug_info, id.unit, expression)
}

/// The few expressions that compilers write for places that depend on nothing.
fn constant_place(debug_info: &DebugInfo, unit_number: u32, expression: Expression<Bytes>) -> Option<FixedPlace> {
    let (dwarf, unit) = debug_info.unit(unit_number)?;
    let mut operations = expression.operations(unit.encoding());
    let mut top: Option<u64> = None;
    let mut is_address = false;
    while let Some(operation) = operations.next().ok()? {
        match operation {
            Operation::Address { address } => (top, is_address) = (Some(address), true),
            Operation::AddressIndex { index } => (top, is_address) = (dwarf.address(unit, index).ok(), true),
            Operation::ConstantIndex { index } => top = dwarf.address(unit, index).ok(),
            Operation::UnsignedConstant { value } => top = Some(value),
            Operation::PlusConstant { value } => top = Some(top?.wrapping_add(value)),
            Operation::TLS => return top.map(FixedPlace::ThreadLocal),
            _ => return None,
        }
    }
    top.filter(|_| is_address).map(FixedPlace::Address)
}

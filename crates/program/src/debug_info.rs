//! DWARF entries of one module: its units, the references between entries, and the attributes that every reader needs.
//!
//! All of it is input that may be damaged or hostile. Every walk along references is bounded here, so that readers of
//! single entries need not think of cycles.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwAt, DwLang, Dwarf, LittleEndian, SectionId, Unit,
    UnitOffset, UnitType,
};

use crate::elf::{Bytes, Image};
use crate::space::Module;

pub(crate) type Entry = DebuggingInformationEntry<Bytes>;
pub(crate) type Value = AttributeValue<Bytes>;

/// Compilers refer from an instance to its origin to its declaration; nothing is further.
const MAX_ORIGINS: usize = 8;
/// Longer names are cut.
const MAX_NAME: usize = 4096;
/// A function or block with more ranges is damaged.
const MAX_RANGES: usize = 4096;

/// An entry, by the position of its unit and its offset in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub unit: u32,
    pub offset: usize,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    pub file: PathBuf,
    pub line: u32,
}

pub(crate) struct DebugInfo {
    dwarf: Dwarf<Bytes>,
    /// Those of `.debug_info`, then of `.debug_types`, then of the file shared with other modules; each part in file order.
    units: Vec<Unit<Bytes>>,
    /// How many units the first part has.
    n_own: usize,
    /// Where the third part starts.
    shared_start: usize,
    /// The type that a type unit describes, by its signature.
    signatures: BTreeMap<u64, EntryId>,
}

impl DebugInfo {
    /// `None` if the module has no debug information.
    pub fn load(module: &Module) -> Option<DebugInfo> {
        let image = module.debug_image()?;
        image.section(".debug_info")?;
        let mut dwarf = load_sections(image);
        if let Some(shared) = module.shared_debug_image() {
            dwarf.set_sup(load_sections(shared));
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut units = own_units(&dwarf);
        let n_own = units.len();
        units.extend(type_units(&dwarf));
        let shared_start = units.len();
        units.extend(dwarf.sup().map(own_units).unwrap_or_default());
        let signatures = signatures(&units);
        Some(DebugInfo { dwarf, units, n_own, shared_start, signatures })
    }

    pub fn unit_numbers(&self) -> Range<u32> {
        0..u32::try_from(self.units.len()).unwrap_or(u32::MAX)
    }

    /// The sections and the unit that an entry is to be read with.
    pub fn unit(&self, number: u32) -> Option<(&Dwarf<Bytes>, &Unit<Bytes>)> {
        let unit = self.units.get(number as usize)?;
        let shared = number as usize >= self.shared_start;
        Some((if shared { self.dwarf.sup()? } else { &self.dwarf }, unit))
    }

    pub fn entry(&self, id: EntryId) -> Option<Entry> {
        self.unit(id.unit)?.1.entry(UnitOffset(id.offset)).ok()
    }

    /// The entry's children that are not nested deeper, each with its identity.
    pub fn children(&self, id: EntryId) -> Vec<(EntryId, Entry)> {
        let mut children = Vec::new();
        self.walk(id, &mut |depth, child_id, child| {
            if depth == 1 {
                children.push((child_id, child.clone()));
            }
            if depth == 0 { Descend::Yes } else { Descend::No }
        });
        children
    }

    /// Visits an entry, at depth 0, and what is nested in it, in file order. What `visit` does not want to descend into
    /// is passed over.
    pub fn walk(&self, id: EntryId, visit: &mut dyn FnMut(isize, EntryId, &Entry) -> Descend) {
        let Some((_, unit)) = self.unit(id.unit) else {
            return;
        };
        let Ok(mut entries) = unit.entries_raw(Some(UnitOffset(id.offset))) else {
            return;
        };
        let mut entry = Entry::null();
        // Entries below this depth are not wanted.
        let mut limit = isize::MAX;
        while !entries.is_empty() {
            match entries.read_entry(&mut entry) {
                Err(_) => return,
                Ok(false) => {}
                Ok(true) if entry.depth() > limit => {}
                Ok(true) => {
                    let wanted = visit(entry.depth(), EntryId { unit: id.unit, offset: entry.offset().0 }, &entry);
                    limit = if wanted == Descend::Yes { isize::MAX } else { entry.depth() };
                }
            }
            if entries.next_depth() <= 0 {
                return;
            }
        }
    }

    /// The entry that an attribute refers to, in whichever unit or file it is.
    pub fn reference(&self, from: EntryId, value: Value) -> Option<EntryId> {
        match value {
            AttributeValue::UnitRef(offset) => Some(EntryId { unit: from.unit, offset: offset.0 }),
            AttributeValue::DebugInfoRef(offset) => {
                let shared = from.unit as usize >= self.shared_start;
                self.by_section_offset(offset, if shared { self.shared_start..self.units.len() } else { 0..self.n_own })
            }
            AttributeValue::DebugInfoRefSup(offset) => {
                self.by_section_offset(offset, self.shared_start..self.units.len())
            }
            AttributeValue::DebugTypesRef(signature) => self.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }

    fn by_section_offset(&self, offset: DebugInfoOffset, part: Range<usize>) -> Option<EntryId> {
        let starts_before = |unit: &Unit<Bytes>| unit.header.debug_info_offset() <= Some(offset);
        let position = self.units[part.clone()].partition_point(starts_before).checked_sub(1)? + part.start;
        let within = offset.to_unit_offset(&self.units[position].header)?;
        Some(EntryId { unit: u32::try_from(position).ok()?, offset: within.0 })
    }

    /// The entry, what it is an instance of, what that is the definition of, and so on.
    pub fn origins(&self, id: EntryId) -> Vec<(EntryId, Entry)> {
        let mut chain = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next.filter(|_| chain.len() < MAX_ORIGINS) {
            let Some(entry) = self.entry(id) else {
                break;
            };
            let origin =
                entry.attr_value(gimli::DW_AT_abstract_origin).or_else(|| entry.attr_value(gimli::DW_AT_specification));
            next = origin.and_then(|value| self.reference(id, value));
            chain.push((id, entry));
        }
        chain
    }

    /// The unit in which the source declares the entry. Link-time optimisation describes code and data in units of its
    /// own, which refer to those of the source.
    pub fn declaring_unit(&self, id: EntryId) -> u32 {
        self.origins(id).last().map_or(id.unit, |(origin, _)| origin.unit)
    }

    /// An attribute of the entry or of its origins, with the entry that has it.
    pub fn inherited(&self, id: EntryId, name: DwAt) -> Option<(EntryId, Value)> {
        let chain = self.origins(id);
        chain.into_iter().find_map(|(id, entry)| Some((id, entry.attr_value(name)?)))
    }

    /// The entry's own name or its origin's, unqualified.
    pub fn name(&self, id: EntryId) -> Option<String> {
        let (holder, value) = self.inherited(id, gimli::DW_AT_name)?;
        self.text(holder, value)
    }

    /// The entry's own name.
    pub fn own_name(&self, id: EntryId, entry: &Entry) -> Option<String> {
        self.text(id, entry.attr_value(gimli::DW_AT_name)?)
    }

    fn text(&self, holder: EntryId, value: Value) -> Option<String> {
        let (dwarf, unit) = self.unit(holder.unit)?;
        let bytes = dwarf.attr_string(unit, value).ok()?;
        let bytes = bytes.bytes();
        Some(String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME)]).into_owned()).filter(|name| !name.is_empty())
    }

    /// The entry of the type; `None` also for C's `void`.
    pub fn type_of(&self, id: EntryId) -> Option<EntryId> {
        let (holder, value) = self.inherited(id, gimli::DW_AT_type)?;
        self.reference(holder, value)
    }

    /// Where the source declares the entry.
    pub fn declared(&self, id: EntryId) -> Option<SourceLine> {
        let (holder, line) = self.inherited(id, gimli::DW_AT_decl_line)?;
        let line = u32::try_from(line.udata_value()?).ok()?;
        let entry = self.entry(holder)?;
        let file = match entry.attr_value(gimli::DW_AT_decl_file)? {
            AttributeValue::FileIndex(index) => index,
            value => value.udata_value()?,
        };
        Some(SourceLine { file: self.file_path(holder.unit, file)?, line })
    }

    /// A file of a unit's line table.
    pub fn file_path(&self, unit_number: u32, index: u64) -> Option<PathBuf> {
        let (dwarf, unit) = self.unit(unit_number)?;
        let header = unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let path_of = |value| dwarf.attr_string(unit, value).ok().map(|bytes| path(&bytes));
        let folder = unit.comp_dir.as_ref().map(path).unwrap_or_default();
        let folder = file.directory(header).and_then(path_of).map_or(folder.clone(), |named| folder.join(named));
        let path = folder.join(path_of(file.path_name())?);
        Some(path.components().collect())
    }

    /// All files of a unit's line table.
    pub fn files_of(&self, unit_number: u32) -> impl Iterator<Item = PathBuf> {
        let table = self.unit(unit_number).and_then(|(_, unit)| unit.line_program.as_ref());
        let count = table.map_or(0, |table| table.header().file_names().len() as u64);
        // They count from one, or from zero in later versions.
        (0..=count).filter_map(move |index| self.file_path(unit_number, index))
    }

    /// The addresses of the code that an entry stands for; `None` if it does not say.
    pub fn ranges(&self, id: EntryId, entry: &Entry) -> Option<Vec<Range<u64>>> {
        let (dwarf, unit) = self.unit(id.unit)?;
        if let Some(value) = entry.attr_value(gimli::DW_AT_ranges) {
            let mut list = dwarf.attr_ranges(unit, value).ok()??;
            let mut ranges = Vec::new();
            while let Ok(Some(range)) = list.next() {
                ranges.push(range.begin..range.end);
                if ranges.len() == MAX_RANGES {
                    break;
                }
            }
            return Some(ranges);
        }
        let address = |name| dwarf.attr_address(unit, entry.attr_value(name)?).ok()?;
        let low: u64 = address(gimli::DW_AT_low_pc)?;
        let high = match entry.attr_value(gimli::DW_AT_high_pc)? {
            AttributeValue::Udata(size) => low.checked_add(size)?,
            _ => address(gimli::DW_AT_high_pc)?,
        };
        let whole = low..high;
        (low < high).then(|| vec![whole])
    }

    /// Whether the unit's language writes `struct name` for its structures.
    pub fn is_c(&self, unit_number: u32) -> bool {
        let root = |unit: &Unit<Bytes>| unit.entry(unit.header.root_offset()).ok()?.attr_value(gimli::DW_AT_language);
        let language = self.unit(unit_number).and_then(|(_, unit)| root(unit));
        const C: [DwLang; 5] =
            [gimli::DW_LANG_C89, gimli::DW_LANG_C, gimli::DW_LANG_C99, gimli::DW_LANG_C11, gimli::DW_LANG_C17];
        matches!(language, Some(AttributeValue::Language(language)) if C.contains(&language))
    }
}

fn path(bytes: &Bytes) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes.bytes()))
}

/// Whether a walk goes on into the entry just visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descend {
    Yes,
    No,
}

pub(crate) fn flag(entry: &Entry, name: DwAt) -> bool {
    matches!(entry.attr_value(name), Some(AttributeValue::Flag(true)))
}

fn load_sections(image: &Image) -> Dwarf<Bytes> {
    let empty = || Bytes::new([].into(), LittleEndian);
    let load = |id: SectionId| image.section(id.name()).map_or_else(empty, |section| section.bytes);
    let Ok(dwarf) = Dwarf::load(|id| Ok::<_, std::convert::Infallible>(load(id)));
    dwarf
}

/// Units that cannot be read are left out; nothing is known behind a damaged header.
fn own_units(dwarf: &Dwarf<Bytes>) -> Vec<Unit<Bytes>> {
    let mut headers = dwarf.units();
    let mut units = Vec::new();
    while let Ok(Some(header)) = headers.next() {
        units.extend(dwarf.unit(header).ok());
    }
    units
}

fn type_units(dwarf: &Dwarf<Bytes>) -> Vec<Unit<Bytes>> {
    let mut headers = dwarf.type_units();
    let mut units = Vec::new();
    while let Ok(Some(header)) = headers.next() {
        units.extend(dwarf.unit(header).ok());
    }
    units
}

fn signatures(units: &[Unit<Bytes>]) -> BTreeMap<u64, EntryId> {
    let mut signatures = BTreeMap::new();
    for (number, unit) in (0..).zip(units) {
        if let UnitType::Type { type_signature, type_offset } | UnitType::SplitType { type_signature, type_offset } =
            unit.header.type_()
        {
            signatures.entry(type_signature.0).or_insert(EntryId { unit: number, offset: type_offset.0 });
        }
    }
    signatures
}

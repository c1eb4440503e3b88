//! From entries of debug information to types.

use gimli::{AttributeValue, DwAte, EvaluationResult, Location};

use crate::debug_info::{DebugInfo, Entry, EntryId, Value, flag};
use crate::declarations::Declarations;
use crate::space::ModuleIdx;
use crate::types::{BitRange, Enumerator, Field, Type, TypeId, TypeKind, Variant, Variants};

/// No source nests names for types, arrays of arrays or pointers to pointers deeper.
const MAX_DEPTH: usize = 32;
/// More fields, enumerators or variants than this are left out.
const MAX_PARTS: usize = 1 << 16;
/// A name that is spelled out of parts ends here.
const MAX_NAME: usize = 1024;

/// Reads types of one module.
#[derive(Clone, Copy)]
pub(crate) struct TypeReader<'a> {
    pub debug_info: &'a DebugInfo,
    pub declarations: &'a Declarations,
    pub module: ModuleIdx,
}

impl TypeReader<'_> {
    pub fn read(&self, id: TypeId) -> Type {
        let (size, kind) = self.size_and_kind(id);
        Type { name: self.name(id, 0), size, kind }
    }

    pub fn size(&self, id: TypeId) -> Option<u64> {
        self.size_at(id, 0)
    }

    fn id(&self, entry: Option<EntryId>) -> TypeId {
        TypeId::new(self.module, entry)
    }

    fn type_of(&self, entry_id: EntryId) -> TypeId {
        self.id(self.debug_info.type_of(entry_id))
    }

    /// Sees through names for types, and from declarations to definitions.
    fn underlying(&self, entry_id: EntryId) -> Option<(EntryId, Entry)> {
        let mut entry_id = entry_id;
        for _ in 0..MAX_DEPTH {
            let entry = self.debug_info.entry(entry_id)?;
            entry_id = match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type
                | gimli::DW_TAG_immutable_type
                | gimli::DW_TAG_packed_type
                | gimli::DW_TAG_shared_type => self.debug_info.type_of(entry_id)?,
                _ => match self.definition(entry_id, &entry) {
                    Some(next) => next,
                    None => return Some((entry_id, entry)),
                },
            };
        }
        None
    }

    fn definition(&self, entry_id: EntryId, entry: &Entry) -> Option<EntryId> {
        if let Some(signature) = entry.attr_value(gimli::DW_AT_signature) {
            return self.debug_info.reference(entry_id, signature).filter(|found| *found != entry_id);
        }
        let declared = flag(entry, gimli::DW_AT_declaration);
        declared.then(|| self.declarations.definition_of(self.debug_info, entry_id, entry)).flatten()
    }

    fn size_at(&self, id: TypeId, depth: usize) -> Option<u64> {
        if id.pointers > 0 {
            return Some(8);
        }
        let (entry_id, entry) = self.underlying(id.entry?).filter(|_| depth < MAX_DEPTH)?;
        if entry.tag() == gimli::DW_TAG_array_type {
            let counts = self.counts(entry_id);
            let rest = counts.get(usize::from(id.indices)..).unwrap_or_default();
            let element = self.size_at(self.type_of(entry_id), depth + 1)?;
            return rest.iter().try_fold(element, |size, count| size.checked_mul((*count)?));
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                Some(byte_size(&entry).unwrap_or(8))
            }
            gimli::DW_TAG_enumeration_type => {
                byte_size(&entry).or_else(|| self.size_at(self.type_of(entry_id), depth + 1))
            }
            _ => byte_size(&entry),
        }
    }

    fn size_and_kind(&self, id: TypeId) -> (Option<u64>, TypeKind) {
        if id.pointers > 0 {
            return (
                Some(8),
                TypeKind::Pointer { target: TypeId { pointers: id.pointers - 1, ..id }, reference: false },
            );
        }
        let Some(entry_id) = id.entry else {
            return (None, TypeKind::Void);
        };
        let Some((entry_id, entry)) = self.underlying(entry_id) else {
            return (None, TypeKind::Void);
        };
        let kind = match entry.tag() {
            gimli::DW_TAG_array_type => self.array(entry_id, id.indices),
            _ => self.kind(entry_id, &entry),
        };
        (self.size(id), kind)
    }

    fn kind(&self, entry_id: EntryId, entry: &Entry) -> TypeKind {
        match entry.tag() {
            gimli::DW_TAG_base_type => base_kind(entry),
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let reference = entry.tag() != gimli::DW_TAG_pointer_type;
                TypeKind::Pointer { target: self.type_of(entry_id), reference }
            }
            gimli::DW_TAG_enumeration_type => TypeKind::Enumeration { enumerators: self.enumerators(entry_id) },
            _ if flag(entry, gimli::DW_AT_declaration) => TypeKind::Unknown,
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_interface_type => {
                self.structure(entry_id)
            }
            gimli::DW_TAG_union_type => TypeKind::Union { fields: self.fields(entry_id) },
            gimli::DW_TAG_subroutine_type => TypeKind::Function,
            gimli::DW_TAG_unspecified_type => TypeKind::Void,
            _ => TypeKind::Unknown,
        }
    }

    fn array(&self, entry_id: EntryId, indices: u8) -> TypeKind {
        let counts = self.counts(entry_id);
        let position = usize::from(indices);
        let Some(count) = counts.get(position) else {
            return TypeKind::Unknown;
        };
        let last = position + 1 == counts.len();
        let inner = TypeId { indices: indices.saturating_add(1), ..self.id(Some(entry_id)) };
        TypeKind::Array { element: if last { self.type_of(entry_id) } else { inner }, count: *count }
    }

    /// How many elements an array has in each dimension; never empty.
    fn counts(&self, entry_id: EntryId) -> Vec<Option<u64>> {
        let children = self.debug_info.children(entry_id);
        let ranges = children.iter().filter(|(_, child)| child.tag() == gimli::DW_TAG_subrange_type);
        let mut counts: Vec<_> = ranges.take(MAX_DEPTH).map(|(_, range)| count(range)).collect();
        if counts.is_empty() {
            counts.push(None);
        }
        counts
    }

    fn enumerators(&self, entry_id: EntryId) -> Vec<Enumerator> {
        let children = self.debug_info.children(entry_id).into_iter();
        let enumerators = children.filter(|(_, child)| child.tag() == gimli::DW_TAG_enumerator).take(MAX_PARTS);
        let read = |(id, child): (EntryId, Entry)| {
            let name = self.debug_info.own_name(id, &child)?;
            Some(Enumerator { name, value: number(&child.attr_value(gimli::DW_AT_const_value)?)? })
        };
        enumerators.filter_map(read).collect()
    }

    fn structure(&self, entry_id: EntryId) -> TypeKind {
        let children = self.debug_info.children(entry_id);
        match children.iter().find(|(_, child)| child.tag() == gimli::DW_TAG_variant_part) {
            Some((part, part_entry)) => TypeKind::Variants(self.variants(*part, part_entry)),
            None => TypeKind::Structure { fields: self.fields(entry_id) },
        }
    }

    fn fields(&self, entry_id: EntryId) -> Vec<Field> {
        let children = self.debug_info.children(entry_id);
        children.iter().filter_map(|(id, child)| self.field(*id, child)).take(MAX_PARTS).collect()
    }

    /// `None` for what takes no room in a value: functions, static members, virtual bases whose place varies.
    fn field(&self, id: EntryId, entry: &Entry) -> Option<Field> {
        let base = entry.tag() == gimli::DW_TAG_inheritance;
        let is_static = flag(entry, gimli::DW_AT_external) || flag(entry, gimli::DW_AT_declaration);
        if !base && (entry.tag() != gimli::DW_TAG_member || is_static) {
            return None;
        }
        let type_id = self.type_of(id);
        let start = match entry.attr_value(gimli::DW_AT_data_member_location) {
            None => 0,
            Some(value) => self.member_offset(id, value)?,
        };
        let (offset, bits) = self.bits(type_id, entry, start)?;
        let name = if base { Some(self.name(type_id, 0)) } else { self.debug_info.own_name(id, entry) };
        Some(Field { name, type_id, offset, bits, base })
    }

    fn member_offset(&self, id: EntryId, value: Value) -> Option<u64> {
        if let Some(offset) = value.udata_value() {
            return Some(offset);
        }
        let (_, unit) = self.debug_info.unit(id.unit)?;
        let mut evaluation = value.exprloc_value()?.evaluation(unit.encoding());
        evaluation.set_initial_value(0);
        evaluation.set_max_iterations(64);
        match evaluation.evaluate().ok()? {
            EvaluationResult::Complete => match evaluation.as_result() {
                [gimli::Piece { location: Location::Address { address }, .. }] => Some(*address),
                _ => None,
            },
            _ => None,
        }
    }

    /// The byte and the bits of a bit field, in either of the two ways that DWARF has had for it.
    fn bits(&self, type_id: TypeId, entry: &Entry, start: u64) -> Option<(u64, Option<BitRange>)> {
        let attribute = |name| entry.attr_value(name).and_then(|value| value.udata_value());
        let Some(count) = attribute(gimli::DW_AT_bit_size) else {
            return Some((start, None));
        };
        let from_start = match (attribute(gimli::DW_AT_data_bit_offset), attribute(gimli::DW_AT_bit_offset)) {
            (Some(offset), _) => offset,
            (None, Some(from_top)) => {
                let storage = byte_size(entry).or_else(|| self.size(type_id))?.checked_mul(8)?;
                storage.checked_sub(from_top)?.checked_sub(count)?
            }
            (None, None) => 0,
        };
        let bits = BitRange { start: from_start % 8, count: count.min(128) };
        Some((start.checked_add(from_start / 8)?, Some(bits)))
    }

    fn variants(&self, part: EntryId, part_entry: &Entry) -> Variants {
        let discriminant = part_entry.attr_value(gimli::DW_AT_discr).and_then(|value| {
            let id = self.debug_info.reference(part, value)?;
            self.field(id, &self.debug_info.entry(id)?)
        });
        let children = self.debug_info.children(part).into_iter().take(MAX_PARTS);
        let read = |(id, child): (EntryId, Entry)| {
            let value = child.attr_value(gimli::DW_AT_discr_value).and_then(|value| number(&value));
            let members = self.debug_info.children(id);
            let field = members.iter().find_map(|(id, member)| self.field(*id, member))?;
            Some(Variant { value: value.map(|value| value as u128), field })
        };
        let variants = children.filter(|(_, child)| child.tag() == gimli::DW_TAG_variant).filter_map(read).collect();
        Variants { discriminant, variants }
    }

    /// The type as its source would write it.
    fn name(&self, id: TypeId, depth: usize) -> String {
        if id.pointers > 0 {
            return pointer_name(self.name(TypeId { pointers: 0, ..id }, depth + 1), &"*".repeat(id.pointers.into()));
        }
        let Some((entry_id, entry)) = id.entry.and_then(|entry_id| Some((entry_id, self.debug_info.entry(entry_id)?)))
        else {
            return "void".to_owned();
        };
        if depth > MAX_DEPTH {
            return "…".to_owned();
        }
        let target = || self.name(self.type_of(entry_id), depth + 1);
        let mut name = match entry.tag() {
            gimli::DW_TAG_const_type => qualified("const", target()),
            gimli::DW_TAG_volatile_type => qualified("volatile", target()),
            gimli::DW_TAG_restrict_type => qualified("restrict", target()),
            gimli::DW_TAG_atomic_type => qualified("_Atomic", target()),
            gimli::DW_TAG_array_type => self.array_name(entry_id, id.indices, target()),
            gimli::DW_TAG_subroutine_type => format!("{} (…)", target()),
            tag => match (self.declarations.name_of(self.debug_info, entry_id), tag) {
                (Some(name), _) => self.tagged(entry_id, &entry, name),
                (None, gimli::DW_TAG_pointer_type) => pointer_name(target(), "*"),
                (None, gimli::DW_TAG_reference_type) => pointer_name(target(), "&"),
                (None, gimli::DW_TAG_rvalue_reference_type) => pointer_name(target(), "&&"),
                (None, _) => self.tagged(entry_id, &entry, "{…}".to_owned()),
            },
        };
        let end = (0..=name.len().min(MAX_NAME)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.truncate(end);
        name
    }

    fn array_name(&self, entry_id: EntryId, indices: u8, element: String) -> String {
        let counts = self.counts(entry_id);
        let rest = counts.get(usize::from(indices)..).unwrap_or_default();
        let bounds: String = rest
            .iter()
            .map(|count| match count {
                Some(count) => format!("[{count}]"),
                None => "[]".to_owned(),
            })
            .collect();
        let inner = element.find('[').unwrap_or(element.len());
        format!("{}{bounds}{}", &element[..inner], &element[inner..])
    }

    /// C writes `struct name`, and every language needs a word for a type without a name.
    fn tagged(&self, entry_id: EntryId, entry: &Entry, name: String) -> String {
        let word = match entry.tag() {
            gimli::DW_TAG_structure_type => "struct",
            gimli::DW_TAG_class_type => "class",
            gimli::DW_TAG_union_type => "union",
            gimli::DW_TAG_enumeration_type => "enum",
            _ => return name,
        };
        let needed = name == "{…}" || self.debug_info.is_c(entry_id.unit);
        if needed { format!("{word} {name}") } else { name }
    }
}

/// What is said of an array is said of its elements too, and once is enough.
fn qualified(word: &str, name: String) -> String {
    match () {
        () if name.ends_with(']') => name,
        () if name.ends_with('*') => format!("{name}{word}"),
        () => format!("{word} {name}"),
    }
}

fn pointer_name(target: String, stars: &str) -> String {
    match target.strip_suffix(" (…)") {
        Some(result) => format!("{result} ({stars})(…)"),
        None if target.ends_with(['*', '&']) => format!("{target}{stars}"),
        None => format!("{target} {stars}"),
    }
}

fn byte_size(entry: &Entry) -> Option<u64> {
    entry.attr_value(gimli::DW_AT_byte_size)?.udata_value()
}

/// An attribute's number; those of fixed-size forms count as unsigned.
pub(crate) fn number(value: &Value) -> Option<i128> {
    match value {
        AttributeValue::Sdata(value) => Some((*value).into()),
        AttributeValue::Data16(value) => i128::try_from(*value).ok(),
        value => value.udata_value().map(i128::from),
    }
}

fn count(range: &Entry) -> Option<u64> {
    let attribute = |name| range.attr_value(name).and_then(|value| number(&value));
    if let Some(count) = attribute(gimli::DW_AT_count) {
        return u64::try_from(count).ok();
    }
    let lower = attribute(gimli::DW_AT_lower_bound).unwrap_or(0);
    // Some compilers write the bound of an empty array as the largest number.
    let upper = attribute(gimli::DW_AT_upper_bound).map(|upper| if upper == i128::from(u64::MAX) { -1 } else { upper });
    u64::try_from(upper?.checked_sub(lower)?.checked_add(1)?).ok()
}

fn base_kind(entry: &Entry) -> TypeKind {
    let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(gimli::DW_AT_encoding) else {
        return TypeKind::Unknown;
    };
    const UTF: DwAte = gimli::DW_ATE_UTF;
    match encoding {
        gimli::DW_ATE_signed => TypeKind::Integer { signed: true },
        gimli::DW_ATE_unsigned | gimli::DW_ATE_address => TypeKind::Integer { signed: false },
        gimli::DW_ATE_signed_char => TypeKind::Character { signed: true },
        gimli::DW_ATE_unsigned_char => TypeKind::Character { signed: false },
        UTF => TypeKind::Character { signed: false },
        gimli::DW_ATE_boolean => TypeKind::Boolean,
        gimli::DW_ATE_float => TypeKind::Float,
        _ => TypeKind::Unknown,
    }
}

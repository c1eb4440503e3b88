//! Types as the program's source states them.

use crate::debug_info::EntryId;
use crate::space::ModuleIdx;

/// Names a type of one module. Valid for the [`crate::variables::Variables`] that handed it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId {
    pub(crate) module: ModuleIdx,
    /// `None` for C's `void`.
    pub(crate) entry: Option<EntryId>,
    /// How many indices have been applied to the array that `entry` is.
    pub(crate) indices: u8,
    /// How many times the address of such a value has been taken.
    pub(crate) pointers: u8,
}

impl TypeId {
    pub(crate) fn new(module: ModuleIdx, entry: Option<EntryId>) -> TypeId {
        TypeId { module, entry, indices: 0, pointers: 0 }
    }

    /// The type of a pointer to a value of this type.
    pub fn pointer_to(self) -> TypeId {
        TypeId { pointers: self.pointers.saturating_add(1), ..self }
    }
}

/// A type with its names for types (`typedef`, `const` and the like) seen through.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// As it is written in the source: `const struct session *`, `uint32_t`, `alloc::vec::Vec<u8>`.
    pub name: String,
    /// In bytes; `None` if the debug information does not say (arrays without a bound, undefined structures).
    pub size: Option<u64>,
    pub kind: TypeKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    Void,
    Integer {
        signed: bool,
    },
    /// One letter: `char` and its relatives, Rust's `char`.
    Character {
        signed: bool,
    },
    Boolean,
    Float,
    Enumeration {
        enumerators: Vec<Enumerator>,
    },
    Pointer {
        target: TypeId,
        /// A C++ reference: using it means what it refers to.
        reference: bool,
    },
    /// Also classes; base classes are fields that come first.
    Structure {
        fields: Vec<Field>,
    },
    Union {
        fields: Vec<Field>,
    },
    /// A Rust enum with data, or the like.
    Variants(Variants),
    Array {
        element: TypeId,
        /// `None` if the bound is not known before the program runs.
        count: Option<u64>,
    },
    Function,
    /// Declared, but not defined in this module; or of a kind that is not understood.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumerator {
    pub name: String,
    pub value: i128,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `None` for anonymous structures and unions, whose fields count as the enclosing type's.
    pub name: Option<String>,
    pub type_id: TypeId,
    /// In bytes from the start of the enclosing type. Of a bit field, that of the byte its first bit is in.
    pub offset: u64,
    pub bits: Option<BitRange>,
    /// Whether this is a base class.
    pub base: bool,
}

/// Bits of a bit field, the least significant bit of the byte at the field's offset being number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRange {
    /// Less than 8.
    pub start: u64,
    pub count: u64,
}

impl BitRange {
    /// How many bytes hold some of the bits.
    pub fn bytes(self) -> u64 {
        self.start.saturating_add(self.count).div_ceil(8)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variants {
    /// What tells the variants apart; `None` if there is only one.
    pub discriminant: Option<Field>,
    pub variants: Vec<Variant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The discriminant's value; `None` for the variant that has all values left over.
    pub value: Option<u128>,
    /// Its name is the variant's.
    pub field: Field,
}

impl Type {
    /// The fields of a structure or union; none of anything else.
    pub fn fields(&self) -> &[Field] {
        match &self.kind {
            TypeKind::Structure { fields } | TypeKind::Union { fields } => fields,
            _ => &[],
        }
    }

    pub fn is_aggregate(&self) -> bool {
        matches!(
            self.kind,
            TypeKind::Structure { .. } | TypeKind::Union { .. } | TypeKind::Variants(_) | TypeKind::Array { .. }
        )
    }
}

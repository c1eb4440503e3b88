//! What an expression names at some moment: a place, its type and its size.

use std::collections::VecDeque;
use std::fmt;

use crate::expression::Expression;
use crate::nearest::{nearest, offer};
use crate::qualified_names::qualifier;
use crate::space::GuestAddress;
use crate::types::{BitRange, Field, Type, TypeId, TypeKind};
use crate::variables::{Global, Local, Place, Scope, Variables};

/// More fields than this are not looked at to find one by name.
const MAX_FIELDS: usize = 1 << 16;

/// What an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The expression, as it would be typed.
    pub text: String,
    /// Never optimised out.
    pub place: Place,
    /// `None` if only a symbol table knows the variable, and for plain numbers.
    pub type_id: Option<TypeId>,
    /// In bytes; `None` if not known. Of a bit field, the bytes that hold its bits.
    pub size: Option<u64>,
    pub bits: Option<BitRange>,
}

impl Target {
    pub fn address(&self) -> Option<GuestAddress> {
        match self.place {
            Place::Address(address) => Some(address),
            _ => None,
        }
    }
}

/// Why an expression names nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluationError {
    /// No variable has that name; some have similar names.
    NoVariable { name: String, nearest: Vec<String> },
    /// Several variables have that name; each is given with where it is declared.
    Ambiguous { name: String, candidates: Vec<String> },
    /// The structure has no such field; some have similar names.
    NoField { name: String, base: String, type_name: String, nearest: Vec<String> },
    /// The operation needs another kind of value.
    WrongType { text: String, type_name: String, needed: &'static str },
    /// The variable exists, but is nowhere at this code address.
    OptimisedOut { text: String },
    /// Where the variable is depends on the frame of a running thread, of which too little is given.
    NeedsFrame { text: String },
    /// Every thread has its own; which thread is not known.
    ThreadLocal { text: String },
    /// The value is needed, and memory does not have it.
    Unreadable { text: String },
    /// A value that is in no memory has no address.
    NoAddress { text: String },
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvaluationError::NoVariable { name, nearest } => {
                write!(formatter, "there is no variable `{name}`{}", offer(nearest))
            }
            EvaluationError::Ambiguous { name, candidates } => {
                write!(formatter, "`{name}` can be any of {}", candidates.join(", "))
            }
            EvaluationError::NoField { name, base, type_name, nearest } => {
                write!(formatter, "`{base}` has type `{type_name}`, without a field `{name}`{}", offer(nearest))
            }
            EvaluationError::WrongType { text, type_name, needed } => {
                write!(formatter, "`{text}` has type `{type_name}`, where {needed} is needed")
            }
            EvaluationError::OptimisedOut { text } => write!(formatter, "`{text}` is optimised out here"),
            EvaluationError::NeedsFrame { text } => {
                write!(formatter, "`{text}` is a local variable: its place is known only while a thread is there")
            }
            EvaluationError::ThreadLocal { text } => {
                write!(formatter, "`{text}` is thread-local: every thread has its own")
            }
            EvaluationError::Unreadable { text } => write!(formatter, "the value of `{text}` cannot be read"),
            EvaluationError::NoAddress { text } => write!(formatter, "`{text}` is not in memory and has no address"),
        }
    }
}

impl std::error::Error for EvaluationError {}

type Outcome = Result<Target, EvaluationError>;

impl Variables {
    /// Finds what an expression names. Locals in scope hide globals, as in the language.
    pub fn evaluate(&self, expression: &Expression, scope: &Scope<'_>) -> Outcome {
        let locals = scope.code.map(|code| self.locals(code)).unwrap_or_default();
        self.evaluate_among(expression, scope, &locals)
    }

    /// The same, with the locals given.
    pub(crate) fn evaluate_among(&self, expression: &Expression, scope: &Scope<'_>, locals: &[Local]) -> Outcome {
        Evaluator { variables: self, scope, locals }.evaluate(expression)
    }
}

struct Evaluator<'a> {
    variables: &'a Variables,
    scope: &'a Scope<'a>,
    locals: &'a [Local],
}

impl Evaluator<'_> {
    fn evaluate(&self, expression: &Expression) -> Outcome {
        let mut target = match expression {
            Expression::Name(name) => self.name(name)?,
            Expression::Number(number) => number_target(*number),
            Expression::Field { base, name } => self.field(base, name)?,
            Expression::Arrow { base, name } => {
                let pointer = self.evaluate(base)?;
                self.field_of(self.dereference(&pointer, "a pointer")?, name, base)?
            }
            Expression::Index { base, index } => self.index(base, index)?,
            Expression::Dereference(inner) => self.dereference(&self.evaluate(inner)?, "a pointer")?,
            Expression::AddressOf(inner) => self.address_of(self.evaluate(inner)?)?,
        };
        target.text = expression.to_string();
        if target.place == Place::OptimisedOut {
            return Err(EvaluationError::OptimisedOut { text: target.text });
        }
        self.through_reference(target)
    }

    fn type_of(&self, target: &Target) -> Option<std::rc::Rc<Type>> {
        target.type_id.map(|type_id| self.variables.type_of(type_id))
    }

    fn name(&self, name: &str) -> Outcome {
        if let Some(local) = self.locals.iter().find(|local| local.name == name) {
            return self.local(local);
        }
        if let Some(member) = self.member_of_this(name) {
            return member;
        }
        self.global(name)
    }

    fn local(&self, local: &Local) -> Outcome {
        let text = local.name.clone();
        match self.variables.place(local, self.scope) {
            None => Err(EvaluationError::NeedsFrame { text }),
            Some(place) => Ok(Target { text, place, type_id: Some(local.type_id), size: local.size, bits: None }),
        }
    }

    /// In a C++ method, fields need no `this->`.
    fn member_of_this(&self, name: &str) -> Option<Outcome> {
        let this = self.locals.iter().find(|local| local.name == "this")?;
        let TypeKind::Pointer { target, .. } = self.variables.type_of(this.type_id).kind else {
            return None;
        };
        self.find_field(&self.variables.type_of(target), name)?;
        let base = Expression::Name("this".to_owned());
        Some(self.evaluate(&Expression::Arrow { base: Box::new(base), name: name.to_owned() }))
    }

    fn global(&self, name: &str) -> Outcome {
        let found = self.preferred(name, self.variables.globals_named(name));
        let place = |global: &Global| self.variables.global_place(global, self.scope);
        match found.as_slice() {
            [] => Err(self.no_variable(name)),
            [first, rest @ ..] if rest.iter().all(|other| place(other) == place(first)) => Ok(Target {
                text: name.to_owned(),
                place: place(first),
                type_id: first.type_id,
                size: Some(first.size).filter(|size| *size != 0),
                bits: None,
            }),
            several => {
                let candidates = several.iter().map(|global| self.described(global)).collect();
                Err(EvaluationError::Ambiguous { name: name.to_owned(), candidates })
            }
        }
    }

    fn described(&self, global: &Global) -> String {
        match &global.declared {
            Some(at) => format!("`{}` ({}:{})", global.name, at.file.display(), at.line),
            None => format!("`{}` ({})", global.name, self.variables.space().module(global.module).name()),
        }
    }

    /// Of variables that one name can mean: those of the code's module, or else of the program; of these the ones that the
    /// language would find first; of these the ones of the code's unit. A step that would leave none is skipped.
    fn preferred(&self, name: &str, found: Vec<Global>) -> Vec<Global> {
        let here = self.scope.code.and_then(|code| self.variables.unit_at(code));
        let is_program = |global: &Global| self.variables.module(global.module).is_some_and(|module| module.is_program);
        let is_near = |global: &Global| match here {
            Some((module, _)) => global.module == module,
            None => is_program(global),
        };
        let mut found = keep_if_any(keep_if_any(found, is_near), is_program);
        let function = self.scope.code.and_then(|code| self.variables.function_at(code)).map(|(function, _)| function);
        found = innermost(name, &function.unwrap_or_default(), found);
        keep_if_any(found, |global| {
            here.is_some_and(|(module, unit)| (module, Some(unit)) == (global.module, global.unit))
        })
    }

    fn no_variable(&self, name: &str) -> EvaluationError {
        let locals = self.locals.iter().map(|local| local.name.as_str());
        let nearest = nearest(name, locals.chain(self.variables.global_names()));
        EvaluationError::NoVariable { name: name.to_owned(), nearest }
    }

    /// `.` also reaches through a pointer: there is nothing else that it could mean.
    fn field(&self, base: &Expression, name: &str) -> Outcome {
        let target = self.evaluate(base)?;
        let is_pointer = self.type_of(&target).is_some_and(|found| matches!(found.kind, TypeKind::Pointer { .. }));
        let target = if is_pointer { self.dereference(&target, "a structure")? } else { target };
        self.field_of(target, name, base)
    }

    fn field_of(&self, target: Target, name: &str, base: &Expression) -> Outcome {
        let Some(found) = self.type_of(&target).filter(|found| found.is_aggregate()) else {
            return Err(self.wrong_type(&target, "a structure"));
        };
        let Some((offset, field)) = self.find_field(&found, name) else {
            let nearest = nearest(name, found.fields().iter().filter_map(|field| field.name.as_deref()));
            let (name, base, type_name) = (name.to_owned(), base.to_string(), found.name.clone());
            return Err(EvaluationError::NoField { name, base, type_name, nearest });
        };
        let size = match field.bits {
            Some(bits) => Some(bits.bytes()),
            None => self.variables.type_of(field.type_id).size,
        };
        let place = target.place.part(offset, size.unwrap_or(0));
        Ok(Target { place, type_id: Some(field.type_id), size, bits: field.bits, text: String::new() })
    }

    /// The field and its offset; fields of anonymous parts and of base classes count as the type's own.
    fn find_field(&self, found: &Type, name: &str) -> Option<(u64, Field)> {
        let mut own = found.fields().to_vec();
        if let TypeKind::Variants(variants) = &found.kind {
            own.extend(variants.variants.iter().map(|variant| variant.field.clone()));
        }
        // Outer fields hide inner ones, so those of all parts of one depth come before what is nested in the parts.
        let mut waiting: VecDeque<(u64, Field)> = own.into_iter().map(|field| (field.offset, field)).collect();
        for _ in 0..MAX_FIELDS {
            let (offset, field) = waiting.pop_front()?;
            if !field.base && field.name.as_deref() == Some(name) {
                return Some((offset, field));
            }
            if field.base || field.name.is_none() {
                let inner = self.variables.type_of(field.type_id);
                waiting.extend(inner.fields().iter().map(|field| (offset.wrapping_add(field.offset), field.clone())));
            }
        }
        None
    }

    fn index(&self, base: &Expression, index: &Expression) -> Outcome {
        let number = self.integer(&self.evaluate(index)?)?;
        let target = self.evaluate(base)?;
        let kind = self.type_of(&target).map(|found| found.kind.clone());
        let (start, element) = match kind {
            Some(TypeKind::Array { element, .. }) => (target.place.clone(), element),
            Some(TypeKind::Pointer { target: element, .. }) => {
                (Place::Address(GuestAddress(self.pointer(&target)?)), element)
            }
            _ => return Err(self.wrong_type(&target, "an array or a pointer")),
        };
        let size = self.variables.type_of(element).size;
        let Some(size) = size else {
            return Err(self.wrong_type(&target, "an array of elements with a known size"));
        };
        let place = start.part(size.wrapping_mul(number as u64), size);
        Ok(Target { place, type_id: Some(element), size: Some(size), bits: None, text: String::new() })
    }

    fn dereference(&self, target: &Target, needed: &'static str) -> Outcome {
        let kind = self.type_of(target).map(|found| found.kind.clone());
        let (place, element) = match kind {
            Some(TypeKind::Pointer { target: pointee, .. }) => {
                (Place::Address(GuestAddress(self.pointer(target)?)), pointee)
            }
            Some(TypeKind::Array { element, .. }) => (target.place.clone(), element),
            _ => return Err(self.wrong_type(target, needed)),
        };
        let size = self.variables.type_of(element).size;
        let target = Target { place, type_id: Some(element), size, bits: None, text: format!("*{}", target.text) };
        self.through_reference(target)
    }

    /// A C++ reference is never meant itself.
    fn through_reference(&self, target: Target) -> Outcome {
        match self.type_of(&target).map(|found| found.kind.clone()) {
            Some(TypeKind::Pointer { target: referred, reference: true }) => {
                let place = Place::Address(GuestAddress(self.pointer(&target)?));
                let size = self.variables.type_of(referred).size;
                Ok(Target { place, type_id: Some(referred), size, bits: None, text: target.text })
            }
            _ => Ok(target),
        }
    }

    fn address_of(&self, target: Target) -> Outcome {
        match (&target.place, target.bits) {
            (Place::Address(address), None) => {
                let type_id = target.type_id.map(TypeId::pointer_to);
                let place = Place::Constant(address.0.to_le_bytes().to_vec());
                Ok(Target { place, type_id, size: Some(8), bits: None, text: String::new() })
            }
            (Place::ThreadLocal { .. }, _) => Err(EvaluationError::ThreadLocal { text: target.text }),
            _ => Err(EvaluationError::NoAddress { text: target.text }),
        }
    }

    fn wrong_type(&self, target: &Target, needed: &'static str) -> EvaluationError {
        let type_name = self.type_of(target).map_or("unknown".to_owned(), |found| found.name.clone());
        EvaluationError::WrongType { text: target.text.clone(), type_name, needed }
    }

    fn pointer(&self, target: &Target) -> Result<u64, EvaluationError> {
        let bytes = self.read(target, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn integer(&self, target: &Target) -> Result<i128, EvaluationError> {
        let kind = self.type_of(target).map(|found| found.kind.clone());
        let signed = match kind {
            None if matches!(target.place, Place::Constant(_)) => false,
            Some(TypeKind::Integer { signed } | TypeKind::Character { signed }) => signed,
            Some(TypeKind::Enumeration { .. } | TypeKind::Boolean) => false,
            _ => return Err(self.wrong_type(target, "an integer")),
        };
        let bytes = self.read(target, target.size.unwrap_or(8).min(8))?;
        Ok(crate::values::integer(&bytes, target.bits, signed))
    }

    fn read(&self, target: &Target, size: u64) -> Result<Vec<u8>, EvaluationError> {
        let text = target.text.clone();
        if matches!(target.place, Place::ThreadLocal { .. }) {
            return Err(EvaluationError::ThreadLocal { text });
        }
        let bytes = target.place.read(size, self.scope.registers, self.scope.memory);
        bytes.ok_or(EvaluationError::Unreadable { text })
    }
}

fn keep_if_any(found: Vec<Global>, wanted: impl Fn(&Global) -> bool) -> Vec<Global> {
    if found.iter().any(&wanted) { found.into_iter().filter(wanted).collect() } else { found }
}

/// Those in the innermost of the namespaces, classes and functions around the code that have such a variable at all.
fn innermost(name: &str, function: &str, found: Vec<Global>) -> Vec<Global> {
    let around = format!("{function}::");
    let depth = |global: &Global| {
        let prefix = qualifier(&global.name, name)?;
        around.starts_with(&prefix).then_some(prefix.len())
    };
    let deepest = found.iter().filter_map(depth).max();
    keep_if_any(found, |global| deepest.is_some() && depth(global) == deepest)
}

fn number_target(number: u64) -> Target {
    let place = Place::Constant(number.to_le_bytes().to_vec());
    Target { text: number.to_string(), place, type_id: None, size: Some(8), bits: None }
}

//! Evaluates location expressions and location lists: where a variable is, given a frame.
//!
//! Values that only the function's entry knew (`DW_OP_entry_value`) or the caller knows are not sought; such variables
//! count as optimised out.

use gimli::{
    AttributeValue, DieReference, Evaluation, EvaluationResult, Expression, Location, Register, Value, ValueType,
};

use crate::call_frames::Step;
use crate::debug_info::{DebugInfo, EntryId};
use crate::elf::Bytes;
use crate::places::{Piece, Place, RegisterNumber};
use crate::registers::Registers;
use crate::space::{FileVma, GuestAddress, Module, ModuleIdx};
use crate::type_entries::number;
use crate::unwind::Memory;

/// Generous for any expression a compiler writes; ends those that loop.
const MAX_OPERATIONS: u32 = 10_000;
/// A value in more pieces is damaged.
const MAX_PIECES: usize = 1024;

/// A longer list of locations is damaged.
const MAX_LOCATIONS: usize = 1 << 16;

/// A frame in which locations are evaluated. What is absent makes the places that depend on it unknown.
#[derive(Clone, Copy)]
pub(crate) struct LocationFrame<'a> {
    pub module_idx: ModuleIdx,
    pub module: &'a Module,
    /// Inside the instruction that the frame executes.
    pub address: Option<FileVma>,
    /// The function whose frame it is.
    pub function: Option<EntryId>,
    pub registers: Option<&'a Registers>,
    pub memory: Option<&'a dyn Memory>,
    /// What the stack pointer was before the call that made the frame, if that is known without registers.
    pub frame_address: Option<u64>,
    /// Where the module's thread-local block starts in the current thread.
    pub thread_local_start: Option<u64>,
}

/// What stops an evaluation.
enum Stop {
    /// The place is a thread-local one of a thread that is not known.
    ThreadLocal(u64),
    /// It could be told with registers or memory.
    NeedsFrame,
    OptimisedOut,
}

/// What is known about where a variable is.
#[derive(Debug, PartialEq)]
pub(crate) enum Located {
    At(Place),
    /// Registers or memory are needed to tell.
    NeedsFrame,
}

/// Where the variable that an entry declares is; `size` is its type's.
pub(crate) fn locate(debug_info: &DebugInfo, frame: &LocationFrame<'_>, id: EntryId, size: Option<u64>) -> Located {
    let Some((holder, value)) = location_or_constant(debug_info, id) else {
        return Located::At(Place::OptimisedOut);
    };
    let evaluator = Evaluator { debug_info, frame, unit: holder.unit };
    let outcome = match value {
        Attribute::Constant(value) => Ok(constant(value, size)),
        Attribute::Location(value) => {
            evaluator.choose(value).ok_or(Stop::OptimisedOut).and_then(|expression| evaluator.place(expression, size))
        }
    };
    match outcome {
        Ok(place) => Located::At(place),
        Err(Stop::ThreadLocal(offset)) => Located::At(Place::ThreadLocal { module: frame.module_idx, offset }),
        Err(Stop::NeedsFrame) => Located::NeedsFrame,
        Err(Stop::OptimisedOut) => Located::At(Place::OptimisedOut),
    }
}

enum Attribute {
    Location(AttributeValue<Bytes>),
    Constant(AttributeValue<Bytes>),
}

fn location_or_constant(debug_info: &DebugInfo, id: EntryId) -> Option<(EntryId, Attribute)> {
    debug_info.origins(id).into_iter().find_map(|(id, entry)| {
        let location = entry.attr_value(gimli::DW_AT_location).map(Attribute::Location);
        let attribute = location.or_else(|| entry.attr_value(gimli::DW_AT_const_value).map(Attribute::Constant));
        Some((id, attribute?))
    })
}

fn constant(value: AttributeValue<Bytes>, size: Option<u64>) -> Place {
    let bytes = match &value {
        AttributeValue::Block(bytes) => bytes.bytes().to_vec(),
        AttributeValue::String(text) => text.bytes().to_vec(),
        value => match number(value) {
            Some(number) => number.to_le_bytes()[..size.unwrap_or(8).min(16) as usize].to_vec(),
            None => return Place::OptimisedOut,
        },
    };
    Place::Constant(bytes)
}

struct Evaluator<'a> {
    debug_info: &'a DebugInfo,
    frame: &'a LocationFrame<'a>,
    unit: u32,
}

impl Evaluator<'_> {
    /// The expression that holds at the frame's address.
    fn choose(&self, value: AttributeValue<Bytes>) -> Option<Expression<Bytes>> {
        if let Some(expression) = value.exprloc_value() {
            return Some(expression);
        }
        let (dwarf, unit) = self.debug_info.unit(self.unit)?;
        let address = self.frame.address?.0;
        let mut list = dwarf.attr_locations(unit, value).ok()??;
        let locations = std::iter::from_fn(|| list.next().ok().flatten()).take(MAX_LOCATIONS);
        let mut here = locations.filter(|entry| (entry.range.begin..entry.range.end).contains(&address));
        here.next().map(|entry| entry.data)
    }

    fn place(&self, expression: Expression<Bytes>, size: Option<u64>) -> Result<Place, Stop> {
        let pieces = self.evaluate(expression, true)?;
        if let [gimli::Piece { size_in_bits: None, location, .. }] = pieces.as_slice() {
            return Ok(self.simple_place(location, size));
        }
        if pieces.is_empty() || pieces.len() > MAX_PIECES {
            return Ok(Place::OptimisedOut);
        }
        let parts: Option<Vec<Piece>> = pieces.iter().map(|piece| self.piece(piece)).collect();
        Ok(parts.map_or(Place::OptimisedOut, Place::Pieces))
    }

    /// `None` for pieces that do not consist of whole bytes.
    fn piece(&self, piece: &gimli::Piece<Bytes>) -> Option<Piece> {
        let whole_bytes = |bits: u64| bits.is_multiple_of(8).then_some(bits / 8);
        let size = whole_bytes(piece.size_in_bits?)?;
        let offset = whole_bytes(piece.bit_offset.unwrap_or(0))?;
        Some(Piece { place: self.simple_place(&piece.location, Some(size)), offset, size })
    }

    fn simple_place(&self, location: &Location<Bytes>, size: Option<u64>) -> Place {
        match location {
            Location::Address { address } => Place::Address(GuestAddress(*address)),
            Location::Register { register } => Place::Register(RegisterNumber(register.0)),
            Location::Bytes { value } => Place::Constant(value.bytes().to_vec()),
            Location::Value { value } => {
                let bytes = value_bytes(*value);
                let length = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(bytes.len());
                Place::Constant(bytes[..length.min(bytes.len())].to_vec())
            }
            Location::Empty | Location::ImplicitPointer { .. } => Place::OptimisedOut,
        }
    }

    /// `with_frame_base` is false where the frame base itself is computed.
    fn evaluate(&self, expression: Expression<Bytes>, with_frame_base: bool) -> Result<Vec<gimli::Piece<Bytes>>, Stop> {
        if expression.0.bytes().is_empty() {
            return Err(Stop::OptimisedOut);
        }
        let (_, unit) = self.debug_info.unit(self.unit).ok_or(Stop::OptimisedOut)?;
        let mut evaluation = expression.evaluation(unit.encoding());
        evaluation.set_max_iterations(MAX_OPERATIONS);
        let mut request = evaluation.evaluate().map_err(|_| Stop::OptimisedOut)?;
        while request != EvaluationResult::Complete {
            let answered = self.answer(&mut evaluation, request, with_frame_base)?;
            request = answered.ok_or(Stop::OptimisedOut)?;
        }
        Ok(evaluation.result())
    }

    /// Gives the evaluation what it asks for; `None` if that cannot be had in any frame.
    fn answer(
        &self,
        evaluation: &mut Evaluation<Bytes>,
        request: EvaluationResult<Bytes>,
        with_frame_base: bool,
    ) -> Result<Option<EvaluationResult<Bytes>>, Stop> {
        Ok(match request {
            EvaluationResult::RequiresMemory { address, size, base_type, space: None } => {
                let bytes = self.read(address, size)?;
                let kind = self.value_type(base_type.0);
                kind.and_then(|kind| evaluation.resume_with_memory(from_bytes(kind, bytes)?).ok())
            }
            EvaluationResult::RequiresRegister { register, base_type } => {
                let value = self.register(register)?;
                let kind = self.value_type(base_type.0);
                kind.and_then(|kind| evaluation.resume_with_register(from_bytes(kind, value)?).ok())
            }
            EvaluationResult::RequiresFrameBase if with_frame_base => {
                evaluation.resume_with_frame_base(self.frame_base()?).ok()
            }
            EvaluationResult::RequiresCallFrameCfa => evaluation.resume_with_call_frame_cfa(self.frame_address()?).ok(),
            EvaluationResult::RequiresTls(offset) => match self.frame.thread_local_start {
                Some(start) => evaluation.resume_with_tls(start.wrapping_add(offset)).ok(),
                None => return Err(Stop::ThreadLocal(offset)),
            },
            EvaluationResult::RequiresAtLocation(reference) => {
                let called = self.called(reference);
                called.and_then(|expression| evaluation.resume_with_at_location(expression.0).ok())
            }
            EvaluationResult::RequiresRelocatedAddress(address) => {
                evaluation.resume_with_relocated_address(self.guest(address)).ok()
            }
            EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                let unit = self.debug_info.unit(self.unit);
                let address = unit.and_then(|(dwarf, unit)| dwarf.address(unit, index).ok());
                let address = address.map(|address| if relocate { self.guest(address) } else { address });
                address.and_then(|address| evaluation.resume_with_indexed_address(address).ok())
            }
            EvaluationResult::RequiresBaseType(offset) => {
                let kind = self.value_type(offset.0);
                kind.and_then(|kind| evaluation.resume_with_base_type(kind).ok())
            }
            _ => None,
        })
    }

    fn guest(&self, address: u64) -> u64 {
        self.frame.module.guest_address(FileVma(address)).0
    }

    fn read(&self, address: u64, size: u8) -> Result<u64, Stop> {
        let memory = self.frame.memory.ok_or(Stop::NeedsFrame)?;
        let mut word = [0; 8];
        let buffer = word.get_mut(..usize::from(size)).ok_or(Stop::OptimisedOut)?;
        if memory.read(address, buffer) { Ok(u64::from_le_bytes(word)) } else { Err(Stop::OptimisedOut) }
    }

    fn register(&self, register: Register) -> Result<u64, Stop> {
        let registers = self.frame.registers.ok_or(Stop::NeedsFrame)?;
        registers.by_dwarf_number(register).ok_or(Stop::OptimisedOut)
    }

    /// Address of the frame: what the stack pointer was before the call that made it.
    fn frame_address(&self) -> Result<u64, Stop> {
        if let Some(known) = self.frame.frame_address {
            return Ok(known);
        }
        let registers = self.frame.registers.ok_or(Stop::NeedsFrame)?;
        let memory = self.frame.memory.ok_or(Stop::NeedsFrame)?;
        let address = self.frame.address.ok_or(Stop::NeedsFrame)?;
        let step = self.frame.module.call_frames().step(address, registers, memory);
        match step {
            Some(Step::Caller(outer) | Step::Interrupted(outer)) => outer.sp().ok_or(Stop::OptimisedOut),
            Some(Step::Outermost) | None => Err(Stop::OptimisedOut),
        }
    }

    fn frame_base(&self) -> Result<u64, Stop> {
        let function = self.frame.function.ok_or(Stop::OptimisedOut)?;
        let found = self.debug_info.inherited(function, gimli::DW_AT_frame_base);
        let (holder, value) = found.ok_or(Stop::OptimisedOut)?;
        let evaluator = Evaluator { unit: holder.unit, ..*self };
        let expression = evaluator.choose(value).ok_or(Stop::OptimisedOut)?;
        let pieces = evaluator.evaluate(expression, false)?;
        match pieces.as_slice() {
            [gimli::Piece { location: Location::Address { address }, .. }] => Ok(*address),
            [gimli::Piece { location: Location::Register { register }, .. }] => self.register(*register),
            [gimli::Piece { location: Location::Value { value }, .. }] => {
                value.to_u64(u64::MAX).map_err(|_| Stop::OptimisedOut)
            }
            _ => Err(Stop::OptimisedOut),
        }
    }

    /// The location expression of another entry, which an expression may call like a procedure.
    fn called(&self, reference: DieReference) -> Option<Expression<Bytes>> {
        let value = match reference {
            DieReference::UnitRef(offset) => AttributeValue::UnitRef(offset),
            DieReference::DebugInfoRef(offset) => AttributeValue::DebugInfoRef(offset),
        };
        let id = self.debug_info.reference(EntryId { unit: self.unit, offset: 0 }, value)?;
        self.debug_info.entry(id)?.attr_value(gimli::DW_AT_location)?.exprloc_value()
    }

    fn value_type(&self, offset: usize) -> Option<ValueType> {
        if offset == 0 {
            return Some(ValueType::Generic);
        }
        ValueType::from_entry(&self.debug_info.entry(EntryId { unit: self.unit, offset })?).ok()?
    }
}

fn from_bytes(kind: ValueType, word: u64) -> Option<Value> {
    match kind {
        ValueType::Generic => Some(Value::Generic(word)),
        kind => Value::parse(kind, Bytes::new(word.to_le_bytes().into(), gimli::LittleEndian)).ok(),
    }
}

fn value_bytes(value: Value) -> Vec<u8> {
    match value {
        Value::F32(value) => value.to_le_bytes().to_vec(),
        Value::F64(value) => value.to_le_bytes().to_vec(),
        value => value.to_u64(u64::MAX).unwrap_or(0).to_le_bytes().to_vec(),
    }
}

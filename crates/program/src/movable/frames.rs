//! Variables in frames of the program's functions, by its debug information and unwinding rules.

use super::{Movable, MovablePlace, Movables, has_memory_operand, in_memory, instructions, is_plain};
use crate::call_frames::FrameRow;
use crate::declarations::FunctionEntry;
use crate::scopes::Within;
use crate::space::{FileVma, GuestAddress, ModuleIdx};
use crate::variables::{Place, Scope, Variables};
use iced_x86::{Code, Instruction, Mnemonic, Register};
use std::collections::BTreeSet;

/// Where frames are put to see where variables lie in them.
const FRAME: u64 = 1 << 40;
/// No frame is larger.
const LARGEST: u64 = 1 << 22;
/// An index may be counted from so far before an array.
const BIAS: i64 = 16;
const LONGEST_INSTRUCTION: u64 = 15;
const DWARF_RBP: u16 = 6;
const DWARF_RSP: u16 = 7;

/// A variable of a frame.
struct Slot {
    name: String,
    offset: i64,
    size: i64,
    is_movable: bool,
    references: BTreeSet<u64>,
    ends: BTreeSet<u64>,
    stays: bool,
}

impl Slot {
    fn end(&self) -> i64 {
        self.offset + self.size
    }

    fn holds(&self, offset: i64) -> bool {
        (self.offset..self.end()).contains(&offset)
    }
}

/// A variable of a frame that an instruction names by a register and a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLocal {
    pub name: String,
    pub size: u64,
    /// Where the variable begins, from what the register holds.
    pub start: i64,
    /// The constant.
    pub displacement: i64,
    pub is_indexed: bool,
    /// Where another variable begins that ends at the constant: either of them may be meant.
    pub ends: Option<i64>,
}

/// The variable that the instruction at `pc` names; none where debug information does not tell.
pub fn named_local(variables: &Variables, pc: GuestAddress) -> Option<NamedLocal> {
    let (module_idx, vma) = variables.space().locate(pc)?;
    let (_, _, declarations) = variables.debug_module(module_idx)?;
    let function = declarations.function_at(vma.0)?;
    let range = function.ranges.iter().find(|range| range.contains(&vma.0))?;
    let module = variables.space().module(module_idx);
    let rows = module.call_frames().rows(FileVma(range.start));
    let instruction = *instructions(module.image()?, &(vma.0..range.end.min(vma.0 + LONGEST_INSTRUCTION))).first()?;
    let offset = named(&instruction, &rows)?;
    let is_indexed = instruction.memory_index() != Register::None;
    let slots = slots(variables, module_idx, function);
    let slot = &slots[chosen(&slots, offset, is_indexed)?];
    let displacement = if has_memory_operand(&instruction) { instruction.memory_displacement64() as i64 } else { 0 };
    let from_register = |place: i64| place - offset + displacement;
    let ends = slots.iter().find(|slot| slot.end() == offset && !is_indexed).map(|slot| from_register(slot.offset));
    let start = from_register(slot.offset);
    Some(NamedLocal { name: slot.name.clone(), size: slot.size as u64, start, displacement, is_indexed, ends })
}

pub(super) fn find(variables: &Variables, module_idx: ModuleIdx, movables: &mut Movables) {
    let Some((_, debug_info, declarations)) = variables.debug_module(module_idx) else {
        movables
            .remarks
            .push("the program has no debug information: variables on the stack stay where they are".to_owned());
        return;
    };
    let module = variables.space().module(module_idx);
    for function in &declarations.functions {
        let mut slots = slots(variables, module_idx, function);
        if !slots.iter().any(|slot| slot.is_movable) {
            continue;
        }
        refer(variables, module_idx, function, &mut slots);
        let entry = in_memory(module, function.ranges[0].start);
        let name = declarations.function_name(debug_info, function).unwrap_or_else(|| "?".to_owned());
        for slot in slots.into_iter().filter(|slot| slot.is_movable && !slot.references.is_empty()) {
            let full = format!("{name}:{}", slot.name);
            if slot.stays {
                movables.fixed.push((full, "a branch goes through it"));
                continue;
            }
            let guest = |found: BTreeSet<u64>| found.into_iter().map(|address| in_memory(module, address)).collect();
            movables.locals.push(Movable {
                name: full,
                place: MovablePlace::Frame { function: entry, offset: slot.offset },
                size: slot.size as u64,
                references: guest(slot.references),
                ends: guest(slot.ends),
            });
        }
    }
}

/// The variables of a function's frame, those of inlined functions too, in order; those that share memory are one.
fn slots(variables: &Variables, module_idx: ModuleIdx, function: &FunctionEntry) -> Vec<Slot> {
    let Some((module, debug_info, declarations)) = variables.debug_module(module_idx) else { return Vec::new() };
    let scope = Scope { frame_address: Some(FRAME), ..Scope::default() };
    let mut slots: Vec<Slot> = Vec::new();
    for local in module.locals(debug_info, declarations, function, Within::Everywhere) {
        let Some(Place::Address(address)) = variables.place(&local, &scope) else { continue };
        let offset = address.0.wrapping_sub(FRAME) as i64;
        let size = local.size.unwrap_or(0);
        if size == 0 || size > LARGEST || offset.unsigned_abs() > LARGEST {
            continue;
        }
        let is_movable = !local.parameter && offset < 0 && variables.type_of(local.type_id).is_aggregate();
        let (references, ends) = (BTreeSet::new(), BTreeSet::new());
        let (name, size) = (local.name, size as i64);
        slots.push(Slot { name, offset, size, is_movable, references, ends, stays: false });
    }
    slots.sort_by_key(|slot| (slot.offset, -slot.size));
    slots.dedup_by(|later, first| {
        let overlaps = later.offset < first.end();
        if overlaps {
            first.size = first.size.max(later.end() - first.offset);
            first.is_movable &= later.is_movable;
        }
        overlaps
    });
    slots
}

fn refer(variables: &Variables, module_idx: ModuleIdx, function: &FunctionEntry, slots: &mut [Slot]) {
    let module = variables.space().module(module_idx);
    let Some(image) = module.image() else { return };
    for range in &function.ranges {
        let rows = module.call_frames().rows(FileVma(range.start));
        for instruction in instructions(image, range) {
            if let Some(offset) = named(&instruction, &rows) {
                note(&instruction, offset, slots);
            }
        }
    }
}

/// The place of the frame that an instruction names, from what the stack pointer was before the call.
fn named(instruction: &Instruction, rows: &[FrameRow]) -> Option<i64> {
    let row = rows.iter().find(|row| row.code.contains(&instruction.ip()))?;
    let base = match row.register {
        DWARF_RBP => Register::RBP,
        DWARF_RSP => Register::RSP,
        _ => return None,
    };
    let is_copy = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64);
    // Frames are made by copies, too.
    let has_frame_pointer = rows.iter().any(|row| row.register == DWARF_RBP);
    let makes_frame = |register| register == Register::RSP || has_frame_pointer && register == Register::RBP;
    let is_pointer = |register: Register| register.is_gpr64() && !makes_frame(register);
    if is_copy && instruction.op1_register() == base && is_pointer(instruction.op0_register()) {
        return Some(-row.offset);
    }
    let is_there = has_memory_operand(instruction) && instruction.memory_base() == base;
    is_there.then(|| instruction.memory_displacement64() as i64 - row.offset)
}

fn note(instruction: &Instruction, offset: i64, slots: &mut [Slot]) {
    let pc = instruction.ip();
    let is_indexed = instruction.memory_index() != Register::None;
    if let Some(chosen) = chosen(slots, offset, is_indexed) {
        slots[chosen].references.insert(pc);
        slots[chosen].stays |= !is_plain(instruction);
    }
    let is_address = instruction.mnemonic() == Mnemonic::Lea && !is_indexed;
    if let Some(before) = slots.iter_mut().find(|slot| slot.end() == offset).filter(|_| is_address) {
        // Something may begin there of which nothing is known.
        before.ends.insert(pc);
    }
}

/// The variable that an operand means.
fn chosen(slots: &[Slot], offset: i64, is_indexed: bool) -> Option<usize> {
    let holder = slots.iter().position(|slot| slot.holds(offset));
    // What is indexed is an array: the constant may count from before its start.
    let indexed = || {
        let near = |slot: &Slot| slot.is_movable && (slot.offset - BIAS..slot.offset).contains(&offset);
        slots.iter().position(near).filter(|_| is_indexed)
    };
    match holder.filter(|holder| !is_indexed || slots[*holder].is_movable) {
        Some(holder) => Some(holder),
        None => indexed().or(holder),
    }
}

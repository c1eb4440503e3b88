//! Reading the jump tables that gcc and clang make of `switch`.
//!
//! A jump through a table is preceded by a comparison that bounds its index, and loads either an address or a distance from
//! the table's own start:
//!
//! ```text
//!   cmp edi, 5                       cmp edi, 5
//!   ja  default                      ja  default
//!   jmp [table + rdi*8]              lea rdx, [rip + table]
//!                                    movsxd rax, dword [rdx + rdi*4]
//!                                    add rax, rdx
//!                                    jmp rax
//! ```
//!
//! The instructions are looked for on the way by which the jump was first come to. Where one of them is missing, or an entry
//! leads out of the function, the table counts as unread.

use super::Code;
use crate::space::GuestAddress;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::BTreeSet;

/// How many instructions ahead of a jump can be part of its pattern.
const LONGEST_PATTERN: usize = 40;

/// More entries than a `switch` has whose table compilers put into one.
const MOST_ENTRIES: u64 = 4096;

/// An instruction on the way to a jump.
#[derive(Clone, Debug)]
pub(super) struct Step {
    instruction: Instruction,
    /// Whether it is a branch that was taken.
    taken: bool,
}

pub(super) fn step(trail: &mut Vec<Step>, instruction: &Instruction, taken: bool) {
    if trail.len() == LONGEST_PATTERN {
        trail.remove(0);
    }
    trail.push(Step { instruction: *instruction, taken });
}

struct Table {
    start: u64,
    /// What its entries are distances from; they are addresses without.
    relative_to: Option<u64>,
}

/// Where a jump through a table can lead, in order.
pub(super) fn targets(jump: &Instruction, trail: &[Step], code: &impl Code) -> Option<Vec<u64>> {
    let table = match jump.op0_kind() {
        OpKind::Memory => absolute(jump, trail)?,
        OpKind::Register => by_register(jump.op0_register(), trail)?,
        _ => return None,
    };
    let n_entries = bound(trail).filter(|n_entries| (1..=MOST_ENTRIES).contains(n_entries))?;
    let entries: Option<BTreeSet<u64>> = (0..n_entries).map(|entry| read_entry(&table, entry, code)).collect();
    let entries = entries?;
    entries.iter().all(|target| code.is_inside(GuestAddress(*target))).then(|| entries.into_iter().collect())
}

fn read_entry(table: &Table, entry: u64, code: &impl Code) -> Option<u64> {
    match table.relative_to {
        Some(base) => {
            let distance = i32::from_le_bytes(read(code, table.start.wrapping_add(entry * 4))?);
            Some(base.wrapping_add_signed(i64::from(distance)))
        }
        None => Some(u64::from_le_bytes(read(code, table.start.wrapping_add(entry * 8))?)),
    }
}

fn read<const SIZE: usize>(code: &impl Code, at: u64) -> Option<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    (code.read(GuestAddress(at), &mut bytes) >= SIZE).then_some(bytes)
}

/// A table of addresses that an instruction loads from.
fn absolute(load: &Instruction, trail: &[Step]) -> Option<Table> {
    Some(Table { start: table_start(load, trail)?, relative_to: None })
}

fn by_register(register: Register, trail: &[Step]) -> Option<Table> {
    let (before, definition) = definition(register, trail)?;
    match definition.mnemonic() {
        Mnemonic::Mov if definition.op1_kind() == OpKind::Memory && definition.op0_register().size() == 8 => {
            absolute(&definition, before)
        }
        Mnemonic::Add if definition.op1_kind() == OpKind::Register => {
            relative(definition.op0_register(), definition.op1_register(), before)
        }
        _ => None,
    }
}

/// The table whose entry is in one of two registers, and its start in the other.
fn relative(one: Register, other: Register, trail: &[Step]) -> Option<Table> {
    [(one, other), (other, one)].into_iter().find_map(|(entry, base)| {
        let base = constant(base, trail)?;
        let start = loaded_from(entry, trail)?;
        Some(Table { start, relative_to: Some(base) })
    })
}

/// The table that a register's sign-extended entry was loaded from.
fn loaded_from(register: Register, trail: &[Step]) -> Option<u64> {
    let (before, definition) = definition(register, trail)?;
    match definition.mnemonic() {
        Mnemonic::Movsxd | Mnemonic::Mov if definition.op1_kind() == OpKind::Memory => table_start(&definition, before),
        Mnemonic::Movsxd if definition.op1_kind() == OpKind::Register => {
            loaded_from(definition.op1_register().full_register(), before)
        }
        Mnemonic::Cdqe => loaded_from(register, before),
        _ => None,
    }
}

/// The part of an operand's address that does not depend on the index.
fn table_start(load: &Instruction, trail: &[Step]) -> Option<u64> {
    let displacement = load.memory_displacement64();
    let registers = [load.memory_base(), load.memory_index()];
    let mut used = registers.into_iter().filter(|register| *register != Register::None).peekable();
    used.peek()?;
    match used.find_map(|register| constant(register, trail)) {
        Some(base) => Some(base.wrapping_add(displacement)),
        None => (displacement != 0 && load.memory_base() == Register::None).then_some(displacement),
    }
}

/// What a register holds if it was given an address or a number.
fn constant(register: Register, trail: &[Step]) -> Option<u64> {
    let (before, definition) = definition(register, trail)?;
    match (definition.mnemonic(), definition.op1_kind()) {
        (Mnemonic::Lea, _) if definition.is_ip_rel_memory_operand() => Some(definition.ip_rel_memory_address()),
        (Mnemonic::Mov, OpKind::Register) => constant(definition.op1_register(), before),
        (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64) => {
            Some(definition.immediate(1))
        }
        _ => None,
    }
}

/// The last instruction that wrote a register, and the way up to it.
fn definition(register: Register, trail: &[Step]) -> Option<(&[Step], Instruction)> {
    let wanted = register.full_register();
    let mut factory = InstructionInfoFactory::new();
    let place = trail.iter().rposition(|step| {
        let info = factory.info(&step.instruction);
        info.used_registers().iter().any(|used| used.register().full_register() == wanted && writes(used.access()))
    })?;
    Some((&trail[..place], trail[place].instruction))
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// How many entries the nearest comparison, or mask, on the way leaves to the index.
fn bound(trail: &[Step]) -> Option<u64> {
    let place = trail.iter().rposition(|step| admits_equal(step).is_some() || mask(&step.instruction).is_some())?;
    if let Some(mask) = mask(&trail[place].instruction) {
        return mask.checked_add(1);
    }
    let compare = trail[..place].iter().rfind(|step| step.instruction.mnemonic() == Mnemonic::Cmp)?.instruction;
    let limit = match compare.op1_kind() {
        OpKind::Immediate8 | OpKind::Immediate16 | OpKind::Immediate32 => compare.immediate(1),
        OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
            compare.immediate(1)
        }
        _ => return None,
    };
    limit.checked_add(u64::from(admits_equal(&trail[place])?))
}

/// For a branch that leaves an index below a limit: whether it may equal the limit.
fn admits_equal(step: &Step) -> Option<bool> {
    match (step.instruction.mnemonic(), step.taken) {
        (Mnemonic::Ja, false) | (Mnemonic::Jbe, true) => Some(true),
        (Mnemonic::Jae, false) | (Mnemonic::Jb, true) => Some(false),
        _ => None,
    }
}

/// The mask of an `and` with a small number that has all low bits set.
fn mask(instruction: &Instruction) -> Option<u64> {
    let is_mask = instruction.mnemonic() == Mnemonic::And && instruction.op0_kind() == OpKind::Register;
    let is_number = matches!(
        instruction.op1_kind(),
        OpKind::Immediate8 | OpKind::Immediate8to32 | OpKind::Immediate8to64 | OpKind::Immediate32
    );
    let mask = (is_mask && is_number).then(|| instruction.immediate(1))?;
    (mask < MOST_ENTRIES && (mask + 1).is_power_of_two()).then_some(mask)
}

//! Variables that could lie elsewhere: which instructions of the program name each of them, so that all would follow if it
//! were moved.
//!
//! Only variables that can be overrun count: arrays and structures. Whatever has no symbol or debug information, and what
//! others than the program's own code know the address of, stays where it is.
//!
//! May go wrong: an address that is computed from that of another variable; the end of a variable where the next one
//! begins (told as `ends`); code that no symbol or section tells of.

mod frames;
mod globals;

pub use frames::{NamedLocal, named_local};

use crate::elf::Image;
use crate::module_variables::is_program;
use crate::space::{GuestAddress, Module, ModuleIdx};
use crate::variables::Variables;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use object::Object;
use std::ops::Range;

/// A variable that can be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movable {
    /// As the source has it: `street`; of a frame, `print_address:street`.
    pub name: String,
    pub place: MovablePlace,
    pub size: u64,
    /// Instructions that name it by a memory operand, or copy the stack pointer that points to it.
    pub references: Vec<GuestAddress>,
    /// Instructions that name where it ends, where something else begins: nobody can tell what is meant.
    pub ends: Vec<GuestAddress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovablePlace {
    Global(GuestAddress),
    /// In frames of the function that begins there, from what the stack pointer was before the call.
    Frame {
        function: GuestAddress,
        offset: i64,
    },
}

/// What can be moved, and what cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Movables {
    pub globals: Vec<Movable>,
    pub locals: Vec<Movable>,
    /// Words that hold the address of a global from the start.
    pub pointers: Vec<GuestAddress>,
    /// Variables that stay, and why.
    pub fixed: Vec<(String, &'static str)>,
    /// What else is not known.
    pub remarks: Vec<String>,
}

impl Movables {
    /// Of the program itself, not of its libraries.
    pub fn of(variables: &Variables) -> Movables {
        let mut movables = Movables::default();
        let Some(program) = program(variables) else {
            movables.remarks.push("the program's file does not tell of its variables".to_owned());
            return movables;
        };
        globals::find(variables, program, &mut movables);
        frames::find(variables, program, &mut movables);
        movables
    }
}

impl Movables {
    /// Where the program itself begins, when its libraries are ready.
    pub fn entry(variables: &Variables) -> Option<GuestAddress> {
        let module = variables.space().module(program(variables)?);
        let entry = module.image()?.file()?.entry();
        (entry != 0).then(|| in_memory(module, entry))
    }
}

/// The program itself, found without what is known of the variables of libraries.
fn program(variables: &Variables) -> Option<ModuleIdx> {
    let is_program = |module: &Module| module.image().is_some_and(|image| is_program(image));
    variables.space().modules().find(|(_, module)| is_program(module)).map(|(module_idx, _)| module_idx)
}

/// The instructions of a range of the file's own numbering.
fn instructions(image: &Image, range: &Range<u64>) -> Vec<Instruction> {
    let Some(tail) = image.tail_of_segment(range.start) else { return Vec::new() };
    let length = usize::try_from(range.end - range.start).unwrap_or(0).min(tail.bytes.bytes().len());
    let decoder = Decoder::with_ip(64, &tail.bytes.bytes()[..length], range.start, DecoderOptions::NONE);
    decoder.into_iter().filter(|instruction| !instruction.is_invalid()).collect()
}

fn in_memory(module: &Module, address: u64) -> GuestAddress {
    module.guest_address(crate::space::FileVma(address))
}

/// Whether an instruction has a memory operand of its own.
fn has_memory_operand(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory)
}

/// Whether an operand can be moved: neither that of a branch nor one of a segment.
fn is_plain(instruction: &Instruction) -> bool {
    instruction.flow_control() == iced_x86::FlowControl::Next && instruction.segment_prefix() == Register::None
}

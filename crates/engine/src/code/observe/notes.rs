//! What is found out once about each instruction of a path that may be observed: where the path is cut and what it writes
//! down both depend on it, and asking the decoder and the wishes takes longer than anything else in translation.

use super::irregular::needs_engine;
use super::wishes::Wishes;
use super::{Mark, Wanted, add_accesses};
use guest::instruction::{RegisterSet, registers_used, registers_written};
use iced_x86::{Instruction, InstructionInfoFactory, UsedMemory};
use std::ops::Range;

/// What is known of one instruction.
#[derive(Clone, Debug)]
pub struct Note {
    pub wanted: Wanted,
    pub mark: Option<Mark>,
    /// There is something to write down.
    pub is_told: bool,
    /// Less is wanted of it than of others.
    pub is_narrowed: bool,
    /// The engine has to run it by itself.
    pub needs_engine: bool,
    /// General registers that it or its mark reads or writes.
    pub used: RegisterSet,
    /// Those that it may write.
    pub written: RegisterSet,
    /// Which of the notes' memory it accesses.
    memory: Range<usize>,
}

/// Notes on the instructions of a path, in order.
pub struct Notes {
    factory: InstructionInfoFactory,
    notes: Vec<Note>,
    memory: Vec<UsedMemory>,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes { factory: InstructionInfoFactory::new(), notes: Vec::new(), memory: Vec::new() }
    }
}

impl Notes {
    /// Makes room for those on another path.
    pub fn clear(&mut self) {
        self.notes.clear();
        self.memory.clear();
    }

    #[cfg(test)]
    pub fn on(path: &[Instruction], wishes: &Wishes<'_>) -> Notes {
        let mut notes = Notes::default();
        for instruction in path {
            notes.add(wishes, instruction);
        }
        notes
    }

    /// Takes a note of the next instruction.
    pub fn add(&mut self, wishes: &Wishes<'_>, instruction: &Instruction) -> &Note {
        let (pc, wanted) = (instruction.ip(), wishes.of(instruction));
        let mark = wishes.marks.get(&pc).copied();
        let info = self.factory.info(instruction);
        let first = self.memory.len();
        add_accesses(&mut self.memory, info, instruction);
        let memory = &self.memory[first..];
        let counts = wishes.count();
        let is_told = counts
            || wanted.any_address() && !memory.is_empty()
            || wanted.targets
            || mark.is_some()
            || wishes.moves_fs_base(instruction);
        self.notes.push(Note {
            wanted,
            mark,
            is_told,
            is_narrowed: !counts && !wanted.any_address(),
            needs_engine: needs_engine(instruction, memory, wanted),
            used: registers_used(info).union(mark.into_iter().flat_map(Mark::registers).collect()),
            written: registers_written(info),
            memory: first..self.memory.len(),
        });
        &self.notes[self.notes.len() - 1]
    }

    /// Keeps those on so many instructions.
    pub fn truncate(&mut self, instructions: usize) {
        self.notes.truncate(instructions);
    }

    /// Whether there is anything to write down.
    pub fn tell_something(&self) -> bool {
        self.notes.iter().any(|note| note.is_told)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Note> {
        self.notes.iter()
    }

    /// The memory that an instruction accesses, in the order in which it does.
    pub fn memory_of(&self, note: &Note) -> &[UsedMemory] {
        &self.memory[note.memory.clone()]
    }
}

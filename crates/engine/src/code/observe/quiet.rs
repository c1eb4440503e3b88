//! Functions that nobody has to hear of: they, and what they call, have nothing to tell but that they are called.
//!
//! Calls are told so that it is known where something happened. Where nothing can happen that is told, they need not be, and small functions
//! in hot loops are mostly of this kind. A function is looked through from its entry, as far as its code shows where it goes: one that calls
//! through a register or memory, or jumps through a register, is not quiet.
//!
//! Functions of libraries are called through a pointer that the loader binds, often only when they are first called. So the pointers that
//! functions jump through at fixed places are read, and read again from time to time: a function that turns out to be quiet when it has been bound is so from
//! then on.

use super::wishes::Wishes;
use crate::code::path::{GuestCode, decode_at, is_system_call};
use iced_x86::{FlowControl, Instruction};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Longer functions are not looked through.
const MOST_INSTRUCTIONS: usize = 1024;
/// How deep calls are looked into.
const MOST_CALLS: usize = 8;

#[derive(Default)]
pub struct QuietFunctions(RefCell<Known>);

#[derive(Default)]
struct Known {
    /// Whether the function at an entry is quiet.
    functions: FxHashMap<u64, bool>,
    /// Where quiet functions return.
    returns: FxHashSet<u64>,
    /// What is not quiet, but may be when it has been bound, by its entry.
    unbound: BTreeMap<u64, Unbound>,
}

/// A function that jumps through pointers.
#[derive(Default)]
struct Unbound {
    /// Where these are, and what they were.
    pointers: Vec<(u64, Option<u64>)>,
    /// The instructions that call it.
    callers: Vec<u64>,
}

impl Unbound {
    fn has_changed(&self, code: &dyn GuestCode) -> bool {
        self.pointers.iter().any(|(at, pointer)| code.pointer(*at) != *pointer)
    }
}

impl QuietFunctions {
    /// If the instruction calls a function, that is looked through.
    pub fn meet(&self, code: &dyn GuestCode, wishes: Wishes<'_>, instruction: &Instruction) {
        let Some(entry) = called(instruction) else { return };
        let mut known = self.0.borrow_mut();
        if !known.look_through(code, wishes, entry, MOST_CALLS)
            && let Some(unbound) = known.unbound.get_mut(&entry)
        {
            unbound.callers.push(instruction.ip());
        }
    }

    /// Looks once more at functions that have been bound. Gives the calls and returns that are no longer told.
    pub fn bind(&self, code: &dyn GuestCode, wishes: Wishes<'_>) -> Vec<u64> {
        let mut known = self.0.borrow_mut();
        let has_changed = |(_, unbound): &(&u64, &Unbound)| unbound.has_changed(code);
        let bound: Vec<u64> = known.unbound.iter().filter(has_changed).map(|(entry, _)| *entry).collect();
        if !bound.is_empty() {
            // What calls them may be quiet as well.
            known.functions.retain(|_, is_quiet| *is_quiet);
        }
        let mut hushed = Vec::new();
        for entry in bound {
            if let Some(returns) = known.look_anew(code, wishes, entry, MOST_CALLS) {
                let unbound = known.unbound.remove(&entry).unwrap_or_default();
                hushed.extend(unbound.callers.into_iter().chain(returns));
            }
        }
        hushed
    }

    /// Whether an instruction calls a quiet function, or returns from one.
    pub fn concern(&self, instruction: &Instruction) -> bool {
        let known = self.0.borrow();
        match called(instruction) {
            Some(entry) => known.functions.get(&entry) == Some(&true),
            None => known.returns.contains(&instruction.ip()),
        }
    }

    /// Code has changed.
    pub fn forget(&mut self) {
        self.0.take();
    }
}

/// The function that an instruction calls, if it tells by itself.
fn called(instruction: &Instruction) -> Option<u64> {
    instruction.is_call_near().then(|| instruction.near_branch_target())
}

impl Known {
    fn look_through(&mut self, code: &dyn GuestCode, wishes: Wishes<'_>, entry: u64, most_calls: usize) -> bool {
        if let Some(&is_quiet) = self.functions.get(&entry) {
            return is_quiet;
        }
        self.look_anew(code, wishes, entry, most_calls).is_some()
    }

    /// Where a function returns, if it is quiet.
    fn look_anew(
        &mut self,
        code: &dyn GuestCode,
        wishes: Wishes<'_>,
        entry: u64,
        most_calls: usize,
    ) -> Option<Vec<u64>> {
        // One that calls itself is taken for one that is heard of.
        self.functions.insert(entry, false);
        let mut pointers = Vec::new();
        let returns = self.returns_of(code, wishes, entry, most_calls, &mut pointers);
        self.functions.insert(entry, returns.is_some());
        self.returns.extend(returns.iter().flatten());
        if returns.is_none() && !pointers.is_empty() {
            self.unbound.entry(entry).or_default().pointers = pointers;
        }
        returns
    }

    /// Where a quiet function returns, and the pointers that it jumps through. Nothing if it is not quiet.
    fn returns_of(
        &mut self,
        code: &dyn GuestCode,
        wishes: Wishes<'_>,
        entry: u64,
        most_calls: usize,
        pointers: &mut Vec<(u64, Option<u64>)>,
    ) -> Option<Vec<u64>> {
        let (mut ways, mut seen, mut returns) = (vec![entry], FxHashSet::default(), Vec::new());
        while let Some(pc) = ways.pop() {
            if !seen.insert(pc) {
                continue;
            }
            let instruction = decode_at(code, pc).ok()?;
            if seen.len() > MOST_INSTRUCTIONS || is_heard(wishes, &instruction) {
                return None;
            }
            let (next, target) = (instruction.next_ip(), instruction.near_branch_target());
            match instruction.flow_control() {
                FlowControl::Next => ways.push(next),
                FlowControl::ConditionalBranch => ways.extend([next, target]),
                FlowControl::UnconditionalBranch => ways.push(target),
                FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                    let at = instruction.ip_rel_memory_address();
                    let pointer = code.pointer(at);
                    pointers.push((at, pointer));
                    ways.push(pointer?);
                }
                FlowControl::Return => returns.push(pc),
                FlowControl::Call if called(&instruction).is_some() && most_calls > 0 => {
                    self.look_through(code, wishes, target, most_calls - 1).then(|| ways.push(next))?;
                }
                _ => return None,
            }
        }
        Some(returns)
    }
}

/// Whether something is told of an instruction, besides calls.
fn is_heard(wishes: Wishes<'_>, instruction: &Instruction) -> bool {
    let is_chosen = wishes.chosen.is_none_or(|chosen| chosen.instructions.contains(&instruction.ip()));
    is_chosen
        || wishes.marks.contains_key(&instruction.ip())
        || wishes.moves_fs_base(instruction)
        || is_system_call(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::observe::{Chosen, Mark, Marks, Wanted};
    use crate::code::tests::home::Bytes;
    use iced_x86::{Decoder, DecoderOptions};

    const START: u64 = 0x1000;
    const LEAF: u64 = START + 16;
    const CALLER: u64 = START + 32;
    const THROUGH: u64 = START + 48;

    /// Three calls; a leaf with a loop, a function that calls it, and one that jumps through a register.
    fn code() -> Bytes {
        let mut bytes = vec![0x90; 64];
        let mut put = |at: u64, code: &[u8]| bytes[(at - START) as usize..][..code.len()].copy_from_slice(code);
        for (index, entry) in [LEAF, CALLER, THROUGH].into_iter().enumerate() {
            let at = START + 5 * index as u64;
            let distance = (entry - at - 5) as u32;
            put(at, &[&[0xe8][..], &distance.to_le_bytes()].concat());
        }
        put(LEAF, &[0x48, 0x8b, 0x07, 0x48, 0xff, 0xcf, 0x75, 0xf8, 0xc3]); // mov rax, [rdi]; dec rdi; jne; ret
        put(CALLER, &[0xe8, 0xeb, 0xff, 0xff, 0xff, 0xc3]); // call the leaf; ret
        put(THROUGH, &[0xff, 0xe0]); // jmp rax
        Bytes { start: START, bytes }
    }

    /// Which of the three calls are quiet, and whether the leaf's return is.
    fn quiet(chosen: &Chosen, marks: &Marks) -> ([bool; 3], bool) {
        let (code, quiet) = (code(), QuietFunctions::default());
        let wishes = Wishes::new(Wanted::EVERYTHING, marks, Some(chosen), &quiet);
        let at = |pc: u64| {
            let bytes = &code.bytes[(pc - START) as usize..];
            Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode()
        };
        let calls = [0, 5, 10].map(|offset| at(START + offset));
        calls.iter().for_each(|call| wishes.meet(&code, call));
        (calls.map(|call| quiet.concern(&call)), quiet.concern(&at(LEAF + 8)))
    }

    #[test]
    fn functions_in_which_nothing_is_told_are_quiet() {
        let others = Wanted { targets: true, ..Wanted::COUNTS };
        let chosen = |instructions: &[u64]| Chosen {
            instructions: instructions.iter().copied().collect(),
            others,
            spares_calls: true,
            ..Chosen::default()
        };
        let unmarked = Marks::new();
        assert_eq!(quiet(&chosen(&[]), &unmarked), ([true, true, false], true));
        assert_eq!(quiet(&chosen(&[LEAF]), &unmarked), ([false, false, false], false), "an instruction is told");
        assert_eq!(quiet(&chosen(&[CALLER + 5]), &unmarked), ([true, false, false], true));
        let marked = Marks::from([(LEAF, Mark::Entry)]);
        assert_eq!(quiet(&chosen(&[]), &marked), ([false, false, false], false), "a call means something");
        let heard = Chosen { spares_calls: false, ..chosen(&[]) };
        assert_eq!(quiet(&heard, &unmarked), ([false, false, false], false), "nobody asked for it");
    }

    #[test]
    fn functions_are_quiet_once_they_are_bound() {
        const STUB: u64 = START + 56;
        const POINTER: usize = 64;
        let mut code = code();
        let mut call = [0xe8, 0, 0, 0, 0];
        call[1..].copy_from_slice(&((STUB - START - 5) as u32).to_le_bytes());
        code.bytes[..5].copy_from_slice(&call);
        code.bytes[56..62].copy_from_slice(&[0xff, 0x25, 2, 0, 0, 0]); // jmp [rip + 2]
        code.bytes.extend(THROUGH.to_le_bytes());
        let others = Wanted { targets: true, ..Wanted::COUNTS };
        let chosen = Chosen { instructions: [].into(), others, spares_calls: true, ..Chosen::default() };
        let (marks, quiet) = (Marks::new(), QuietFunctions::default());
        let wishes = Wishes::new(Wanted::EVERYTHING, &marks, Some(&chosen), &quiet);
        let call = Decoder::with_ip(64, &code.bytes.clone(), START, DecoderOptions::NONE).decode();
        wishes.meet(&code, &call);
        assert!(!quiet.concern(&call) && quiet.bind(&code, wishes).is_empty(), "the loader is to be called");
        code.bytes[POINTER..].copy_from_slice(&LEAF.to_le_bytes());
        assert_eq!(quiet.bind(&code, wishes), [START, LEAF + 8], "the call, and the return of what it leads to");
        assert!(quiet.concern(&call) && quiet.bind(&code, wishes).is_empty());
    }
}

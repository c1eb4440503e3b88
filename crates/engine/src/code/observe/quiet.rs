//! Functions that nobody has to hear of: they, and what they call, have nothing to tell but that they are called.
//!
//! Calls are told so that it is known where something happened. Where nothing can happen that is told, they need not be, and small functions
//! in hot loops are mostly of this kind. A function is looked through from its entry, as far as its code shows where it goes: one that calls
//! through a register or memory, or jumps through a register, is not quiet.
//!
//! Functions of libraries are called through a pointer that the loader binds, often only when they are first called. So the pointers that
//! functions jump through at fixed places are read, and read again from time to time: a function that turns out to be quiet when it has been bound is so from
//! then on. One in which all that is chosen is hushed is quiet for as long as that is so.

use super::wishes::Wishes;
use crate::code::path::{GuestCode, decode_at, is_system_call};
use iced_x86::{FlowControl, Instruction};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Longer functions are not looked through.
const MOST_INSTRUCTIONS: usize = 1024;
/// How deep calls are looked into.
const MOST_CALLS: usize = 8;

#[derive(Default)]
pub struct QuietFunctions(RefCell<Known>);

#[derive(Default)]
struct Known {
    /// Functions by their entries.
    functions: FxHashMap<u64, Function>,
    /// The instructions that call them.
    callers: FxHashMap<u64, BTreeSet<u64>>,
    /// Where quiet functions return.
    returns: FxHashSet<u64>,
    /// The pointers that functions jump through which are not quiet, but may be when they have been bound; and what these were.
    unbound: BTreeMap<u64, Vec<(u64, Option<u64>)>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Function {
    Quiet(Quiet),
    Heard(Reason),
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Quiet {
    returns: Vec<u64>,
    /// As long as instructions that are hushed remain so.
    for_now: bool,
}

/// Why a function is heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// It has this chosen instruction.
    Chosen(u64),
    /// It calls this function.
    Calls(u64),
    Other,
}

impl QuietFunctions {
    /// If the instruction calls a function, that is looked through.
    pub fn meet(&self, code: &dyn GuestCode, wishes: Wishes<'_>, instruction: &Instruction) {
        let Some(entry) = called(instruction) else { return };
        let mut known = self.0.borrow_mut();
        known.look_through(code, wishes, entry, MOST_CALLS);
        known.callers.entry(entry).or_default().insert(instruction.ip());
    }

    /// Looks once more at functions that have been bound. Gives the calls and returns that are no longer told.
    pub fn bind(&self, code: &dyn GuestCode, wishes: Wishes<'_>) -> Vec<u64> {
        let mut known = self.0.borrow_mut();
        let has_changed = |pointers: &[(u64, Option<u64>)]| pointers.iter().any(|(at, old)| code.pointer(*at) != *old);
        let bound = known.unbound.iter().filter(|(_, pointers)| has_changed(pointers));
        let bound: Vec<u64> = bound.map(|(entry, _)| *entry).collect();
        if !bound.is_empty() {
            // What calls them may be quiet as well.
            known.functions.retain(|_, function| matches!(function, Function::Quiet(_)));
        }
        bound.into_iter().flat_map(|entry| known.look_again(code, wishes, entry)).collect()
    }

    /// Some instructions have been hushed. Gives the calls and returns that are no longer told.
    pub fn hush(&self, code: &dyn GuestCode, wishes: Wishes<'_>) -> Vec<u64> {
        let mut known = self.0.borrow_mut();
        let mut hushed = Vec::new();
        loop {
            let no_longer = known.heard_for_no_reason(wishes);
            if no_longer.is_empty() {
                return hushed;
            }
            hushed.extend(no_longer.into_iter().flat_map(|entry| known.look_again(code, wishes, entry)));
        }
    }

    /// A function is called again and again, and nothing is told before it returns, from these instructions: it is taken for a quiet one for now, unless it has
    /// an instruction that is told. Gives the calls and returns that are no longer told.
    pub fn deem(&self, entry: u64, returns: &[u64]) -> Vec<u64> {
        let mut known = self.0.borrow_mut();
        let Some(Function::Heard(Reason::Calls(_) | Reason::Other)) = known.functions.get(&entry) else {
            return Vec::new();
        };
        known.unbound.remove(&entry);
        known.functions.insert(entry, Function::Quiet(Quiet { returns: returns.to_vec(), for_now: true }));
        known.returns.extend(returns);
        known.callers.get(&entry).into_iter().flatten().chain(returns).copied().collect()
    }

    /// All instructions are told again. Gives the calls and returns that are, too.
    pub fn wake(&self) -> Vec<u64> {
        let mut known = self.0.borrow_mut();
        let Known { functions, callers, returns, .. } = &mut *known;
        let mut woken = Vec::new();
        functions.retain(|entry, function| match function {
            Function::Quiet(Quiet { returns, for_now: true }) => {
                woken.extend(callers.get(entry).into_iter().flatten().chain(returns.iter()));
                false
            }
            _ => true,
        });
        *returns = functions.values().flat_map(Function::returns).copied().collect();
        woken
    }

    /// Whether an instruction calls a quiet function, or returns from one.
    pub fn concern(&self, instruction: &Instruction) -> bool {
        let known = self.0.borrow();
        match called(instruction) {
            Some(entry) => matches!(known.functions.get(&entry), Some(Function::Quiet(_))),
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

impl Function {
    fn returns(&self) -> &[u64] {
        match self {
            Function::Quiet(quiet) => &quiet.returns,
            Function::Heard(_) => &[],
        }
    }
}

impl Known {
    /// Functions whose reason to be heard of is none any longer, in order.
    fn heard_for_no_reason(&self, wishes: Wishes<'_>) -> BTreeSet<u64> {
        let is_over = |function: &Function| match function {
            Function::Heard(Reason::Chosen(pc)) => wishes.hushes(*pc),
            Function::Heard(Reason::Calls(entry)) => matches!(self.functions.get(entry), Some(Function::Quiet(_))),
            _ => false,
        };
        self.functions.iter().filter(|(_, function)| is_over(function)).map(|(entry, _)| *entry).collect()
    }

    /// Looks once more at a function that was heard of. Gives its calls and returns, if it is no longer.
    fn look_again(&mut self, code: &dyn GuestCode, wishes: Wishes<'_>, entry: u64) -> Vec<u64> {
        match self.look_anew(code, wishes, entry, MOST_CALLS) {
            Function::Quiet(quiet) => {
                self.unbound.remove(&entry);
                self.callers.get(&entry).into_iter().flatten().copied().chain(quiet.returns).collect()
            }
            Function::Heard(_) => Vec::new(),
        }
    }

    fn look_through(&mut self, code: &dyn GuestCode, wishes: Wishes<'_>, entry: u64, most_calls: usize) -> Function {
        match self.functions.get(&entry) {
            Some(function) => function.clone(),
            None => self.look_anew(code, wishes, entry, most_calls),
        }
    }

    fn look_anew(&mut self, code: &dyn GuestCode, wishes: Wishes<'_>, entry: u64, most_calls: usize) -> Function {
        // One that calls itself is taken for one that is heard of.
        self.functions.insert(entry, Function::Heard(Reason::Other));
        let mut pointers = Vec::new();
        let function = match self.ways_through(code, wishes, entry, most_calls, &mut pointers) {
            Ok(quiet) => Function::Quiet(quiet),
            Err(reason) => Function::Heard(reason),
        };
        self.functions.insert(entry, function.clone());
        self.returns.extend(function.returns());
        if matches!(function, Function::Heard(_)) && !pointers.is_empty() {
            self.unbound.insert(entry, pointers);
        }
        function
    }

    /// Follows all ways through a function, as long as it is quiet, and the pointers that it jumps through.
    fn ways_through(
        &mut self,
        code: &dyn GuestCode,
        wishes: Wishes<'_>,
        entry: u64,
        most_calls: usize,
        pointers: &mut Vec<(u64, Option<u64>)>,
    ) -> Result<Quiet, Reason> {
        let (mut ways, mut seen, mut quiet) = (vec![entry], FxHashSet::default(), Quiet::default());
        while let Some(pc) = ways.pop() {
            if !seen.insert(pc) {
                continue;
            }
            let instruction = decode_at(code, pc).map_err(|_| Reason::Other)?;
            if seen.len() > MOST_INSTRUCTIONS || is_heard(wishes, &instruction) {
                return Err(Reason::Other);
            }
            if wishes.chosen.is_none_or(|chosen| chosen.instructions.contains(&pc)) {
                if !wishes.hushes(pc) {
                    return Err(Reason::Chosen(pc));
                }
                quiet.for_now = true;
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
                    ways.push(pointer.ok_or(Reason::Other)?);
                }
                FlowControl::Return => quiet.returns.push(pc),
                FlowControl::Call if called(&instruction).is_some() && most_calls > 0 => {
                    match self.look_through(code, wishes, target, most_calls - 1) {
                        Function::Quiet(called) => quiet.for_now |= called.for_now,
                        Function::Heard(_) => return Err(Reason::Calls(target)),
                    }
                    ways.push(next);
                }
                _ => return Err(Reason::Other),
            }
        }
        Ok(quiet)
    }
}

/// Whether something is told of an instruction, besides where it goes.
fn is_heard(wishes: Wishes<'_>, instruction: &Instruction) -> bool {
    wishes.marks.contains_key(&instruction.ip()) || wishes.moves_fs_base(instruction) || is_system_call(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::observe::{Chosen, Mark, MarkTable, Wanted};
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
    fn quiet(chosen: &Chosen, marks: &MarkTable) -> ([bool; 3], bool) {
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
        let unmarked = MarkTable::default();
        assert_eq!(quiet(&chosen(&[]), &unmarked), ([true, true, false], true));
        assert_eq!(quiet(&chosen(&[LEAF]), &unmarked), ([false, false, false], false), "an instruction is told");
        assert_eq!(quiet(&chosen(&[CALLER + 5]), &unmarked), ([true, false, false], true));
        let marked = MarkTable::from_iter([(LEAF, Mark::Entry)]);
        assert_eq!(quiet(&chosen(&[]), &marked), ([false, false, false], false), "a call means something");
        let heard = Chosen { spares_calls: false, ..chosen(&[]) };
        assert_eq!(quiet(&heard, &unmarked), ([false, false, false], false), "nobody asked for it");
    }

    #[test]
    fn functions_are_quiet_while_what_is_chosen_in_them_is_hushed() {
        let others = Wanted { targets: true, ..Wanted::COUNTS };
        let chosen = Chosen { instructions: [LEAF, LEAF + 3].into(), others, spares_calls: true, ..Chosen::default() };
        let (code, marks, quiet) = (code(), MarkTable::default(), QuietFunctions::default());
        let calls = [START, START + 5].map(|at| decode_at(&code, at).expect("a call"));
        let told = Wishes::new(Wanted::EVERYTHING, &marks, Some(&chosen), &quiet);
        calls.iter().for_each(|call| told.meet(&code, call));
        let [one, both] = [BTreeSet::from([LEAF]), BTreeSet::from([LEAF, LEAF + 3])];
        let hushing = |hushed| Wishes { hushed: Some(hushed), ..told };
        assert!(quiet.hush(&code, hushing(&one)).is_empty(), "one is still told");
        let leaf = [START, LEAF + 8];
        let caller = [START + 5, CALLER + 5];
        assert_eq!(quiet.hush(&code, hushing(&both)), [leaf, caller].concat(), "and so is what calls it");
        assert!(calls.iter().all(|call| quiet.concern(call)));
        assert_eq!(BTreeSet::from_iter(quiet.wake()), BTreeSet::from_iter([leaf, caller].concat()));
        assert!(!calls.iter().any(|call| quiet.concern(call)), "everything is told again");
        calls.iter().for_each(|call| told.meet(&code, call));
        assert!(!calls.iter().any(|call| quiet.concern(call)) && quiet.wake().is_empty());
    }

    #[test]
    fn functions_are_taken_for_quiet_ones_until_everything_is_told_again() {
        let others = Wanted { targets: true, ..Wanted::COUNTS };
        let chosen = Chosen { instructions: [LEAF].into(), others, spares_calls: true, ..Chosen::default() };
        let (code, marks, quiet) = (code(), MarkTable::default(), QuietFunctions::default());
        let calls = [START, START + 10].map(|at| decode_at(&code, at).expect("a call"));
        let wishes = Wishes::new(Wanted::EVERYTHING, &marks, Some(&chosen), &quiet);
        calls.iter().for_each(|call| wishes.meet(&code, call));
        assert!(quiet.deem(LEAF, &[LEAF + 8]).is_empty(), "an instruction of it is told");
        assert!(quiet.deem(START, &[]).is_empty(), "nobody calls it");
        let changed = [START + 10, THROUGH + 2];
        assert_eq!(quiet.deem(THROUGH, &changed[1..]), changed);
        assert_eq!(calls.map(|call| quiet.concern(&call)), [false, true]);
        assert_eq!(quiet.wake(), changed);
        assert!(!quiet.concern(&calls[1]));
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
        let (marks, quiet) = (MarkTable::default(), QuietFunctions::default());
        let wishes = Wishes::new(Wanted::EVERYTHING, &marks, Some(&chosen), &quiet);
        let call = Decoder::with_ip(64, &code.bytes.clone(), START, DecoderOptions::NONE).decode();
        wishes.meet(&code, &call);
        assert!(!quiet.concern(&call) && quiet.bind(&code, wishes).is_empty(), "the loader is to be called");
        code.bytes[POINTER..].copy_from_slice(&LEAF.to_le_bytes());
        assert_eq!(quiet.bind(&code, wishes), [START, LEAF + 8], "the call, and the return of what it leads to");
        assert!(quiet.concern(&call) && quiet.bind(&code, wishes).is_empty());
    }
}

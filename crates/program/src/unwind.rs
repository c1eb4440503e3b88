//! Who called whom: a thread's stack as code addresses, innermost first.
//!
//! Rules, in the order in which they are tried on a frame:
//!
//! 1. Code that cannot be executed was reached by a wild call, jump or return: rules 4 and 5 are tried at once.
//! 2. The call-frame information of the module, if it covers the code. The kernel's own module, the vdso, has no file and
//!    is read from memory.
//! 3. The kernel's signal frame, if the code is a bare signal return (C libraries without call-frame information).
//! 4. In the innermost frame, a return address on top of the stack, if a call instruction stands before where it points to.
//! 5. The chain of frame pointers.
//!
//! May go wrong: after a wild *jump* the caller of the jumping function is taken for the jumper. Rules 4 and 5 are guesses,
//! though they only ever yield addresses that follow a call. Stacks whose frames do not grow upwards in memory (split
//! stacks) end as [`Ended::Lost`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::call_frames::{CallFrames, Step};
use crate::elf::Image;
pub use crate::registers::Registers;
use crate::space::{AddressSpace, FileVma, GuestAddress};

/// The memory of the program.
pub trait Memory {
    /// Fills the buffer from `address` on. False if any byte cannot be read; the buffer's content is then of no meaning.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;
}

pub(crate) fn read_word(memory: &dyn Memory, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    memory.read(address, &mut word).then(|| u64::from_le_bytes(word))
}

/// How a code address came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeAddressKind {
    /// The instruction that was being executed.
    Exact,
    /// The instruction after a call; the call itself is what the frame is doing.
    ReturnAddress,
    /// What a signal handler returns to. The frame after it is the interrupted one.
    SignalReturn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeAddress {
    pub pc: u64,
    pub kind: CodeAddressKind,
}

impl CodeAddress {
    /// An address inside the instruction that the frame is executing.
    pub fn for_lookup(self) -> GuestAddress {
        match self.kind {
            CodeAddressKind::Exact | CodeAddressKind::SignalReturn => GuestAddress(self.pc),
            CodeAddressKind::ReturnAddress => GuestAddress(self.pc.wrapping_sub(1)),
        }
    }
}

/// Why a backtrace has no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The outermost function was reached.
    Complete,
    /// The caller of the last frame could not be found.
    Lost,
    /// There are more frames than were asked for.
    Limit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backtrace {
    /// Innermost first; never empty.
    pub frames: Vec<CodeAddress>,
    pub ended: Ended,
}

/// Walks up the stack from `registers`, over at most `limit` frames (at least one).
pub fn backtrace(space: &AddressSpace, memory: &dyn Memory, registers: Registers, limit: usize) -> Backtrace {
    let mut walk = Walk::new(space, memory, registers);
    let mut frames = vec![walk.code_address()];
    loop {
        match walk.advance() {
            Err(ended) => return Backtrace { frames, ended },
            Ok(passed) => *frames.last_mut().expect("never empty") = passed,
        }
        if frames.len() >= limit {
            return Backtrace { frames, ended: Ended::Limit };
        }
        frames.push(walk.code_address());
    }
}

/// The registers of the caller, as far as they are known, once the innermost function has returned; none if it cannot be
/// found, or was interrupted by a signal.
pub fn caller(space: &AddressSpace, memory: &dyn Memory, registers: Registers) -> Option<Registers> {
    let mut walk = Walk::new(space, memory, registers);
    walk.advance().ok()?;
    (walk.kind == CodeAddressKind::ReturnAddress).then_some(walk.registers)
}

struct Walk<'a> {
    space: &'a AddressSpace,
    memory: &'a dyn Memory,
    registers: Registers,
    kind: CodeAddressKind,
    /// Every state that a signal frame led to. Elsewhere the stack pointer only grows, so a walk that does not end must
    /// come to one of these twice.
    interrupted: BTreeSet<(u64, u64)>,
    /// Call-frame information of modules that exist in memory only, by where they start.
    in_memory: RefCell<BTreeMap<u64, CallFrames>>,
}

impl<'a> Walk<'a> {
    fn new(space: &'a AddressSpace, memory: &'a dyn Memory, registers: Registers) -> Self {
        let kind = CodeAddressKind::Exact;
        Walk { space, memory, registers, kind, interrupted: BTreeSet::new(), in_memory: RefCell::default() }
    }

    fn code_address(&self) -> CodeAddress {
        CodeAddress { pc: self.registers.pc, kind: self.kind }
    }

    /// Goes to the next outer frame and returns the one that was left, of which more is known now.
    fn advance(&mut self) -> Result<CodeAddress, Ended> {
        let mut passed = self.code_address();
        match self.step().ok_or(Ended::Lost)? {
            Step::Outermost => return Err(Ended::Complete),
            Step::Caller(caller) if caller.pc == 0 => return Err(Ended::Complete),
            Step::Caller(caller) => self.enter_caller(caller)?,
            Step::Interrupted(interrupted) => {
                self.enter_interrupted(interrupted)?;
                passed.kind = CodeAddressKind::SignalReturn;
            }
        }
        Ok(passed)
    }

    fn enter_caller(&mut self, caller: Registers) -> Result<(), Ended> {
        let grown = self.registers.sp() < caller.sp();
        if !grown || !self.space.is_executable(GuestAddress(caller.pc.wrapping_sub(1))) {
            return Err(Ended::Lost);
        }
        self.registers = caller;
        self.kind = CodeAddressKind::ReturnAddress;
        Ok(())
    }

    fn enter_interrupted(&mut self, interrupted: Registers) -> Result<(), Ended> {
        let sp = interrupted.sp().ok_or(Ended::Lost)?;
        if !self.interrupted.insert((interrupted.pc, sp)) {
            return Err(Ended::Lost);
        }
        self.registers = interrupted;
        self.kind = CodeAddressKind::Exact;
        Ok(())
    }

    fn step(&self) -> Option<Step> {
        let address = self.code_address().for_lookup();
        if !self.space.is_executable(address) {
            return self.return_from_wild_call();
        }
        self.by_call_frames(address).or_else(|| self.by_signal_frame()).or_else(|| self.by_guess())
    }

    /// A frame pointer of zero says nothing here: what ran last can have used the register for anything.
    fn return_from_wild_call(&self) -> Option<Step> {
        self.by_guess().filter(|step| *step != Step::Outermost)
    }

    fn pop_return_address(&self) -> Option<Registers> {
        let sp = self.registers.sp()?;
        let mut caller = self.registers.preserved();
        caller.pc = read_word(self.memory, sp)?;
        caller.set_sp(sp.checked_add(8)?);
        Some(caller)
    }

    fn by_call_frames(&self, address: GuestAddress) -> Option<Step> {
        match self.space.locate(address) {
            Some((module_idx, file_vma)) => {
                self.space.module(module_idx).call_frames().step(file_vma, &self.registers, self.memory)
            }
            None => self.by_call_frames_in_memory(address),
        }
    }

    /// A module that starts its mapping and has no file: its addresses count from that start, as in the vdso.
    fn by_call_frames_in_memory(&self, address: GuestAddress) -> Option<Step> {
        let mapping = self.space.mapping_at(address)?;
        let mut in_memory = self.in_memory.borrow_mut();
        let call_frames = in_memory.entry(mapping.start).or_insert_with(|| {
            let image = read_image(self.memory, mapping.start, mapping.end);
            image.map(|image| CallFrames::load(&image)).unwrap_or_default()
        });
        call_frames.step(FileVma(address.0 - mapping.start), &self.registers, self.memory)
    }

    /// What the kernel leaves on the stack before it calls a handler, when the handler has returned: a `ucontext`.
    fn by_signal_frame(&self) -> Option<Step> {
        const MOVE_15_TO_RAX: &[u8] = &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
        const MOVE_15_TO_EAX: &[u8] = &[0xb8, 15, 0, 0, 0, 0x0f, 0x05];
        let returns_from_signal =
            [MOVE_15_TO_RAX, MOVE_15_TO_EAX].into_iter().any(|code| self.reads_as(self.registers.pc, code));
        let user_context = self.registers.sp().filter(|_| returns_from_signal)?;
        let saved = |slot: u64| read_word(self.memory, user_context.wrapping_add(40 + 8 * slot));
        // Slots of the kernel's `sigcontext`, in encoding order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
        const SLOTS: [u64; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
        Some(Step::Interrupted(Registers { pc: saved(16)?, general: SLOTS.map(saved) }))
    }

    fn by_guess(&self) -> Option<Step> {
        let innermost = self.kind == CodeAddressKind::Exact;
        let on_top = if innermost { self.pop_return_address() } else { None };
        if let Some(caller) = on_top.filter(|caller| self.follows_call(caller.pc)) {
            return Some(Step::Caller(caller));
        }
        self.by_frame_pointer()
    }

    fn by_frame_pointer(&self) -> Option<Step> {
        let bp = self.registers.bp()?;
        if bp == 0 {
            // The ABI marks the outermost frame so.
            return Some(Step::Outermost);
        }
        if Some(bp) < self.registers.sp() {
            return None;
        }
        let mut caller = self.registers.preserved();
        caller.pc = read_word(self.memory, bp.checked_add(8)?)?;
        caller.set_bp(read_word(self.memory, bp)?);
        caller.set_sp(bp.checked_add(16)?);
        (caller.pc == 0 || self.follows_call(caller.pc)).then_some(Step::Caller(caller))
    }

    /// Whether a call instruction ends at `address`: the direct one, or one of the lengths of the indirect one.
    fn follows_call(&self, address: u64) -> bool {
        let start = address.wrapping_sub(7);
        let mut code = [0; 7];
        if !self.space.is_executable(GuestAddress(address.wrapping_sub(1))) || !self.memory.read(start, &mut code) {
            return false;
        }
        let is_indirect_call = |length: usize| {
            let code = &code[7 - length..];
            code[0] == 0xff && code[1] >> 3 & 7 == 2
        };
        code[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect_call)
    }

    fn reads_as(&self, address: u64, expected: &[u8]) -> bool {
        let mut found = vec![0; expected.len()];
        self.memory.read(address, &mut found) && found == expected
    }
}

/// Larger files are not kept in memory alone.
const MAX_IN_MEMORY: u64 = 1 << 20;

fn read_image(memory: &dyn Memory, start: u64, end: u64) -> Option<Image> {
    let size = end.checked_sub(start).filter(|size| *size <= MAX_IN_MEMORY)?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    memory.read(start, &mut bytes).then_some(())?;
    Image::new(bytes)
}

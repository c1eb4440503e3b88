//! The parts of each kind of instruction.

use super::{Kind, Memory, Part, Place, Span, is_read, may_keep, reads, writes};
use crate::instruction::{flags_killed, repeats};
use iced_x86::{
    ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
    UsedRegister,
};

/// Bytes of half an XMM register.
const HALF: u16 = 8;

pub fn of(factory: &mut InstructionInfoFactory, instruction: &Instruction, memory: &[Memory]) -> Vec<Part> {
    let info = factory.info(instruction);
    let accesses = [info.op0_access(), info.op1_access(), info.op2_access(), info.op3_access(), info.op4_access()];
    let used: Vec<UsedRegister> = info.used_registers().to_vec();
    let parts = Parts { instruction, memory, accesses, used };
    parts.special().unwrap_or_else(|| vec![parts.generic()])
}

struct Parts<'a> {
    instruction: &'a Instruction,
    memory: &'a [Memory],
    accesses: [OpAccess; 5],
    used: Vec<UsedRegister>,
}

impl Parts<'_> {
    /// Instructions that copy, and those whose parts do not depend on each other.
    fn special(&self) -> Option<Vec<Part>> {
        let instruction = self.instruction;
        match instruction.mnemonic() {
            Mnemonic::Movsb
            | Mnemonic::Movsw
            | Mnemonic::Movsq
            | Mnemonic::Stosb
            | Mnemonic::Stosw
            | Mnemonic::Stosd
            | Mnemonic::Stosq
            | Mnemonic::Lodsb
            | Mnemonic::Lodsw
            | Mnemonic::Lodsd
            | Mnemonic::Lodsq => Some(self.moves_string()),
            // The vector instruction of the same name is none.
            Mnemonic::Movsd if instruction.is_string_instruction() => Some(self.moves_string()),
            Mnemonic::Push | Mnemonic::Pop => Some(vec![self.copy(1, 0)?]),
            Mnemonic::Leave => self.leave(),
            Mnemonic::Cdqe | Mnemonic::Cwde | Mnemonic::Cbw => self.widens(),
            Mnemonic::Call => Some(vec![self.call()]),
            Mnemonic::Xchg => self.exchange(),
            Mnemonic::Movlps | Mnemonic::Movlpd => self.moves_half(0, 0),
            Mnemonic::Movhps | Mnemonic::Movhpd => self.moves_half(HALF, HALF),
            Mnemonic::Movlhps => self.moves_half(0, HALF),
            Mnemonic::Movhlps => self.moves_half(HALF, 0),
            Mnemonic::Movss | Mnemonic::Movsd if self.register_of(0).is_some() && self.register_of(1).is_some() => {
                let length = if instruction.mnemonic() == Mnemonic::Movss { HALF / 2 } else { HALF };
                Some(vec![self.moves_piece(0, 0, length)?])
            }
            Mnemonic::Vzeroupper | Mnemonic::Vzeroall => Some(vec![self.clears_vectors()]),
            _ if is_conditional_move(instruction) => self.moves_if(),
            _ if self.copies() => Some(vec![self.copy(1, 0)?]),
            _ => None,
        }
    }

    /// Everything that is read goes into everything that is written.
    fn generic(&self) -> Part {
        let mut sources: Vec<Place> = Vec::new();
        let mut targets: Vec<Place> = Vec::new();
        for (number, memory) in self.memory.iter().enumerate() {
            if memory.reads || may_keep(memory.used.access()) {
                sources.push(Place::Memory(number));
            }
            if memory.writes {
                targets.push(Place::Memory(number));
            }
        }
        for used in self.used.iter().filter(|used| !self.is_stack_pointer(used.register())) {
            let Some(span) = Span::of(used.register()) else { continue };
            if is_read(used) && !self.is_only_address(used.register()) && !self.subtracts_itself() {
                sources.push(Place::Register(span));
            }
            if writes(used.access()) {
                targets.push(Place::Register(span));
            }
        }
        self.add_flags(&mut sources, &mut targets);
        if self.touches_x87() {
            sources.push(Place::Register(Span::x87()));
            targets.push(Place::Register(Span::x87()));
        }
        drop_doubles(&mut sources);
        drop_doubles(&mut targets);
        Part { kind: Kind::Computes, sources, targets }
    }

    fn add_flags(&self, sources: &mut Vec<Place>, targets: &mut Vec<Place>) {
        let instruction = self.instruction;
        let modified = instruction.rflags_modified();
        // Direction is always written when it is written at all.
        let kept = modified & !flags_killed(instruction) & !RflagsBits::DF;
        let kept = if shifts_by_constant(instruction) { 0 } else { kept };
        sources.extend(Span::flags(instruction.rflags_read() | kept).map(Place::Register));
        targets.extend(Span::flags(modified).map(Place::Register));
    }

    fn touches_x87(&self) -> bool {
        self.instruction.fpu_stack_increment_info().writes_top()
            || self.used.iter().any(|used| Span::of(used.register()) == Some(Span::x87()))
    }

    /// `sbb` of a register with itself leaves nothing but the carry.
    fn subtracts_itself(&self) -> bool {
        self.instruction.mnemonic() == Mnemonic::Sbb
            && self.register_of(0).is_some()
            && self.register_of(0) == self.register_of(1)
    }

    /// The stack pointer of `push` and its like, which moves by a constant whatever the data.
    fn is_stack_pointer(&self, register: Register) -> bool {
        let names_it = (0..self.instruction.op_count())
            .any(|operand| self.register_of(operand).is_some_and(|named| named.full_register() == Register::RSP));
        self.instruction.is_stack_instruction() && register.full_register() == Register::RSP && !names_it
    }

    /// Whether a register is read for nothing but an address.
    fn is_only_address(&self, register: Register) -> bool {
        let full = register.full_register();
        let is_operand = (0..self.instruction.op_count()).any(|operand| {
            self.register_of(operand).is_some_and(|named| named.full_register() == full)
                && reads(self.accesses[operand as usize])
        });
        !is_operand && self.memory.iter().any(|memory| memory.is_reached_by(register))
    }

    fn register_of(&self, operand: u32) -> Option<Register> {
        let instruction = self.instruction;
        (instruction.op_kind(operand) == OpKind::Register).then(|| instruction.op_register(operand))
    }

    fn moves_string(&self) -> Vec<Part> {
        let instruction = self.instruction;
        let memory = |wanted: fn(&Memory) -> bool| self.memory.iter().position(wanted).map(Place::Memory);
        let (read, written) = (memory(|memory| memory.reads), memory(|memory| memory.writes));
        let accumulator = self.used.iter().find(|used| used.register().full_register() == Register::RAX);
        let accumulator = accumulator.and_then(|used| Span::of(used.register())).map(Place::Register);
        let mut parts = Vec::new();
        if let (Some(source), Some(target)) = (read.or(accumulator), written.or(accumulator)) {
            parts.push(Part { kind: Kind::Copies { extends: true }, sources: vec![source], targets: vec![target] });
        }
        let direction: Vec<Place> = Span::flags(RflagsBits::DF).map(Place::Register).collect();
        let pointers = self.memory.iter().flat_map(|memory| memory.address.iter().copied());
        for register in pointers {
            let mut sources = vec![Place::Register(register)];
            sources.extend(&direction);
            parts.push(Part { kind: Kind::Advances, sources, targets: vec![Place::Register(register)] });
        }
        if repeats(instruction) {
            let count = vec![Place::Register(Span::general(1))];
            parts.push(Part { kind: Kind::Advances, sources: count.clone(), targets: count });
        }
        parts
    }

    /// A copy from one operand to another, either of which may be implied. A constant is no source.
    fn copy(&self, source: u32, target: u32) -> Option<Part> {
        let is_push = self.instruction.mnemonic() == Mnemonic::Push;
        let is_pop = self.instruction.mnemonic() == Mnemonic::Pop;
        let read = if is_push {
            self.place(0, false)
        } else if is_pop {
            self.implied(false)
        } else {
            self.place(source, false)
        };
        let written = if is_push { self.implied(true) } else { self.place(target, true) };
        let (kind, sources) = match read {
            Some(place) => (Kind::Copies { extends: self.extends() }, vec![place]),
            None => (Kind::Computes, Vec::new()),
        };
        Some(Part { kind, sources, targets: vec![written?] })
    }

    /// Half of a vector register is copied, the other one stays.
    fn moves_half(&self, from: u16, to: u16) -> Option<Vec<Part>> {
        Some(vec![self.moves_piece(from, to, HALF)?])
    }

    /// A copy of a piece of a register, or of memory, to a piece that begins so far into the target.
    fn moves_piece(&self, from: u16, to: u16, length: u16) -> Option<Part> {
        let piece = |operand: u32, offset: u16, is_target: bool| match self.register_of(operand) {
            Some(register) => {
                let start = Span::of(register)?.start + offset;
                Some(Place::Register(Span { start, length }))
            }
            None => self.place(operand, is_target),
        };
        let (sources, targets) = (vec![piece(1, from, false)?], vec![piece(0, to, true)?]);
        Some(Part { kind: Kind::Copies { extends: false }, sources, targets })
    }

    fn clears_vectors(&self) -> Part {
        let kept = if self.instruction.mnemonic() == Mnemonic::Vzeroall { 0 } else { 2 * HALF };
        let vectors = (0..16).filter_map(|number| Span::of(Register::ZMM0 + number));
        let cleared = vectors.map(|all| Span { start: all.start + kept, length: all.length - kept });
        Part { kind: Kind::Computes, sources: Vec::new(), targets: cleared.map(Place::Register).collect() }
    }

    /// What an explicit operand stands for; of a register that is written, all that changes with it.
    fn place(&self, operand: u32, is_target: bool) -> Option<Place> {
        match self.instruction.op_kind(operand) {
            OpKind::Register => {
                let register = self.instruction.op_register(operand);
                let span = Span::of(register)?;
                let all =
                    self.used.iter().filter(|used| writes(used.access())).filter_map(|used| Span::of(used.register()));
                let all = all.filter(|all| is_target && all.covers(span)).max_by_key(|all| all.length);
                Some(Place::Register(all.unwrap_or(span)))
            }
            OpKind::Memory => {
                let explicit = |memory: &Memory| {
                    memory.used.base() == self.instruction.memory_base().full_register_of_address()
                        && memory.used.index() == self.instruction.memory_index().full_register_of_address()
                        && if is_target { memory.writes } else { memory.reads }
                };
                let number = self.memory.iter().position(explicit)?;
                Some(Place::Memory(number))
            }
            _ => None,
        }
    }

    /// The place on the stack that `push` writes and `pop` reads.
    fn implied(&self, is_target: bool) -> Option<Place> {
        let on_stack = |memory: &Memory| {
            memory.used.base() == Register::RSP && if is_target { memory.writes } else { memory.reads }
        };
        self.memory.iter().rposition(on_stack).map(Place::Memory)
    }

    fn extends(&self) -> bool {
        !(0..self.instruction.op_count())
            .any(|operand| self.register_of(operand).is_some_and(|register| register.is_vector_register()))
    }

    /// The stack pointer comes from the frame pointer, which comes from the stack.
    fn leave(&self) -> Option<Vec<Part>> {
        let [stack, frame] = [4, 5].map(|number| Place::Register(Span::general(number)));
        let saved = self.memory.iter().position(|memory| memory.reads).map(Place::Memory)?;
        Some(vec![
            Part { kind: Kind::Computes, sources: vec![frame], targets: vec![stack] },
            Part { kind: Kind::Copies { extends: true }, sources: vec![saved], targets: vec![frame] },
        ])
    }

    /// The lower half of a register fills all of it, with its sign.
    fn widens(&self) -> Option<Vec<Part>> {
        let register = |wanted: fn(OpAccess) -> bool| {
            let used = self.used.iter().find(|used| wanted(used.access()))?;
            Span::of(used.register()).map(Place::Register)
        };
        let (source, target) = (register(reads)?, register(writes)?);
        Some(vec![Part { kind: Kind::Copies { extends: true }, sources: vec![source], targets: vec![target] }])
    }

    /// The return address is a constant, whatever the target of the call depends on.
    fn call(&self) -> Part {
        let targets = self.memory.iter().position(|memory| memory.writes).map(Place::Memory);
        let sources = match self.instruction.flow_control() {
            FlowControl::IndirectCall => self.place(0, false),
            _ => None,
        };
        Part { kind: Kind::Computes, sources: sources.into_iter().collect(), targets: targets.into_iter().collect() }
    }

    fn exchange(&self) -> Option<Vec<Part>> {
        let copy = |source: u32, target: u32| -> Option<Part> {
            let (sources, targets) = (vec![self.place(source, false)?], vec![self.place(target, true)?]);
            Some(Part { kind: Kind::Copies { extends: true }, sources, targets })
        };
        Some(vec![copy(1, 0)?, copy(0, 1)?])
    }

    fn moves_if(&self) -> Option<Vec<Part>> {
        let mut part = self.copy(1, 0)?;
        part.kind = Kind::CopiesIf(self.instruction.condition_code());
        let flags = Span::flags(self.instruction.rflags_read()).map(Place::Register).collect();
        // Flags decide, and are no part of the value.
        let decision = Part { kind: Kind::Computes, sources: flags, targets: Vec::new() };
        Some(vec![part, decision])
    }

    fn copies(&self) -> bool {
        let instruction = self.instruction;
        let both = instruction.op_count() == 2 && !instruction.has_op_mask() && self.touches_only_data();
        both && is_move(instruction.mnemonic())
    }

    /// Neither a segment nor a control register is an operand.
    fn touches_only_data(&self) -> bool {
        (0..self.instruction.op_count())
            .all(|operand| self.register_of(operand).is_none_or(|register| Span::of(register).is_some()))
    }
}

/// `used_memory` names address registers as the operand does.
trait AddressRegister {
    fn full_register_of_address(self) -> Register;
}

impl AddressRegister for Register {
    fn full_register_of_address(self) -> Register {
        if matches!(self, Register::RIP | Register::EIP) { Register::None } else { self }
    }
}

/// Such a shift always writes flags, unless it shifts by nothing.
fn shifts_by_constant(instruction: &Instruction) -> bool {
    let operand = instruction.op_count().saturating_sub(1);
    let is_constant = instruction.op_count() > 1 && instruction.op_kind(operand) == OpKind::Immediate8;
    is_constant && !repeats(instruction) && instruction.immediate8() & 0x1f != 0
}

fn is_conditional_move(instruction: &Instruction) -> bool {
    instruction.condition_code() != ConditionCode::None
        && instruction.op_count() == 2
        && instruction.flow_control() == FlowControl::Next
        && instruction.op0_register().is_gpr()
        && instruction.op0_register().size() > 1
}

fn is_move(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Movnti
            | Mnemonic::Movd
            | Mnemonic::Movq
            | Mnemonic::Movss
            | Mnemonic::Movsd
            | Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movapd
            | Mnemonic::Movupd
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Lddqu
            | Mnemonic::Movntps
            | Mnemonic::Movntpd
            | Mnemonic::Movntdq
            | Mnemonic::Movntdqa
            | Mnemonic::Vmovd
            | Mnemonic::Vmovq
            | Mnemonic::Vmovss
            | Mnemonic::Vmovsd
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovups
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovdqa32
            | Mnemonic::Vmovdqa64
            | Mnemonic::Vmovdqu8
            | Mnemonic::Vmovdqu16
            | Mnemonic::Vmovdqu32
            | Mnemonic::Vmovdqu64
            | Mnemonic::Vlddqu
            | Mnemonic::Vmovntps
            | Mnemonic::Vmovntpd
            | Mnemonic::Vmovntdq
            | Mnemonic::Vmovntdqa
    )
}

fn drop_doubles(places: &mut Vec<Place>) {
    let mut seen: Vec<Place> = Vec::new();
    places.retain(|place| {
        let is_new = !seen.contains(place);
        if is_new {
            seen.push(*place);
        }
        is_new
    });
}

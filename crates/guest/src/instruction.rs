//! What one instruction reads, writes and does to flags, in the form that translation and analyses need.
//!
//! All facts come from `iced-x86`; this module adds only the cases where an instruction's effect depends on a run-time
//! count, so that "writes" may mean "may write".

use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register, RflagsBits, UsedMemory,
};

/// The six flags that arithmetic sets.
pub const ARITHMETIC_FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// A set of general-purpose registers, one bit each in encoding order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegisterSet(pub u16);

impl RegisterSet {
    pub fn insert(&mut self, register: u8) {
        self.0 |= 1 << register;
    }

    pub fn remove(&mut self, register: u8) {
        self.0 &= !(1 << register);
    }

    pub fn contains(self, register: u8) -> bool {
        self.0 & (1 << register) != 0
    }

    pub fn union(self, other: RegisterSet) -> RegisterSet {
        RegisterSet(self.0 | other.0)
    }

    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<u8> for RegisterSet {
    fn from_iter<I: IntoIterator<Item = u8>>(registers: I) -> RegisterSet {
        RegisterSet(registers.into_iter().fold(0, |set, register| set | 1 << register))
    }
}

/// The encoding number of a general-purpose register of any width, or `None` for other registers.
pub fn register_number(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64().then(|| (full as u32 - Register::RAX as u32) as u8)
}

/// The 64-bit register with this encoding number.
pub fn register_named(number: u8) -> Register {
    const NAMES: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    NAMES[number as usize]
}

/// The arithmetic flags that the instruction surely overwrites.
pub fn flags_killed(instruction: &Instruction) -> u32 {
    if leaves_flags_when_count_is_zero(instruction) {
        return 0;
    }
    instruction.rflags_modified() & ARITHMETIC_FLAGS
}

/// The arithmetic flags that the instruction may read.
pub fn flags_read(instruction: &Instruction) -> u32 {
    instruction.rflags_read() & ARITHMETIC_FLAGS
}

fn leaves_flags_when_count_is_zero(instruction: &Instruction) -> bool {
    let shifts = matches!(
        instruction.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Sal
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    );
    shifts || instruction.has_rep_prefix() || instruction.has_repne_prefix()
}

/// General-purpose registers that an instruction names or implies, read or written.
pub fn registers_used(info: &InstructionInfo) -> RegisterSet {
    info.used_registers().iter().filter_map(|used| register_number(used.register())).collect()
}

/// Those that it may write.
pub fn registers_written(info: &InstructionInfo) -> RegisterSet {
    let writes = |access: OpAccess| {
        matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
    };
    let written = info.used_registers().iter().filter(|used| writes(used.access()));
    written.filter_map(|used| register_number(used.register())).collect()
}

/// Memory operands, explicit and implied, that the instruction really accesses.
pub fn memory_used<'i>(info: &'i InstructionInfo, instruction: &Instruction) -> impl Iterator<Item = &'i UsedMemory> {
    let computes_only = matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    info.used_memory()
        .iter()
        .filter(move |memory| !computes_only && !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess))
}

/// Whether the instruction is one of the string instructions under a repeat prefix.
pub fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Branches that test the count register instead of flags.
pub fn branches_on_count(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne | Mnemonic::Jcxz | Mnemonic::Jecxz | Mnemonic::Jrcxz
    )
}

/// Instructions that load a segment register, and with it could take FS from the engine.
pub fn loads_segment_register(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Mov_Sreg_rm16
            | Code::Mov_Sreg_r32m16
            | Code::Mov_Sreg_r64m16
            | Code::Popw_FS
            | Code::Popq_FS
            | Code::Popw_GS
            | Code::Popq_GS
            | Code::Lfs_r16_m1616
            | Code::Lfs_r32_m1632
            | Code::Lfs_r64_m1664
            | Code::Lgs_r16_m1616
            | Code::Lgs_r32_m1632
            | Code::Lgs_r64_m1664
            | Code::Lss_r16_m1616
            | Code::Lss_r32_m1632
            | Code::Lss_r64_m1664
    )
}

/// Whether the instruction may raise an exception for any reason but its fetch: touches memory, divides, or works on
/// floating-point or vector state whose exceptions may be unmasked. Errs towards yes.
pub fn may_fault(instruction: &Instruction) -> bool {
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return false;
    }
    let memory = (0..instruction.op_count()).any(|operand| {
        !matches!(
            instruction.op_kind(operand),
            OpKind::Register
                | OpKind::NearBranch16
                | OpKind::NearBranch32
                | OpKind::NearBranch64
                | OpKind::Immediate8
                | OpKind::Immediate8_2nd
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    });
    let other_registers = (0..instruction.op_count())
        .any(|operand| instruction.op_kind(operand) == OpKind::Register && !instruction.op_register(operand).is_gpr());
    memory
        || other_registers
        || instruction.is_stack_instruction()
        || matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv)
        || instruction.flow_control() == FlowControl::Exception
}

/// Whether the instruction enters the kernel or returns from it.
pub fn enters_kernel(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Sysenter
            | Mnemonic::Sysret
            | Mnemonic::Sysexit
            | Mnemonic::Iret
            | Mnemonic::Iretq
    )
}

/// How an instruction of the XSAVE family stores register state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedForm {
    pub is_compact: bool,
    /// Components that are not in use are left out.
    pub leaves_out: bool,
}

/// The form of an instruction that stores register state by components.
pub fn saved_form(instruction: &Instruction) -> Option<SavedForm> {
    let (is_compact, leaves_out) = match instruction.mnemonic() {
        Mnemonic::Xsave | Mnemonic::Xsave64 => (false, false),
        Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => (false, true),
        Mnemonic::Xsavec | Mnemonic::Xsavec64 => (true, true),
        _ => return None,
    };
    Some(SavedForm { is_compact, leaves_out })
}

/// Where an instruction stores the x87 unit's instruction pointer: so far into its operand, as eight bytes or four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointerField {
    pub offset: u64,
    pub wide: bool,
}

/// The field of an instruction that stores the x87 unit's environment. Of the old formats only those with 32-bit fields
/// count: 16 bits tell nobody where an instruction was.
pub fn x87_pointer_stored(instruction: &Instruction) -> Option<PointerField> {
    match instruction.code() {
        Code::Fnstenv_m28byte | Code::Fstenv_m28byte | Code::Fnsave_m108byte | Code::Fsave_m108byte => {
            Some(PointerField { offset: 12, wide: false })
        }
        Code::Fxsave_m512byte => Some(PointerField { offset: 8, wide: false }),
        Code::Fxsave64_m512byte => Some(PointerField { offset: 8, wide: true }),
        _ => None,
    }
}

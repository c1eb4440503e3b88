//! Leaving before instructions that may access watched memory.

use super::branches::subtract_from_rcx;
use super::{CX, Emitter, SCRATCH};
use crate::code::cache::{Disturbance, Exit, Window};
use crate::code::path::is_system_call;
use crate::context::{R11, RCX};
use crate::debug::Watching;
use guest::instruction::{memory_used, repeats};
use iced_x86::{
    Code, CodeSize, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};

/// Where an instruction accesses memory.
enum Accesses {
    At(Vec<UsedMemory>),
    /// Where a sum of registers does not tell.
    Anywhere,
}

impl Emitter<'_> {
    pub(super) fn watch(&mut self, instruction: &Instruction) {
        if self.cache.watched.is_empty() && self.cache.alarms.is_none() || self.cache.single_steps {
            return;
        }
        let pc = instruction.ip();
        let windows = self.cache.watched.clone();
        let alarms = self.cache.alarms;
        let reads =
            alarms.is_some_and(|maps| maps.reads.is_some()) || windows.iter().any(|window| window.what.sees_reads());
        match accesses_of(&mut self.cache.factory, instruction, reads) {
            Accesses::Anywhere => {
                self.step(pc, Disturbance::default());
                self.leave_by(Exit::Watch { pc });
            }
            Accesses::At(places) => {
                for memory in places {
                    let sees = |window: &&Window| is_seen(&memory, window.what);
                    windows.iter().filter(sees).for_each(|window| self.check_address(pc, &memory, *window));
                    let maps = alarms.and_then(|maps| if writes(&memory) { Some(maps.writes) } else { maps.reads });
                    maps.into_iter().for_each(|maps| self.check_alarm(pc, &memory, maps));
                }
            }
        }
    }

    /// Leaves if the address lies in the window. Flags stay as they are.
    fn check_address(&mut self, pc: u64, memory: &UsedMemory, window: Window) {
        self.step(pc, Disturbance::default());
        self.spill_for_branch(pc);
        self.load_address(pc, memory);
        subtract_from_rcx(self.asm, window.start);
        self.asm.load_constant(SCRATCH, u64::from(window.shift));
        self.asm.raw(&[0xc4, 0xe2, 0xa3, 0xf7, 0xc9]); // shrx rcx, rcx, r11
        self.asm.raw(&[0xe3, 2, 0xeb, 5]); // jrcxz over the short jump into the long one
        self.leave_to_look(pc);
    }

    /// Leaves if the map for the access's width has an entry for the address. Flags stay as they are.
    fn check_alarm(&mut self, pc: u64, memory: &UsedMemory, [narrow, word, wide]: [u64; 3]) {
        let map = match memory.memory_size().size() {
            1 => narrow,
            2..=8 => word,
            _ => wide,
        };
        self.step(pc, Disturbance::default());
        self.spill_for_branch(pc);
        self.load_address(pc, memory);
        self.asm.raw(&[0x41, 0x89, 0xcb]); // mov r11d, ecx
        self.asm.load_constant(CX, map);
        self.asm.raw(&[0x42, 0x0f, 0xb6, 0x0c, 0x19]); // movzx ecx, byte [rcx + r11]
        self.asm.raw(&[0xe3, 5]); // jrcxz over the long jump
        self.leave_to_look(pc);
    }

    /// The jump that leaves, with the guest's registers, and where the unit goes on if it is not taken.
    fn leave_to_look(&mut self, pc: u64) {
        let (count, scratch) = (self.layout.gpr(RCX), self.layout.gpr(R11));
        let restore = |asm: &mut crate::code::assembler::Assembler| {
            asm.load_slot(SCRATCH, scratch);
            asm.load_slot(CX, count);
        };
        let stub = self.cache.emit_exit(Exit::Watch { pc }, restore);
        self.depart(None, stub);
        restore(self.asm);
        self.step(pc, Disturbance::default());
    }

    /// Computes the address into RCX; R11 may be overwritten once the sum is there.
    fn load_address(&mut self, pc: u64, memory: &UsedMemory) {
        if memory.base() == Register::None && memory.index() == Register::None {
            self.asm.load_constant(CX, memory.displacement());
        } else {
            let displacement = memory.displacement() as i64;
            let operand = MemoryOperand::new(
                memory.base(),
                memory.index(),
                memory.scale(),
                displacement,
                u32::from(displacement != 0),
                false,
                Register::None,
            );
            let mut lea = Instruction::with2(Code::Lea_r64_m, Register::RCX, operand).expect("a sum of registers");
            lea.set_ip(pc);
            self.encode(&lea);
        }
        match memory.segment() {
            // The guest's FS base lives in GS.
            Register::FS => self.asm.raw(&[0xf3, 0x49, 0x0f, 0xae, 0xcb]), // rdgsbase r11
            Register::GS => self.asm.load_slot(SCRATCH, self.layout.guest_gs()),
            _ => return,
        }
        self.asm.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
    }
}

/// All that it writes, and with `reads` all that it reads.
fn accesses_of(factory: &mut InstructionInfoFactory, instruction: &Instruction, reads: bool) -> Accesses {
    if is_system_call(instruction) {
        return Accesses::Anywhere;
    }
    let into_memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let unusual = repeats(instruction)
        || instruction.is_vsib()
        || instruction.mnemonic() == Mnemonic::Enter
        || instruction.mnemonic() == Mnemonic::Pop && into_memory;
    let matters = |memory: &&UsedMemory| reads || writes(memory);
    let places: Vec<UsedMemory> =
        memory_used(factory.info(instruction), instruction).filter(matters).copied().collect();
    let is_plain = !unusual && places.iter().all(is_sum) && places.iter().filter(|memory| writes(memory)).count() < 2;
    if places.is_empty() || is_plain { Accesses::At(places) } else { Accesses::Anywhere }
}

fn writes(memory: &UsedMemory) -> bool {
    !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead)
}

fn is_seen(memory: &UsedMemory, what: Watching) -> bool {
    let reads = !matches!(memory.access(), OpAccess::Write | OpAccess::CondWrite);
    what.sees_writes() && writes(memory) || what.sees_reads() && reads
}

/// Whether an instruction of its own can compute the address, and the access is no wider than windows foresee.
fn is_sum(memory: &UsedMemory) -> bool {
    let plain = |register: Register| register == Register::None || register.is_gpr64();
    let size = memory.memory_size().size() as u64;
    let near = i32::try_from(memory.displacement() as i64).is_ok();
    let constant = memory.base() == Register::None && memory.index() == Register::None;
    plain(memory.base())
        && plain(memory.index())
        && (near || constant)
        && (1..=Window::WIDEST).contains(&size)
        && memory.address_size() == CodeSize::Code64
}

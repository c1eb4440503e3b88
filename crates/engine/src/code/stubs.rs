//! The hand-written ways into and out of translated code, assembled once at the start of the cold region.

use crate::code::assembler::{Assembler, Condition};
use crate::context::{Layout, R11, RAX, RCX, RDI, RSP};

/// Exits with fixed numbers; all others are made by translation.
pub const EXIT_INDIRECT: u32 = 0;
pub const EXIT_INTERRUPTED: u32 = 1;
pub const EXIT_FAULT: u32 = 2;

/// Addresses of the stubs.
#[derive(Clone, Copy, Debug)]
pub struct Stubs {
    /// `extern "C" fn(host)`: loads the guest's registers and jumps to `host`; returns when translated code leaves.
    pub enter: u64,
    /// Expects the exit's number in RAX and the guest's RAX in its slot.
    pub leave: u64,
    /// Where the branch table points for addresses that have no translation: the target is in RCX, and the guest's RCX
    /// and R11 are in their slots.
    pub indirect_miss: u64,
    /// Leaves with the guest's registers as they are: signal handlers send a faulting thread here.
    pub fault: u64,
}

/// Everything the guest keeps in vector and floating-point registers, as the processor's mask.
pub const XSAVE_COMPONENTS: u32 = u32::MAX;

/// The engine's own rounding and exception settings.
const CLEAN_MXCSR: u32 = 0x1f80;

impl Stubs {
    /// Assembles the stubs; the bytes belong at the assembler's base address.
    pub fn assemble(asm: &mut Assembler, layout: Layout) -> Stubs {
        let leave = asm.here();
        assemble_leave(asm, layout);
        let enter = asm.here();
        assemble_enter(asm, layout);
        let indirect_miss = asm.here();
        asm.store_slot(layout.branch_target(), RCX as u8);
        asm.load_slot(RCX as u8, layout.gpr(RCX));
        asm.load_slot(R11 as u8, layout.gpr(R11));
        asm.store_slot(layout.gpr(RAX), RAX as u8);
        asm.load_constant(RAX as u8, u64::from(EXIT_INDIRECT));
        asm.jump(leave);
        let fault = asm.here();
        asm.store_slot(layout.gpr(RAX), RAX as u8);
        asm.load_constant(RAX as u8, u64::from(EXIT_FAULT));
        asm.jump(leave);
        Stubs { enter, leave, indirect_miss, fault }
    }
}

fn assemble_leave(asm: &mut Assembler, layout: Layout) {
    asm.store_slot(layout.exit(), RAX as u8);
    for register in 1..16 {
        asm.store_slot(layout.gpr(register), register as u8);
    }
    asm.load_slot(RSP as u8, layout.host_rsp());
    asm.raw(&[0x9c, 0x58]); // pushf; pop rax
    asm.store_slot(layout.rflags(), RAX as u8);
    // The guest may have set the alignment-check or direction flag.
    asm.raw(&[0x68, 0x02, 0x02, 0x00, 0x00, 0x9d]); // push 0x202; popf
    asm.load_slot(RCX as u8, layout.xsave());
    asm.raw(&[0xb8]); // mov eax, components
    asm.raw(&XSAVE_COMPONENTS.to_le_bytes());
    asm.copy(2, RAX as u8);
    asm.raw(&[0x48, 0x0f, 0xae, 0x31]); // xsaveopt64 [rcx]
    asm.raw(&[0x68]); // push clean mxcsr
    asm.raw(&CLEAN_MXCSR.to_le_bytes());
    asm.raw(&[0x0f, 0xae, 0x14, 0x24]); // ldmxcsr [rsp]
    asm.raw(&[0x58]); // pop rax
    asm.raw(&[0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0x5d, 0xc3]); // pop r15…r12, rbx, rbp; ret
}

fn assemble_enter(asm: &mut Assembler, layout: Layout) {
    asm.raw(&[0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]); // push rbp, rbx, r12…r15
    // A signal that came before this check is seen by it; one that comes later finds itself inside the cache and
    // takes the thread's budget away.
    asm.raw(&[0x64, 0x83, 0x3c, 0x25]); // cmp dword fs:[signal_pending], 0
    asm.raw(&layout.signal_pending().0.to_le_bytes());
    asm.raw(&[0x00]);
    let interrupted = asm.jump_if(Condition::NOT_ZERO, asm.base());
    asm.store_slot(layout.host_rsp(), RSP as u8);
    asm.store_slot(layout.entry(), RDI as u8);
    asm.load_slot(RCX as u8, layout.xsave());
    asm.raw(&[0xb8]); // mov eax, components
    asm.raw(&XSAVE_COMPONENTS.to_le_bytes());
    asm.copy(2, RAX as u8);
    asm.raw(&[0x48, 0x0f, 0xae, 0x29]); // xrstor64 [rcx]
    asm.load_slot(RAX as u8, layout.rflags());
    asm.raw(&[0x50, 0x9d]); // push rax; popf
    for register in (0..16).filter(|&register| register != RSP) {
        asm.load_slot(register as u8, layout.gpr(register));
    }
    asm.load_slot(RSP as u8, layout.gpr(RSP));
    asm.jump_slot(layout.entry());
    let here = asm.here();
    asm.aim(interrupted, here);
    asm.load_constant(RAX as u8, u64::from(EXIT_INTERRUPTED));
    asm.store_slot(layout.exit(), RAX as u8);
    asm.raw(&[0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0x5d, 0xc3]);
}

//! Names for everything in the cache whose address or number means nothing to a reader of a listing.
#![allow(unsafe_code)]

use crate::code::cache::{CodeCache, Exit};
use crate::code::tests::home::Bytes;
use crate::context::{Layout, SPILL_SLOTS, Slot};
use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic, OpKind, Register, SymbolResolver,
    SymbolResult,
};

/// The instructions that lie in the cache from `from` to `to`.
pub fn decode_host(from: u64, to: u64) -> Vec<Instruction> {
    // SAFETY: both lie in one region of the cache's mapping, which stays, and nobody writes to this cache meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, to.saturating_sub(from) as usize) };
    Decoder::with_ip(64, bytes, from, DecoderOptions::NONE).into_iter().collect()
}

#[derive(Clone, Copy)]
pub struct Names<'a> {
    cache: &'a CodeCache,
    guest: &'a Bytes,
    /// The start of the unit that is listed.
    unit: u64,
}

impl<'a> Names<'a> {
    pub fn new(cache: &'a CodeCache, guest: &'a Bytes, unit: u64) -> Names<'a> {
        Names { cache, guest, unit }
    }

    /// Guest addresses in the listed code are offsets from its start.
    pub fn guest(&self, address: u64) -> String {
        match address.checked_sub(self.guest.start) {
            Some(offset) if offset <= self.guest.bytes.len() as u64 => format!("+{offset:x}"),
            _ => format!("{address:#x}"),
        }
    }

    /// Places in the unit are offsets; places in earlier ones count back.
    pub fn host(&self, address: u64) -> String {
        let warm = self.cache.memory.warm.start();
        let memory = &self.cache.memory;
        if (memory.hot.start()..=memory.hot.next()).contains(&address) {
            match address.checked_sub(self.unit) {
                Some(offset) => format!("{offset:04x}"),
                None => format!("-{:04x}", self.unit - address),
            }
        } else if (warm..=memory.warm.next()).contains(&address) {
            format!("w{:03x}", address - warm)
        } else {
            format!("{address:#x}")
        }
    }

    pub fn is_cold(&self, address: u64) -> bool {
        let cold = &self.cache.memory.cold;
        (cold.start()..cold.next()).contains(&address) && self.stub(address).is_none()
    }

    fn stub(&self, address: u64) -> Option<&'static str> {
        let stubs = self.cache.stubs();
        [(stubs.leave, "leave"), (stubs.indirect_miss, "indirect_miss"), (stubs.fault, "fault"), (stubs.enter, "enter")]
            .into_iter()
            .find_map(|(at, name)| (at == address).then_some(name))
    }

    /// The name of a piece of cold code: its exit's number, if it is one.
    pub fn cold(&self, address: u64) -> String {
        match self.exit_number(address) {
            Some(number) => format!("exit {number}"),
            None => String::from("miss"),
        }
    }

    pub fn exit_at(&self, address: u64) -> Option<Exit> {
        self.exit_number(address).map(|number| self.cache.exit(number))
    }

    /// The cold code at `address` up to the jump that ends it.
    fn whole_cold_code(&self, address: u64) -> Vec<Instruction> {
        let mut code = decode_host(address, self.cache.memory.cold.next());
        let end = code.iter().position(|instruction| instruction.mnemonic() == Mnemonic::Jmp);
        code.truncate(end.map_or(0, |end| end + 1));
        code
    }

    /// An exit loads its number into EAX just before it jumps to the leave stub.
    fn exit_number(&self, address: u64) -> Option<u64> {
        let code = self.whole_cold_code(address);
        let [.., load, jump] = code.as_slice() else { return None };
        let is_exit = jump.near_branch_target() == self.cache.stubs().leave && load.op1_kind() == OpKind::Immediate32;
        is_exit.then(|| u64::from(load.immediate32()))
    }

    /// What cold code does besides what every exit does.
    pub fn cold_code(&self, address: u64) -> Vec<Instruction> {
        let mut code = self.whole_cold_code(address);
        if self.exit_number(address).is_some() {
            code.truncate(code.len() - 3);
        }
        code
    }

    pub fn format(&self, instruction: &Instruction) -> String {
        let mut formatter = IntelFormatter::with_options(
            Some(Box::new(Resolver {
                layout: self.cache.layout,
                table: self.cache.table.displacement(),
                branch: self.branch(instruction),
                constant: self.constant(instruction),
            })),
            None,
        );
        formatter.options_mut().set_branch_leading_zeros(false);
        let mut text = String::new();
        formatter.format(instruction, &mut text);
        text
    }

    fn branch(&self, instruction: &Instruction) -> Option<String> {
        if instruction.op0_kind() != OpKind::NearBranch64 {
            return None;
        }
        let target = instruction.near_branch_target();
        Some(match self.stub(target) {
            Some(stub) => String::from(stub),
            None if self.is_cold(target) => self.cold(target),
            None => self.host(target),
        })
    }

    /// The value of a constant in the cache that the instruction reads.
    fn constant(&self, instruction: &Instruction) -> Option<String> {
        let address = instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address())?;
        let constants = &self.cache.memory.constants;
        (constants.start()..constants.next()).contains(&address).then(|| {
            // SAFETY: the constant lies in the cache's mapping.
            let value = unsafe { (address as *const u64).read_unaligned() };
            format!("constant {}", self.guest(value))
        })
    }
}

struct Resolver {
    layout: Layout,
    table: i32,
    branch: Option<String>,
    constant: Option<String>,
}

impl SymbolResolver for Resolver {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let name = if let Some(branch) = &self.branch {
            branch.clone()
        } else if let Some(constant) = &self.constant {
            constant.clone()
        } else if instruction.segment_prefix() == Register::FS {
            slot_name(self.layout, Slot(address as i32))?
        } else if instruction.mnemonic() == Mnemonic::Jmp && address as i32 == self.table {
            String::from("table")
        } else {
            return None;
        };
        Some(SymbolResult::with_string(address, name))
    }
}

fn slot_name(layout: Layout, slot: Slot) -> Option<String> {
    const REGISTERS: [&str; 16] =
        ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let register = (0..16).find(|&register| layout.gpr(register) == slot).map(|register| REGISTERS[register]);
    if let Some(register) = register {
        return Some(format!("guest {register}"));
    }
    if let Some(index) = (0..SPILL_SLOTS).find(|&index| layout.spill(index) == slot) {
        return Some(format!("spill {index}"));
    }
    let others = [
        (layout.rflags(), "rflags"),
        (layout.exit(), "exit"),
        (layout.branch_target(), "branch target"),
        (layout.budget(), "budget"),
        (layout.trace_next(), "trace next"),
        (layout.guest_gs(), "guest gs base"),
    ];
    others.into_iter().find_map(|(at, name)| (at == slot).then(|| String::from(name)))
}

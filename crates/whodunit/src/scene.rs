//! A stopped program as its reports need it: memory, stacks, names, source lines.

use crate::memory::OwnMemory;
use crate::place::{Places, Region, StackPointer, is_canonical};
use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, InstructionInfoFactory, IntelFormatter, OpAccess, Register,
    UsedMemory,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use program::copies::Copies;
use program::space::{AddressSpace, GuestAddress, Mapping, parse_maps};
use program::symbols::{SourceFrame, Symbolizer};
use program::unwind::{Backtrace, CodeAddress, CodeAddressKind, Ended, Registers, backtrace};
use report::crash::{Access, FrameFacts, ThreadFacts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Registers by their place in the encoding.
const RSP: usize = 4;
const RDI: usize = 7;

const LONGEST_INSTRUCTION: usize = 15;
/// Endless recursion fills a stack of the usual size with fewer frames.
const MAX_FRAMES: usize = 400_000;
/// Reports show the two ends of a long stack; what lies between needs no names.
const NAMED_INNERMOST: usize = 40;
const NAMED_OUTERMOST: usize = 10;

/// Where the kernel puts whodunit's own program, and its libraries and stacks.
const OWN_PROGRAM: std::ops::Range<u64> = 0x5555_0000_0000..0x5657_0000_0000;
const OWN_LIBRARIES: u64 = 0x7eb0_0000_0000;

pub struct Scene {
    space: AddressSpace,
    regions: Vec<Region>,
    memory: OwnMemory,
    symbolizer: Symbolizer,
    /// Threads tend to wait in the same places.
    names: BTreeMap<CodeAddress, Vec<SourceFrame>>,
}

impl Scene {
    /// Looks at this process. What cannot be read counts as absent; in a replay, files may be copies.
    pub fn read(copies: &Arc<Copies>) -> Scene {
        make_room_for_files();
        Scene::glance(copies)
    }

    /// The same while the program goes on, which must not notice: where it has used up its descriptors, less is known.
    pub fn glance(copies: &Arc<Copies>) -> Scene {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        Scene::new(&String::from_utf8_lossy(&maps), OwnMemory::open(), copies)
    }

    fn new(maps: &str, memory: OwnMemory, copies: &Arc<Copies>) -> Scene {
        let lines: Vec<&str> = maps.lines().filter(|line| is_of_the_guest(line)).collect();
        let space = AddressSpace::with_copies(parse_maps(&lines.join("\n")), copies);
        let symbolizer = Symbolizer::new(&space);
        let regions = lines.iter().filter_map(|line| parse_region(line, copies)).collect();
        Scene { space, regions, memory, symbolizer, names: BTreeMap::new() }
    }

    pub fn space(&self) -> &AddressSpace {
        &self.space
    }

    pub fn memory(&self) -> &OwnMemory {
        &self.memory
    }

    pub fn threads(&mut self, threads: &[&engine::ThreadFacts]) -> Vec<ThreadFacts> {
        threads.iter().map(|thread| self.thread(thread, threads)).collect()
    }

    /// The calls that led to where the thread is, the innermost first.
    pub fn program_counters(&self, thread: &engine::ThreadFacts) -> Vec<u64> {
        self.stack(thread).frames.iter().map(|address| address.pc).collect()
    }

    fn stack(&self, thread: &engine::ThreadFacts) -> Backtrace {
        let registers = Registers::full(thread.pc, thread.registers);
        backtrace(&self.space, &self.memory, registers, MAX_FRAMES)
    }

    fn thread(&mut self, thread: &engine::ThreadFacts, all: &[&engine::ThreadFacts]) -> ThreadFacts {
        let stack = self.stack(thread);
        ThreadFacts {
            id: thread.id.0,
            tid: thread.tid,
            name: thread_name(thread.tid),
            state: self.state(thread, all),
            truncated: stack.ended != Ended::Complete,
            frames: self.frames(&stack),
        }
    }

    fn frames(&mut self, stack: &Backtrace) -> Vec<FrameFacts> {
        let outermost = stack.frames.len().saturating_sub(NAMED_OUTERMOST);
        let is_named = |position: usize| position <= NAMED_INNERMOST || position >= outermost;
        let frames = stack.frames.iter().enumerate();
        frames
            .map(|(position, &address)| FrameFacts {
                pc: address.pc,
                resolved: if is_named(position) { self.functions_at(address) } else { Vec::new() },
            })
            .collect()
    }

    /// The functions at a code address, the innermost inlined one first.
    pub fn functions_at(&mut self, address: CodeAddress) -> Vec<SourceFrame> {
        let symbolizer = &mut self.symbolizer;
        self.names.entry(address).or_insert_with(|| symbolizer.resolve(address)).clone()
    }

    /// The function that an instruction belongs to, or the file it comes from.
    pub fn function_at(&mut self, pc: u64) -> String {
        let resolved = self.symbolizer.resolve(CodeAddress { pc, kind: CodeAddressKind::Exact });
        match resolved.last() {
            Some(SourceFrame { function: Some(name), .. }) => name.clone(),
            Some(frame) => format!("[{}]", frame.module),
            None => "[unknown]".to_owned(),
        }
    }

    /// What the engine says, and whose lock it is if a thread waits for one.
    fn state(&mut self, thread: &engine::ThreadFacts, all: &[&engine::ThreadFacts]) -> String {
        let futex = thread.registers[RDI];
        let mut state = thread.state.clone();
        if !state.ends_with(&format!("futex at {futex:#x}")) {
            return state;
        }
        if let Some(variable) = self.symbolizer.data_symbol(GuestAddress(futex)) {
            state += &format!(" ({})", variable.to_string().trim_start_matches("at "));
        }
        if let Some(holder) = self.mutex_holder(futex).and_then(|tid| all.iter().find(|other| other.tid == tid)) {
            state += &format!(", held by thread {}", holder.id);
        }
        state
    }

    /// The kernel's number of the thread that holds the mutex at `address`, if it is one of the GNU C library: the
    /// lock word, a counter, then the owner. Another lock hardly has just the number of a thread there.
    fn mutex_holder(&self, address: u64) -> Option<i32> {
        const CONTENDED: u32 = 2;
        const OWNER: u64 = 8;
        (self.memory.read_u32(address)? == CONTENDED).then_some(())?;
        i32::try_from(self.memory.read_u32(address.checked_add(OWNER)?)?).ok()
    }

    pub fn instruction_at(&self, pc: u64) -> Option<String> {
        let mut text = String::new();
        IntelFormatter::new().format(&self.decoded(pc)?, &mut text);
        Some(text)
    }

    fn decoded(&self, pc: u64) -> Option<Instruction> {
        let bytes = self.memory.read_up_to(pc, LONGEST_INSTRUCTION);
        let instruction = Decoder::with_ip(64, &bytes, pc, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// What an instruction accesses at an address that no memory can have. The kernel does not tell such an address.
    pub fn impossible_access(&self, pc: u64, registers: &[u64; 16]) -> Option<(u64, Access)> {
        let instruction = self.decoded(pc)?;
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(&instruction).used_memory().iter();
        let mut accesses = used.filter_map(|used| Some((address_of(used, registers)?, kind_of(used.access()))));
        accesses.find(|(address, _)| !is_canonical(*address))
    }

    /// What lies at an address; `threads` start with the one that touched it.
    pub fn describe(&mut self, address: u64, access: Option<Access>, threads: &[&engine::ThreadFacts]) -> String {
        let pointer =
            |thread: &&engine::ThreadFacts| StackPointer { thread: thread.id.0, address: thread.registers[RSP] };
        let stacks: Vec<StackPointer> = threads.iter().map(pointer).collect();
        let symbolizer = &mut self.symbolizer;
        let variable = |address| symbolizer.data_symbol(GuestAddress(address)).map(|symbol| symbol.to_string());
        Places { regions: &self.regions, stacks: &stacks }.describe(address, access, variable)
    }
}

/// Where an operand is, as far as general registers tell.
fn address_of(used: &UsedMemory, registers: &[u64; 16]) -> Option<u64> {
    used.virtual_address(0, |register, _, _| match register {
        Register::FS | Register::GS => None,
        register if register.is_segment_register() => Some(0),
        register if register.is_gpr64() => registers.get(register.number()).copied(),
        _ => None,
    })
}

fn kind_of(access: OpAccess) -> Access {
    match access {
        OpAccess::Read | OpAccess::CondRead => Access::Read,
        _ => Access::Write,
    }
}

/// A program that has used up its descriptors leaves none for reading its files. It ends anyway.
fn make_room_for_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn is_of_the_guest(line: &str) -> bool {
    let start = line.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok());
    start.is_some_and(|start| !OWN_PROGRAM.contains(&start) && start < OWN_LIBRARIES)
}

fn parse_region(line: &str, copies: &Copies) -> Option<Region> {
    let Mapping { start, end, executable, path, .. } = parse_maps(line).pop()?;
    let rights = line.split(' ').nth(1)?;
    let path = path.as_deref().map(|path| copies.original(path));
    let name = path.map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned());
    let (readable, writable) = (rights.contains('r'), rights.contains('w'));
    Some(Region { start, end, readable, writable, executable, name })
}

fn thread_name(tid: i32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00401000 r-xp 00000000 08:01 1234                               /opt/my prog
555555554000-555555560000 r-xp 00000000 08:01 99                         /usr/bin/whodunit
5a0000000000-5a0000001000 ---p 00000000 00:00 0 
7ffff7fc0000-7ffff7fc1000 r-xp 00000000 08:01 98                         /lib/ld.so
";

    #[test]
    fn memory_of_the_guest_only() {
        let scene = Scene::new(MAPS, OwnMemory::open(), &Arc::default());
        let seen: Vec<_> = scene.regions.iter().map(|region| (region.start, region.name.as_deref())).collect();
        assert_eq!(seen, [(0x40_0000, Some("my prog")), (0x5a00_0000_0000, None)]);
        let rights: Vec<_> = scene.regions.iter().map(|r| (r.readable, r.writable, r.executable)).collect();
        assert_eq!(rights, [(true, false, true), (false, false, false)]);
    }

    #[test]
    fn instructions_in_words() {
        let code: &[u8] = &[0x89, 0x70, 0x10, 0xc3];
        let scene = Scene::new("", OwnMemory::open(), &Arc::default());
        assert_eq!(scene.instruction_at(code.as_ptr() as u64).as_deref(), Some("mov [rax+10h],esi"));
        assert_eq!(scene.instruction_at(0x10), None);
    }

    #[test]
    fn only_addresses_that_no_memory_has_are_impossible() {
        // mov [rax+10h],esi; add ecx,[rbx+rdx*8]; mov eax,fs:[rax]
        let code: &[u8] = &[0x89, 0x70, 0x10, 0x03, 0x0c, 0xd3, 0x64, 0x8b, 0x00];
        let scene = Scene::new("", OwnMemory::open(), &Arc::default());
        let at = |offset: usize, rax: u64, rdx: u64| {
            let mut registers = [0; 16];
            (registers[0], registers[2], registers[3]) = (rax, rdx, 0x1000);
            scene.impossible_access(code[offset..].as_ptr() as u64, &registers)
        };
        const WILD: u64 = 0x6c2d_6f6f_742d_7261;
        assert_eq!(at(0, WILD, 0), Some((WILD + 0x10, Access::Write)));
        assert_eq!(at(0, 0x7fff_ffff_fff0, 0), Some((0x8000_0000_0000, Access::Write)));
        assert_eq!(at(0, 0, 0), None);
        assert_eq!(at(3, 0, 1 << 50), Some(((1 << 53) + 0x1000, Access::Read)));
        assert_eq!(at(3, WILD, 1), None);
        assert_eq!(at(6, WILD, 0), None);
    }
}

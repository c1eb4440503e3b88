//! Functions by their symbols' names, and the instructions by which they are left.
//!
//! May miss: functions without a symbol.

use crate::elf::Image;
use crate::space::{AddressSpace, FileVma, GuestAddress, Module};
use iced_x86::{Code as Code64, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// More instructions than any function has that this is meant for.
const LONGEST: usize = 20_000;

/// A function in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFunction<T> {
    /// What the caller takes it for.
    pub meaning: T,
    pub start: GuestAddress,
    /// Its `ret` instructions, and those of what it jumps to.
    pub returns: Vec<GuestAddress>,
    /// Jumps whose targets only the run knows: the last thing that some functions do, also through a linkage table.
    pub jumps: Vec<GuestAddress>,
    /// Where it stores a whole register to just where another one points.
    pub stores: Vec<RegisterStore>,
}

/// An instruction that stores a general register; registers are numbered as in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterStore {
    pub at: GuestAddress,
    pub value: u8,
    pub base: u8,
}

impl AddressSpace {
    /// The functions that mean something to the caller, by any of their names, in order of address.
    pub fn functions_meaning<T: Copy>(&self, meaning: impl Fn(&str) -> Option<T>) -> Vec<NamedFunction<T>> {
        self.modules().flat_map(|(_, module)| in_module(module, &meaning)).collect()
    }

    /// The code of all functions whose symbols have a size, in order of address.
    pub fn code_of_functions(&self) -> Vec<Range<GuestAddress>> {
        self.code_named(|_| true)
    }

    /// The code of the functions whose symbols have a size and a wanted name, demangled or not, in order of address.
    pub fn code_named(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Range<GuestAddress>> {
        self.modules().flat_map(|(_, module)| sized_in_module(module, &is_wanted)).collect()
    }
}

fn in_module<T: Copy>(module: &Module, meaning: &impl Fn(&str) -> Option<T>) -> Vec<NamedFunction<T>> {
    let Some(image) = module.image() else { return Vec::new() };
    let mut starts = BTreeMap::new();
    for image in [Some(image), module.debug_image()].into_iter().flatten() {
        starts.extend(named(image, meaning));
    }
    let code = Code { image };
    let in_memory = |address: u64| module.guest_address(FileVma(address));
    let found = starts.into_iter().map(|(start, meaning)| {
        let ways = code.ways_out(start);
        NamedFunction {
            meaning,
            start: in_memory(start),
            returns: ways.returns.into_iter().map(in_memory).collect(),
            jumps: ways.jumps.into_iter().map(in_memory).collect(),
            stores: ways
                .stores
                .into_iter()
                .map(|(at, (value, base))| RegisterStore { at: in_memory(at), value, base })
                .collect(),
        }
    });
    found.collect()
}

fn sized_in_module(module: &Module, is_wanted: &impl Fn(&str) -> bool) -> Vec<Range<GuestAddress>> {
    let mut ranges = BTreeSet::new();
    for image in [module.image(), module.debug_image()].into_iter().flatten() {
        for (name, address, size) in symbols(image) {
            let end = address.saturating_add(size);
            if size > 0 && (is_wanted(&name) || is_wanted(&addr2line::demangle_auto(name.as_str().into(), None))) {
                ranges.insert((module.guest_address(FileVma(address)), module.guest_address(FileVma(end))));
            }
        }
    }
    ranges.into_iter().map(|(start, end)| start..end).collect()
}

fn named<T>(image: &Image, meaning: &impl Fn(&str) -> Option<T>) -> BTreeMap<u64, T> {
    let meant = symbols(image).into_iter().filter_map(|(name, address, _)| Some((address, meaning(&name)?)));
    meant.collect()
}

/// Name, address and size of a file's functions. Versions are for the linker: `malloc@@GLIBC_2.2.5`.
fn symbols(image: &Image) -> Vec<(String, u64, u64)> {
    let Some(file) = image.file() else { return Vec::new() };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
    let facts = functions.filter_map(|symbol| {
        let name = symbol.name().ok()?.split('@').next()?.to_owned();
        Some((name, symbol.address(), symbol.size()))
    });
    facts.collect()
}

#[derive(Default)]
struct WaysOut {
    returns: BTreeSet<u64>,
    jumps: BTreeSet<u64>,
    stores: BTreeMap<u64, (u8, u8)>,
}

/// The registers of a store of a whole register to just where another one points.
fn stored(instruction: &Instruction) -> Option<(u8, u8)> {
    let base = instruction.memory_base();
    let is_plain = instruction.code() == Code64::Mov_rm64_r64
        && instruction.op0_kind() == OpKind::Memory
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == 0
        && instruction.segment_prefix() == Register::None
        && base.is_gpr64()
        && base != Register::RSP;
    is_plain.then(|| (instruction.op1_register().number() as u8, base.number() as u8))
}

/// A file's instructions.
struct Code<'a> {
    image: &'a Image,
}

impl Code<'_> {
    /// Every way out that control can come to from `start` without a call.
    fn ways_out(&self, start: u64) -> WaysOut {
        let (mut ways, mut seen, mut open) = (WaysOut::default(), BTreeSet::new(), vec![start]);
        while let Some(from) = open.pop() {
            self.follow(from, &mut seen, |instruction| match instruction.flow_control() {
                FlowControl::Return => {
                    ways.returns.insert(instruction.ip());
                }
                // Tables of jumps inside a function are reached by registers.
                FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                    ways.jumps.insert(instruction.ip());
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    open.push(instruction.near_branch_target());
                }
                FlowControl::Next => {
                    ways.stores.extend(stored(instruction).map(|registers| (instruction.ip(), registers)))
                }
                _ => {}
            });
        }
        ways
    }

    /// Looks at one instruction after the other, up to where control does not go on or has been before.
    fn follow(&self, from: u64, seen: &mut BTreeSet<u64>, mut look: impl FnMut(&Instruction)) {
        let Some(tail) = self.image.tail_of_segment(from) else { return };
        let mut decoder = Decoder::with_ip(64, tail.bytes.bytes(), from, DecoderOptions::NONE);
        while decoder.can_decode() && seen.len() < LONGEST {
            let instruction = decoder.decode();
            if instruction.is_invalid() || !seen.insert(instruction.ip()) {
                return;
            }
            look(&instruction);
            match instruction.flow_control() {
                FlowControl::Next
                | FlowControl::ConditionalBranch
                | FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::XbeginXabortXend => {}
                FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Interrupt
                | FlowControl::Exception => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Mapping;
    use std::path::PathBuf;

    fn own_space() -> AddressSpace {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable maps");
        let mappings: Vec<Mapping> = crate::space::parse_maps(&maps);
        AddressSpace::new(mappings)
    }

    #[test]
    fn the_c_library_has_a_malloc_that_returns() {
        let space = own_space();
        let found = space.functions_meaning(|name| (name == "malloc").then_some(()));
        let libc = |function: &&NamedFunction<()>| {
            let (module, _) = space.locate(function.start).expect("in a module");
            space.module(module).name().starts_with("libc.")
        };
        let malloc = found.iter().find(libc).expect("malloc of the C library");
        assert!(!malloc.returns.is_empty());
    }

    #[test]
    fn stores_to_just_where_a_register_points() {
        let decoded = |bytes: &[u8]| Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        // mov [rbp+0], rdx; mov [rbx], rax; mov [rbx+8], rax; mov [rsp], rax; mov [rbx], eax
        assert_eq!(stored(&decoded(&[0x48, 0x89, 0x55, 0x00])), Some((2, 5)));
        assert_eq!(stored(&decoded(&[0x48, 0x89, 0x03])), Some((0, 3)));
        for other in [&[0x48, 0x89, 0x43, 0x08][..], &[0x48, 0x89, 0x04, 0x24], &[0x89, 0x03]] {
            assert_eq!(stored(&decoded(other)), None, "{other:x?}");
        }
    }

    #[test]
    fn a_file_that_is_none_has_no_functions() {
        let path = Some(PathBuf::from("/dev/null"));
        let mapping = Mapping { start: 0x1000, end: 0x2000, offset: 0, executable: true, path };
        assert_eq!(AddressSpace::new(vec![mapping]).functions_meaning(|_| Some(())), []);
    }
}

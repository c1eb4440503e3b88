//! The guest-visible state of the processor and memory: made at random, and compared.

use crate::code::tests::home::{Home, STACK};
use crate::context::RSP;
use crate::signals::frame::XState;
use sched::Rng;

/// Flags that user code can set and that are compared, but for the undefined ones.
pub const COMPARED_FLAGS: u64 = 0x0024_4dd5;
const ARITHMETIC: u64 = 0x8d5;
const DIRECTION: u64 = 0x400;
const ALWAYS: u64 = 0x202;
/// State components: x87, SSE, AVX, and the three of AVX-512. Protection keys are not touched.
const COMPONENTS: u64 = 0xe7;
const XSTATE_BV: usize = 512;
const XMM: usize = 160;

#[derive(Clone)]
pub struct State {
    pub gpr: [u64; 16],
    pub rflags: u64,
    /// Vector and floating-point state in the processor's standard format.
    pub vector: Vec<u8>,
    pub memory: Vec<u8>,
}

/// What a comparison leaves out.
#[derive(Clone, Copy, Default)]
pub struct Ignore {
    pub flags: u64,
    /// The x87 data pointer.
    pub data_pointer: bool,
}

impl State {
    pub fn random(rng: &mut Rng, home: Home, xstate: XState) -> State {
        let mut gpr = [0; 16].map(|_: u64| interesting(rng));
        gpr[RSP] = home.data + STACK;
        let mut rflags = ALWAYS | rng.draw() & ARITHMETIC;
        if rng.below(8) == 0 {
            rflags |= DIRECTION;
        }
        let memory = (0..home.data().len() / 8).flat_map(|_| interesting(rng).to_le_bytes()).collect();
        State { gpr, rflags, vector: random_vector(rng, xstate), memory }
    }

    /// Puts small lanes into a vector register, which is then good as an index of a gather.
    pub fn set_small_index(&mut self, register: usize, lane: usize, rng: &mut Rng) {
        let upper = component_offset(2);
        for at in (0..16).step_by(lane) {
            for base in [XMM + register * 16, upper + register * 16] {
                self.vector[base + at..base + at + lane].fill(0);
                self.vector[base + at] = rng.below(64) as u8;
            }
        }
    }

    /// Says what differs, if anything.
    pub fn difference(&self, other: &State, ignore: Ignore) -> Option<String> {
        let mut text = String::new();
        for (register, (a, b)) in self.gpr.iter().zip(&other.gpr).enumerate() {
            if a != b {
                text += &format!("  register {register}: {a:#x} natively, {b:#x} translated\n");
            }
        }
        let flags = (self.rflags ^ other.rflags) & COMPARED_FLAGS & !ignore.flags;
        if flags != 0 {
            text += &format!("  flags: {:#x} natively, {:#x} translated\n", self.rflags, other.rflags);
        }
        for (a, b) in parts(&self.vector, ignore).iter().zip(parts(&other.vector, ignore)) {
            if *a != b {
                text += &format!("  {}: {:02x?} natively\n      {:02x?} translated\n", a.0, a.1, b.1);
            }
        }
        for (at, (a, b)) in self.memory.chunks(8).zip(other.memory.chunks(8)).enumerate() {
            if a != b {
                text += &format!("  memory at data + {:#x}: {a:02x?} natively, {b:02x?} translated\n", at * 8);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Numbers of every size, the edges among them.
fn interesting(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => rng.below(16),
        1 => rng.below(16).wrapping_neg(),
        2 => 1 << rng.below(64),
        3 => u64::from(rng.draw() as u32),
        4 => (rng.below(2000) as f64 / 8.0 - 100.0).to_bits(),
        5 => {
            let single = |rng: &mut Rng| u64::from((rng.below(2000) as f32 / 8.0 - 100.0).to_bits());
            single(rng) << 32 | single(rng)
        }
        _ => rng.draw(),
    }
}

fn random_vector(rng: &mut Rng, xstate: XState) -> Vec<u8> {
    let components = xstate.components & COMPONENTS;
    let mut image = vec![0u8; xstate.size.next_multiple_of(64)];
    image[XSTATE_BV..XSTATE_BV + 8].copy_from_slice(&components.to_le_bytes());
    image[0..2].copy_from_slice(&(0x037f | (rng.below(4) << 10) as u16).to_le_bytes());
    image[2..4].copy_from_slice(&((rng.draw() & 0x7f00) as u16).to_le_bytes());
    image[4] = rng.draw() as u8;
    image[24..28].copy_from_slice(&(0x1f80 | (rng.below(4) << 13) as u32).to_le_bytes());
    for register in 0..8 {
        let at = 32 + 16 * register;
        let exponent = (0x3fff + rng.below(20) - 10) as u16 | (rng.below(2) << 15) as u16;
        image[at..at + 8].copy_from_slice(&(rng.draw() | 1 << 63).to_le_bytes());
        image[at + 8..at + 10].copy_from_slice(&exponent.to_le_bytes());
    }
    for word in image[XMM..416].chunks_mut(8) {
        word.copy_from_slice(&interesting(rng).to_le_bytes());
    }
    for component in (2..8).filter(|bit| components & (1 << bit) != 0) {
        let (offset, size) = component_place(component);
        for word in image[offset..offset + size].chunks_mut(8) {
            word.copy_from_slice(&interesting(rng).to_le_bytes());
        }
    }
    image
}

fn component_place(component: u32) -> (usize, usize) {
    let leaf = std::arch::x86_64::__cpuid_count(0xd, component);
    (leaf.ebx as usize, leaf.eax as usize)
}

fn component_offset(component: u32) -> usize {
    component_place(component).0
}

/// The parts of a saved image that mean something. The processor does not write components that are in their initial
/// state. The x87 instruction pointer is left out: it names an address in the cache.
fn parts(image: &[u8], ignore: Ignore) -> Vec<(&'static str, Vec<u8>)> {
    let in_use = u64::from_le_bytes(image[XSTATE_BV..XSTATE_BV + 8].try_into().expect("eight bytes"));
    let part = |component: u32, range: std::ops::Range<usize>| match in_use & (1 << component) {
        0 => vec![0; range.len()],
        _ => image[range].to_vec(),
    };
    let control = if in_use & 1 == 0 { 0x037f_u16.to_le_bytes().to_vec() } else { image[0..2].to_vec() };
    let mut parts = vec![
        ("x87 control word", control),
        ("x87 status", part(0, 2..6)),
        ("x87 opcode", part(0, 6..8)),
        ("mxcsr", image[24..28].to_vec()),
        ("xmm", part(1, XMM..416)),
    ];
    if !ignore.data_pointer {
        parts.push(("x87 data pointer", part(0, 16..24)));
    }
    parts.extend((0..8).map(|register| ("x87 register", part(0, 32 + 16 * register..42 + 16 * register))));
    const NAMES: [&str; 8] = ["", "", "upper ymm", "", "", "k", "upper zmm", "zmm16…31"];
    for component in [2, 5, 6, 7] {
        let (offset, size) = component_place(component);
        parts.push((NAMES[component as usize], part(component, offset..offset + size)));
    }
    parts.sort_by_key(|part| part.0);
    parts
}

//! The signal frame as x86-64 Linux lays it out on the guest's stack.
//!
//! From low to high addresses: return address, ucontext (flags, link, stack, registers, mask), siginfo, and above them,
//! 64-byte aligned, the floating-point and vector state in the processor's standard format.
#![allow(unsafe_code)]

use crate::context::{Context, R8, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP};
use crate::kernel::{self, BadAddress};

/// Registers in the order of the frame's `gregs`, before the instruction pointer and flags.
const ORDER: [usize; 16] = [R8, 9, 10, 11, 12, 13, 14, 15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP];

const UCONTEXT: u64 = 8;
const UCONTEXT_SIZE: u64 = 304;
const REGISTERS: u64 = UCONTEXT + 40;
const MASK: u64 = UCONTEXT + 296;
const INFO: u64 = UCONTEXT + UCONTEXT_SIZE;
const INFO_SIZE: u64 = 128;
const FRAME_SIZE: u64 = INFO + INFO_SIZE;
/// `UC_FP_XSTATE`, and that the stack segment is saved and to be restored strictly.
const UCONTEXT_FLAGS: u64 = 7;
/// Code segment 0x33 and stack segment 0x2b, as the kernel reports them.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;
const RED_ZONE: u64 = 128;
/// Flags that the guest may set through a frame.
const USER_FLAGS: u64 = 0x0004_0dd5;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
const SOFTWARE_BYTES: usize = 464;
/// Where those say how large the state is.
const FRAME_STATE_SIZE: usize = 16;
const LEGACY_SIZE: usize = 512;
const XSTATE_BV: usize = 512;
const HEADER_END: usize = 576;
const MXCSR: usize = 24;
/// The component with the rights of protection keys, which the kernel puts to use in every process.
const KEYS: u64 = 1 << 9;
/// The x87 control word of a fresh thread.
const INITIAL_X87: u16 = 0x037f;

/// The size of the processor's standard save area and which components it may hold.
#[derive(Clone, Copy, Debug)]
pub struct XState {
    pub size: usize,
    pub components: u64,
    /// The same as far as the guest is shown them.
    pub shown_size: usize,
    pub shown_components: u64,
}

impl XState {
    pub fn find() -> XState {
        let size = std::arch::x86_64::__cpuid_count(0xd, 0).ebx as usize;
        // SAFETY: start-up has checked that the processor and kernel enable XSAVE.
        let components = unsafe { xgetbv0() };
        XState { size, components, shown_size: size, shown_components: components }
    }

    /// The guest is shown only these of them.
    pub fn showing(self, components: u64) -> XState {
        let shown_components = self.components & components;
        let shown_size = match shown_components == self.components {
            true => self.size,
            false => extended(shown_components).map(|place| place.end).max().unwrap_or(0).max(HEADER_END),
        };
        XState { shown_size, shown_components, ..self }
    }

    /// What a signal frame holds where these components are in use: what the guest was shown, or all if it uses more all
    /// the same. Its handler would destroy what is not saved.
    fn in_frame(self, in_use: u64) -> XState {
        let uses_more = in_use & self.components & !(self.shown_components | KEYS) != 0;
        if uses_more { self.showing(self.components) } else { self }
    }

    /// The same for a frame that says how large its state is.
    fn of_frame(self, size: usize) -> XState {
        if size == self.size { self.showing(self.components) } else { self }
    }
}

/// Where components behind the header are.
fn extended(components: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
    (2..63).filter(move |component| components & 1 << component != 0).map(|component| {
        let facts = std::arch::x86_64::__cpuid_count(0xd, component);
        facts.ebx as usize..facts.ebx as usize + facts.eax as usize
    })
}

/// The components that a save area holds; all others are in their initial state.
pub fn in_use(area: &[u8]) -> u64 {
    u64::from_le_bytes(area[XSTATE_BV..XSTATE_BV + 8].try_into().expect("eight bytes"))
}

#[target_feature(enable = "xsave")]
fn xgetbv0() -> u64 {
    // SAFETY: register zero always exists where XSAVE does.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}

/// The area that the context's `xsave` points to.
pub fn state_area(context: &mut Context, xstate: XState) -> &mut [u8] {
    // SAFETY: `new_state_area` made it this large; it lives as long as the thread, and only this thread uses it.
    unsafe { std::slice::from_raw_parts_mut(context.xsave as *mut u8, xstate.size) }
}

/// Makes the save area of a new thread: all components in their initial state.
pub fn new_state_area(xstate: XState) -> u64 {
    let layout = std::alloc::Layout::from_size_align(xstate.size.next_multiple_of(64), 64).expect("a small area");
    // SAFETY: the size is not zero.
    let area = unsafe { std::alloc::alloc_zeroed(layout) };
    assert!(!area.is_null(), "no memory is left for a thread's registers");
    // The x87 control word and MXCSR of a fresh thread: zero would unmask every exception.
    // SAFETY: both lie within the area's legacy part.
    unsafe {
        area.cast::<u16>().write(INITIAL_X87);
        area.add(MXCSR).cast::<u32>().write(0x1f80);
    }
    area as u64
}

/// Frees the area at the end of a thread.
pub fn free_state_area(context: &mut Context, xstate: XState) {
    let layout = std::alloc::Layout::from_size_align(xstate.size.next_multiple_of(64), 64).expect("a small area");
    // SAFETY: allocated by `new_state_area` with this layout; the thread runs no guest code any more.
    unsafe { std::alloc::dealloc(context.xsave as *mut u8, layout) };
    context.xsave = 0;
}

/// What a delivery puts on the stack.
pub struct Frame<'a> {
    pub info: &'a [u64; 16],
    /// The mask that returning from the handler restores.
    pub mask: u64,
    pub restorer: u64,
    /// Error code, trap number and faulting address of a synchronous fault.
    pub fault: [u64; 3],
}

/// Addresses in a frame that was pushed.
pub struct Pushed {
    pub stack: u64,
    pub info: u64,
    pub ucontext: u64,
    /// Where the frame ends.
    pub end: u64,
}

/// Writes a frame below `top` (or below the red zone of the current stack) and returns where things are.
pub fn push(
    context: &mut Context,
    xstate: XState,
    frame: &Frame,
    alternate_top: Option<u64>,
) -> Result<Pushed, BadAddress> {
    let top = alternate_top.unwrap_or(context.gpr[RSP].wrapping_sub(RED_ZONE));
    let xstate = xstate.in_frame(in_use(state_area(context, xstate)));
    let state = top.wrapping_sub(xstate.shown_size as u64 + 4) & !63;
    let start = (state.wrapping_sub(FRAME_SIZE) & !15).wrapping_sub(8);
    push_state(context, xstate, state)?;

    let mut words = [0u64; (FRAME_SIZE / 8) as usize];
    words[0] = frame.restorer;
    words[(UCONTEXT / 8) as usize] = UCONTEXT_FLAGS;
    words[(UCONTEXT / 8) as usize + 2..][..3].copy_from_slice(&context.alternate_stack);
    let registers = &mut words[(REGISTERS / 8) as usize..];
    for (slot, register) in ORDER.into_iter().enumerate() {
        registers[slot] = context.gpr[register];
    }
    let [error, trap, address] = frame.fault;
    registers[16..24].copy_from_slice(&[context.pc, context.rflags, SEGMENTS, error, trap, frame.mask, address, state]);
    words[(MASK / 8) as usize] = frame.mask;
    words[(INFO / 8) as usize..].copy_from_slice(frame.info);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    kernel::write_bytes(start, &bytes)?;
    let end = state + xstate.shown_size as u64 + 4;
    Ok(Pushed { stack: start, info: start + INFO, ucontext: start + UCONTEXT, end })
}

fn push_state(context: &mut Context, xstate: XState, at: u64) -> Result<(), BadAddress> {
    let mut image = state_area(context, xstate)[..xstate.shown_size].to_vec();
    let size = xstate.shown_size as u32;
    let mut software = [0u8; 48];
    software[0..4].copy_from_slice(&MAGIC1.to_le_bytes());
    software[4..8].copy_from_slice(&(size + 4).to_le_bytes());
    software[8..16].copy_from_slice(&xstate.shown_components.to_le_bytes());
    software[FRAME_STATE_SIZE..FRAME_STATE_SIZE + 4].copy_from_slice(&size.to_le_bytes());
    image[SOFTWARE_BYTES..LEGACY_SIZE].copy_from_slice(&software);
    let in_use = in_use(&image);
    fill_in(&mut image, xstate.shown_components, !in_use);
    // The kernel always shows the legacy components as in use.
    image[XSTATE_BV..XSTATE_BV + 8].copy_from_slice(&(in_use | 3).to_le_bytes());
    image.extend_from_slice(&MAGIC2.to_le_bytes());
    kernel::write_bytes(at, &image)
}

/// The x87 and SSE part of a save area, with what is in its initial state written out.
pub fn shown_state(area: &[u8], xstate: XState) -> Vec<u8> {
    let mut image = area.to_vec();
    let in_use = in_use(&image);
    fill_in(&mut image, xstate.components, !in_use);
    image.truncate(LEGACY_SIZE);
    image
}

/// Writes out components that are in their initial state, which the processor leaves alone when it saves the others:
/// what is there is older.
fn fill_in(image: &mut [u8], components: u64, initial: u64) {
    const FIRST_X87: usize = 32;
    const FIRST_XMM: usize = 160;
    const LAST_XMM: usize = 416;
    if initial & 1 != 0 {
        image[..MXCSR].fill(0);
        image[..2].copy_from_slice(&INITIAL_X87.to_le_bytes());
        image[FIRST_X87..FIRST_XMM].fill(0);
    }
    if initial & 2 != 0 {
        image[FIRST_XMM..LAST_XMM].fill(0);
    }
    for place in extended(initial & components) {
        image[place].fill(0);
    }
}

/// Takes the frame back whose ucontext is at the stack pointer, and returns the mask to restore.
pub fn pop(context: &mut Context, xstate: XState) -> Result<u64, BadAddress> {
    let start = context.gpr[RSP].wrapping_sub(UCONTEXT);
    let mut words = [0u64; (INFO / 8) as usize];
    for (index, word) in words.iter_mut().enumerate() {
        *word = kernel::read(start.wrapping_add(8 * index as u64))?;
    }
    let registers = &words[(REGISTERS / 8) as usize..];
    pop_state(context, xstate, registers[23])?;
    for (slot, register) in ORDER.into_iter().enumerate() {
        context.gpr[register] = registers[slot];
    }
    context.pc = registers[16];
    context.rflags = (context.rflags & !USER_FLAGS) | (registers[17] & USER_FLAGS) | 0x202;
    context.alternate_stack.copy_from_slice(&words[(UCONTEXT / 8) as usize + 2..][..3]);
    Ok(words[(MASK / 8) as usize])
}

fn pop_state(context: &mut Context, xstate: XState, at: u64) -> Result<(), BadAddress> {
    let area = state_area(context, xstate);
    if at == 0 {
        area[XSTATE_BV..HEADER_END].fill(0);
        return Ok(());
    }
    let mut image = vec![0u8; xstate.size];
    kernel::read_bytes(at, &mut image[..LEGACY_SIZE])?;
    let magic = u32::from_le_bytes(image[SOFTWARE_BYTES..SOFTWARE_BYTES + 4].try_into().expect("four bytes"));
    if magic == MAGIC1 {
        let size = SOFTWARE_BYTES + FRAME_STATE_SIZE;
        let size = u32::from_le_bytes(image[size..size + 4].try_into().expect("four bytes"));
        let xstate = xstate.of_frame(size as usize);
        kernel::read_bytes(at, &mut image[..xstate.shown_size])?;
        let in_use = in_use(&image) & xstate.shown_components;
        image[XSTATE_BV..HEADER_END].fill(0);
        let kept = keep_keys(area, &mut image, xstate);
        image[XSTATE_BV..XSTATE_BV + 8].copy_from_slice(&(in_use | kept).to_le_bytes());
    } else {
        image[XSTATE_BV] = 3;
    }
    // Reserved MXCSR bits would fault when loaded.
    let mxcsr = u32::from_le_bytes(image[24..28].try_into().expect("four bytes")) & 0xffff;
    image[24..28].copy_from_slice(&mxcsr.to_le_bytes());
    area.copy_from_slice(&image);
    Ok(())
}

/// A frame that does not hold the rights of protection keys leaves them as they are; tells which components these are.
fn keep_keys(area: &[u8], image: &mut [u8], xstate: XState) -> u64 {
    let kept = in_use(area) & xstate.components & !xstate.shown_components & KEYS;
    for place in extended(kept) {
        image[place.clone()].copy_from_slice(&area[place]);
    }
    kept
}

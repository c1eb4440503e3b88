//! The x87 unit's instruction pointer: the processor keeps where the last x87 instruction was, which is in the code
//! cache, and shows it to who stores the unit's environment. The guest is to see its own address there, or zero where the
//! processor saves the pointer only while an exception is pending: natively a switch of tasks leaves zero there as well.
//!
//! Not there: the XSAVE family of the guest's own, whose users leave the x87 part out, and runs that only count.

use crate::context::Context;
use crate::engine::Engine;
use crate::kernel;
use crate::observation::first_address;
use crate::signals::frame;
use guest::instruction::{PointerField, x87_pointer_stored};
use iced_x86::Instruction;

/// Where the pointer is in the area that holds the unit's state while the engine runs.
const IN_STATE: std::ops::Range<usize> = 8..16;

/// What the guest should find in place of the last `bits` bits of an address in the cache; `None` if it is none.
fn guest_pointer(engine: &Engine, found: u64, bits: u32) -> Option<u64> {
    let range = engine.code_range();
    let known = u64::MAX >> (64 - bits);
    let host = (range.start & !known) | (found & known);
    // Code that was dropped in the meantime leaves nobody who knows.
    range.contains(&host).then(|| engine.world().cache.find(host).map_or(0, |step| step.pc))
}

/// Mends what the instruction has just stored.
pub fn mend_stored(engine: &Engine, context: &Context, instruction: &Instruction) {
    let Some(PointerField { offset, wide }) = x87_pointer_stored(instruction) else { return };
    let Some(address) = first_address(instruction, context).map(|start| start.wrapping_add(offset)) else { return };
    if wide {
        if let Some(pointer) = kernel::read(address).ok().and_then(|found| guest_pointer(engine, found, 64)) {
            let _ = kernel::write(address, pointer);
        }
    } else if let Some(pointer) =
        kernel::read::<u32>(address).ok().and_then(|found| guest_pointer(engine, u64::from(found), 32))
    {
        let _ = kernel::write(address, pointer as u32);
    }
}

/// Mends what the guest is about to find in a signal frame.
pub fn mend_saved(engine: &Engine, context: &mut Context) {
    let area = frame::state_area(context, engine.xstate());
    let Ok(found) = area[IN_STATE].try_into().map(u64::from_le_bytes) else { return };
    if let Some(pointer) = guest_pointer(engine, found, 64) {
        area[IN_STATE].copy_from_slice(&pointer.to_le_bytes());
    }
}

//! What the guest's own instructions of the XSAVE family store.
//!
//! They tell which components of the register state are in use, and some leave the others out. Whether registers that hold
//! what they hold at first count as in use is the processor's affair, and a switch of tasks may change it: the same run
//! would store something else each time. So all components that were asked for are stored, and count as in use, which the
//! processor might have found too.

use crate::context::{Context, RAX, RDX};
use crate::engine::Engine;
use crate::kernel;
use crate::observation::{component_places, first_address};
use guest::instruction::{SavedForm, saved_form};
use iced_x86::Instruction;

const X87: u64 = 1;
const SSE: u64 = 2;
const FIRST_MXCSR: u32 = 0x1f80;
const FIRST_CONTROL: u16 = 0x37f;
/// Where things are in the area.
const MXCSR: u64 = 24;
const X87_REGISTERS: u64 = 32;
const XMM_REGISTERS: u64 = 160;
const XMM_END: u64 = 416;
const HEADER: u64 = 512;

/// Puts what the instruction has just stored in order.
pub fn settle(engine: &Engine, context: &Context, instruction: &Instruction) {
    let Some(form) = saved_form(instruction) else { return };
    let Some(area) = first_address(instruction, context) else { return };
    let asked = context.gpr[RDX] << 32 | context.gpr[RAX] & 0xffff_ffff;
    settle_area(area, asked & engine.xstate().shown_components, form);
}

/// The same for the area at an address, where these components were to be stored.
fn settle_area(area: u64, components: u64, form: SavedForm) {
    let Ok(in_use) = kernel::read::<u64>(area + HEADER) else { return };
    let left_out = components & !in_use;
    if left_out == 0 {
        return;
    }
    if form.leaves_out {
        store_first_values(area, left_out, components, form);
    }
    let _ = kernel::write(area + HEADER, in_use | components);
}

/// Stores what the registers of components hold at first. The area was written to just now, so this does not fail.
fn store_first_values(area: u64, left_out: u64, components: u64, form: SavedForm) {
    let clear = |start: u64, end: u64| {
        let _ = kernel::write_bytes(area + start, &vec![0; (end - start) as usize]);
    };
    if left_out & X87 != 0 {
        clear(0, MXCSR);
        clear(X87_REGISTERS, XMM_REGISTERS);
        let _ = kernel::write_bytes(area, &FIRST_CONTROL.to_le_bytes());
    }
    if left_out & SSE != 0 {
        clear(XMM_REGISTERS, XMM_END);
        let _ = kernel::write(area + MXCSR, FIRST_MXCSR);
        let _ = kernel::write(area + MXCSR + 4, kernel::mxcsr_mask());
    }
    for (component, place) in component_places(components, form.is_compact) {
        if left_out & 1 << component != 0 {
            clear(place.start, place.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVX: u64 = 4;

    #[repr(align(64))]
    struct Area([u8; 1024]);

    fn settled(in_use: u8, components: u64, form: SavedForm) -> Box<Area> {
        let mut area = Box::new(Area([0x5a; 1024]));
        area.0[512..576].fill(0);
        area.0[512] = in_use;
        settle_area((&raw mut *area) as u64, components, form);
        area
    }

    #[test]
    fn all_that_was_asked_for_counts_as_in_use() {
        let form = SavedForm { is_compact: false, leaves_out: false };
        let area = settled(1, SSE | AVX, form);
        assert_eq!(area.0[512], 7);
        assert!(area.0[..512].iter().chain(&area.0[576..]).all(|byte| *byte == 0x5a));
    }

    #[test]
    fn what_was_left_out_is_what_it_is_at_first() {
        for is_compact in [false, true] {
            let area = settled(0, X87 | SSE | AVX, SavedForm { is_compact, leaves_out: true });
            assert_eq!(area.0[512], 7);
            assert_eq!(area.0[..24], [&[0x7f, 3][..], &[0; 22]].concat());
            assert_eq!(area.0[24..28], FIRST_MXCSR.to_le_bytes());
            assert_ne!(area.0[28..32], [0x5a; 4]);
            assert_eq!(area.0[32..416], [0; 384]);
            assert_eq!(area.0[416..512], [0x5a; 96]);
            assert_eq!(area.0[576..832], [0; 256]);
            assert_eq!(area.0[832..], [0x5a; 192]);
        }
        let area = settled(3, X87 | SSE | AVX, SavedForm { is_compact: true, leaves_out: true });
        assert!(area.0[..512].iter().all(|byte| *byte == 0x5a));
        assert_eq!((area.0[512], &area.0[576..832]), (7, &[0; 256][..]));
    }
}

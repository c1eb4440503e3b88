//! Passing a point: an event of the clock that a policy may count by itself.
//!
//! The count stands right before the instruction, keeps all flags, and goes through RCX: first whether the thread may pass
//! another point, then the clock.

use super::{CX, Emitter};
use crate::code::assembler::Assembler;

impl Emitter<'_> {
    /// The caller has made a step.
    pub(super) fn count_point(&mut self, pc: u64) {
        let (home, points) = (self.layout.spill(0), self.layout.points());
        let restore = |asm: &mut Assembler| asm.load_slot(CX, home);
        self.asm.store_slot(home, CX);
        self.asm.load_slot(CX, points);
        let stub = self.point_exit(pc, restore);
        self.asm.raw(&[0xe3, 2, 0xeb, 5]); // jrcxz to the long jump, else over it
        self.asm.jump(stub);
        self.count_in_rcx(pc, pc, restore);
        self.asm.load_slot(CX, points);
        self.asm.add_displacement(CX, -1);
        self.asm.store_slot(points, CX);
        restore(self.asm);
        self.ahead += 1;
    }
}

//! Writing a record if it is worth it: see `observe/sparing.rs`. Flags stay as they are.

use super::observed::Ending;
use super::{CX, Emitter};
use crate::code::assembler::{Assembler, Hop, Patch};
use crate::code::cache::Disturbance;
use crate::code::observe::plan::Leaving;
use crate::code::observe::sparing::{Allowance, FIRST_COME, Fate, NOW_AND_THEN, Start};
use crate::context::{SPILL_SLOTS, Slot};
use trace::stream::strips::STRIP_BITS;

/// Where RCX is kept meanwhile.
const COUNT_HOME: usize = SPILL_SLOTS - 1;

/// The registers that it takes to look at a record, besides RCX.
#[derive(Clone, Copy)]
struct Look {
    /// Points to the record.
    pointer: u8,
    /// Points to the bytes of the first strip.
    table: u8,
    /// What begins on one strip may matter for the next.
    is_thorough: bool,
}

/// What the entry of a path that tells nothing begins with: room for the jump of an open gate.
pub const CLOSED_GATE: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0]; // nop

impl Emitter<'_> {
    /// Makes the entry of a path that tells nothing: whoever comes in does so there.
    pub(super) fn gated_entry(&mut self, head: u64) {
        self.is_gated = true;
        self.add_entry(head);
        self.step(head, Disturbance::default());
        self.asm.raw(&CLOSED_GATE);
    }

    /// Takes one of the count of times that the unit at `head` is still run.
    pub(super) fn count_run(&mut self, head: u64, left: u64) {
        let home = self.layout.spill(COUNT_HOME);
        self.step(head, Disturbance::default());
        self.asm.store_slot(home, CX);
        let used_up = self.take_one_of(left);
        self.asm.land(used_up);
        self.asm.load_slot(CX, home);
    }

    /// Takes one of a count, through RCX, and hops if there is nothing left.
    fn take_one_of(&mut self, count: u64) -> Hop {
        self.asm.raw(&[0x48, 0x8b, 0x0d]); // mov rcx, [rip + …]
        self.asm.relative(count);
        let used_up = self.asm.hop_if_rcx_is_zero();
        self.asm.add_displacement(CX, -1);
        self.store_count(count);
        used_up
    }

    fn store_count(&mut self, count: u64) {
        self.asm.raw(&[0x48, 0x89, 0x0d]); // mov [rip + …], rcx
        self.asm.relative(count);
    }

    /// Writes the record's number and moves on in the buffer, unless the record is not worth it.
    pub(super) fn write_record(&mut self, unit: u32, allowance: Option<Allowance>, ending: Ending, record: u32) {
        let (Some(spared), Some(catalogue)) = (self.cache.spared(), self.cache.catalogue()) else {
            return self.move_on(ending, record);
        };
        let (fate, mark) = (spared.fate(catalogue.unit(unit), ending.executed), spared.mark());
        if fate == (Fate::Told { marks: Vec::new() }) {
            return self.move_on(ending, record);
        }
        let (pointer, table) = ending.scratch;
        let look = Look { pointer, table, is_thorough: spared.is_thorough() };
        let home = self.layout.spill(COUNT_HOME);
        self.asm.load_constant(table, spared.strips.address());
        self.asm.store_slot(home, CX);
        match fate {
            Fate::Told { marks } => {
                marks.iter().for_each(|start| look.mark(self.asm, start, mark));
                self.asm.load_slot(CX, home);
                self.move_on(ending, record);
            }
            Fate::Depends(starts) => {
                let told = look.decide(self.asm, &starts, allowance, home);
                let over = self.asm.jump(0);
                let here = self.asm.here();
                told.into_iter().for_each(|jump| self.asm.aim(jump, here));
                self.asm.load_slot(CX, home);
                self.move_on(ending, record);
                self.asm.aim(over, self.asm.here());
            }
        }
    }

    /// The same, if where the last instruction goes is not in the code that it is in.
    pub(super) fn write_record_if_leaving(&mut self, leaving: &Leaving, ending: Ending, record: u32) {
        let Leaving { word, code, .. } = leaving;
        let (pointer, value) = ending.scratch;
        let home = self.layout.spill(COUNT_HOME);
        // Far enough that all addresses but those of the code are farther from its beginning or its end.
        let bits = (code.end - code.start).next_power_of_two().ilog2().max(16) as u8;
        self.asm.store_slot(home, CX);
        let mut far = Vec::new();
        for from_end in [false, true] {
            self.asm.load(CX, pointer, 8 * i32::from(*word));
            if from_end {
                self.asm.raw(&[0x48, 0xf7, 0xd1]); // not rcx
            }
            self.asm.load_constant(value, if from_end { code.end } else { code.start.wrapping_neg() });
            self.asm.raw(&[0x48 | value >> 3, 0x8d, 0x4c, 1 << 3 | value & 7, 0]); // lea rcx, [value + rcx]
            self.asm.raw(&[0xc4, 0xe3, 0xfb, 0xf0, 0xc9, bits]); // rorx rcx, rcx, bits
            self.asm.raw(&[0x89, 0xc9]); // mov ecx, ecx
            let near = self.asm.hop_if_rcx_is_zero();
            far.push(self.asm.jump(0));
            self.asm.land(near);
        }
        self.asm.load_slot(CX, home);
        let inside = self.asm.jump(0);
        far.into_iter().for_each(|jump| self.asm.aim(jump, self.asm.here()));
        self.asm.load_slot(CX, home);
        self.move_on(ending, record);
        self.asm.aim(inside, self.asm.here());
    }

    fn move_on(&mut self, ending: Ending, record: u32) {
        let (pointer, _) = ending.scratch;
        self.asm.store_constant(pointer, 0, record as i32);
        self.asm.add_displacement(pointer, 8 * i32::from(ending.words));
        self.asm.store_slot(self.layout.trace_next(), pointer);
    }
}

/// Ways aside for a start: that its strip was named, that somebody was the first there, and that it may be added; and where the unit
/// goes on.
struct Aside<'a> {
    start: &'a Start,
    named: Patch,
    known: Patch,
    unknown: Patch,
    next: u64,
}

impl Look {
    /// Looks at the strips of a record. Gives the jumps for when it is to be told; otherwise the unit goes on behind, with RCX as it was.
    fn decide(self, asm: &mut Assembler, starts: &[Start], allowance: Option<Allowance>, home: Slot) -> Vec<Patch> {
        let mut told = Vec::new();
        let mut asides = Vec::new();
        for start in starts {
            self.load_marks(asm, start);
            let unknown = asm.hop_if_rcx_is_zero();
            asm.raw(&[0x0f, 0xb6, 0xc9]); // movzx ecx, cl
            let not_always = asm.hop_if_rcx_is_zero();
            let named = asm.jump(0);
            asm.land(not_always);
            let Some(allowance) = allowance else {
                told.push(named);
                asm.land(unknown);
                continue;
            };
            let known = asm.jump(0);
            asm.land(unknown);
            let used_up = self.take_one(asm, allowance.strips);
            let unknown = asm.jump(0);
            asm.land(used_up);
            asides.push(Aside { start, named, known, unknown, next: asm.here() });
        }
        asm.load_slot(CX, home);
        let passed = asm.jump(0);
        for Aside { start, named, known, unknown, next } in asides {
            let Some(Allowance { at_named, at_known, silence, .. }) = allowance else { break };
            for (way, patience) in [(named, at_named), (known, at_known)] {
                asm.aim(way, asm.here());
                told.extend(self.visit(asm, (patience, silence), starts.len(), next));
            }
            asm.aim(unknown, asm.here());
            self.mark(asm, start, FIRST_COME);
            told.push(asm.jump(0));
        }
        asm.aim(passed, asm.here());
        told
    }

    /// Loads the number of the strip at a distance from a start into RCX.
    fn load_number(self, asm: &mut Assembler, start: &Start, distance: i64) {
        let offset = start.offset.wrapping_add(distance);
        if start.word == 0 {
            asm.load_constant(CX, offset as u64);
        } else {
            asm.load(CX, self.pointer, 8 * i32::from(start.word));
            if offset != 0 {
                // Distances from words are those of operands.
                asm.add_displacement(CX, offset as i32);
            }
        }
        if start.through_fs {
            self.add_fs_base(asm);
        }
        asm.raw(&[0xc4, 0xe3, 0xfb, 0xf0, 0xc9, STRIP_BITS as u8]); // rorx rcx, rcx, STRIP_BITS
        asm.raw(&[0x0f, 0xb7, 0xc9]); // movzx ecx, cx
    }

    /// Adds the guest's FS base, which lives in GS, to RCX. The pointer to the record makes room for it in the record's first word.
    fn add_fs_base(self, asm: &mut Assembler) {
        asm.store(self.pointer, 0, self.table);
        let upper = self.table >> 3;
        asm.raw(&[0xf3, 0x48 | upper, 0x0f, 0xae, 0xc8 | self.table & 7]); // rdgsbase table
        asm.raw(&[0x48 | upper, 0x8d, 0x4c, 1 << 3 | self.table & 7, 0]); // lea rcx, [table + rcx]
        asm.load(self.table, self.pointer, 0);
    }

    /// What is known of the strip of a start or the next one, in RCX.
    fn load_marks(self, asm: &mut Assembler, start: &Start) {
        self.load_number(asm, start, 0);
        // movzx ecx, word [table + 2 * rcx]
        asm.raw(&[0x40 | self.table >> 3, 0x0f, 0xb7, 0x4c, TWICE_RCX | self.table & 7, 0]);
    }

    /// Takes one of what a unit may do, and hops if there is nothing left.
    fn take_one(self, asm: &mut Assembler, of: i32) -> Hop {
        asm.load(CX, self.table, of);
        let used_up = asm.hop_if_rcx_is_zero();
        asm.add_displacement(CX, -1);
        asm.store(self.table, of, CX);
        used_up
    }

    /// The unit comes to a strip that is looked at. Gives the jumps for those times when that is told; otherwise the unit goes on at `next`.
    fn visit(self, asm: &mut Assembler, (patience, silence): (i32, i32), n_starts: usize, next: u64) -> [Patch; 2] {
        let used_up = self.take_one(asm, patience);
        let often = asm.jump(0);
        asm.land(used_up);
        let is_time = self.take_one(asm, silence);
        asm.jump(next);
        asm.land(is_time);
        // Each start of a record may come here.
        asm.store_constant(self.table, silence, NOW_AND_THEN * n_starts as i32 - 1);
        [often, asm.jump(0)]
    }

    /// Something is known of the strips of a start from now on.
    fn mark(self, asm: &mut Assembler, start: &Start, what: i8) {
        for distance in [0, start.reach].into_iter().take(1 + usize::from(start.reach > 0)) {
            self.load_number(asm, start, distance);
            // And that of the strip before.
            for near in [what, what - 2].into_iter().take(1 + usize::from(self.is_thorough)) {
                // mov byte [table + 2 * rcx + near], 1
                asm.raw(&[0x40 | self.table >> 3, 0xc6, 0x44, TWICE_RCX | self.table & 7, near as u8, 1]);
            }
        }
    }
}

/// Scale and index of an operand.
const TWICE_RCX: u8 = 1 << 6 | 1 << 3;

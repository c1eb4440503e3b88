//! Facts about instructions of any bytes.
#![no_main]

use guest::instruction;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut factory = InstructionInfoFactory::new();
    for decoded in &mut Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE) {
        if decoded.is_invalid() {
            return;
        }
        instruction::flags_killed(&decoded);
        instruction::flags_read(&decoded);
        instruction::registers_used(&mut factory, &decoded);
        instruction::memory_used(&mut factory, &decoded).count();
        instruction::repeats(&decoded);
        instruction::branches_on_count(&decoded);
        instruction::loads_segment_register(&decoded);
        instruction::may_fault(&decoded);
        instruction::enters_kernel(&decoded);
        instruction::x87_pointer_stored(&decoded);
    }
});

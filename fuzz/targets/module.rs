//! Symbols, lines, variables, types, values and unwinding rules of an ELF file that a program was loaded from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use program::space::{AddressSpace, GuestAddress, Mapping};
use program::symbols::Symbolizer;
use program::unwind::{CodeAddress, CodeAddressKind, Memory, Registers, backtrace};
use program::variables::{Scope, Variables};
use std::io::Write;

const START: u64 = 0x10000;
/// Of code, and of variables, so that large files take no longer than they have to.
const MOST_LOOKED_AT: usize = 64;

/// The file's own bytes where it is loaded, and the same ones everywhere else.
struct Repeated<'a>(&'a [u8]);

impl Memory for Repeated<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        if self.0.is_empty() || address < START {
            return false;
        }
        let start = (address - START) % self.0.len() as u64;
        let bytes = self.0.iter().cycle().skip(start as usize);
        buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        true
    }
}

/// All that is known of a thread that stands at `pc`.
fn look_at_code(space: &AddressSpace, variables: &Variables, symbolizer: &mut Symbolizer, memory: &Repeated<'_>, pc: u64) {
    let code = CodeAddress { pc, kind: CodeAddressKind::Exact };
    let registers = Registers::full(pc, [pc; 16]);
    let scope = Scope {
        code: Some(code),
        registers: Some(&registers),
        memory: Some(memory),
        thread_pointer: Some(pc),
        frame_address: None,
    };
    symbolizer.resolve(code);
    symbolizer.data_symbol(GuestAddress(pc));
    variables.describe(GuestAddress(pc), 8);
    variables.describe_local(GuestAddress(pc), 8, &scope);
    variables.function_at(code);
    for local in variables.locals(code).iter().take(MOST_LOOKED_AT) {
        let _ = variables.place(local, &scope);
        variables.format_value(local.type_id, &[0x11; 64], Some(memory));
    }
    backtrace(space, memory, registers, 64);
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let path = Some(file.path().to_owned());
    let end = START + (bytes.len() as u64).next_multiple_of(4096).max(4096);
    let mapping = Mapping { start: START, end, offset: 0, executable: true, path };
    let space = AddressSpace::new(vec![mapping]);
    let (mut symbolizer, variables, memory) = (Symbolizer::new(&space), Variables::new(&space), Repeated(bytes));
    let step = ((end - START) as usize / MOST_LOOKED_AT) | 1;
    for pc in (START..end).step_by(step) {
        look_at_code(&space, &variables, &mut symbolizer, &memory, pc);
    }
    for global in variables.globals_named("numbers").iter().take(MOST_LOOKED_AT) {
        if let Some(type_id) = global.type_id {
            variables.format_value(type_id, &[0x22; 64], Some(&memory));
        }
    }
    space.functions_meaning(|_| Some(()));
    program::material::of_file(file.path(), file.path());
});

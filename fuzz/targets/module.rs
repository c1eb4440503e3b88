//! Symbols, lines, variables and unwinding rules of an ELF file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use program::space::{AddressSpace, GuestAddress, Mapping};
use program::symbols::Symbolizer;
use program::unwind::{CodeAddress, CodeAddressKind};
use program::variables::Variables;
use std::io::Write;

const START: u64 = 0x10000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let path = Some(file.path().to_owned());
    let end = START + (bytes.len() as u64).next_multiple_of(4096).max(4096);
    let mapping = Mapping { start: START, end, offset: 0, executable: true, path };
    let space = AddressSpace::new(vec![mapping]);
    let mut symbolizer = Symbolizer::new(&space);
    let variables = Variables::new(&space);
    for pc in (START..end).step_by(997) {
        symbolizer.resolve(CodeAddress { pc, kind: CodeAddressKind::Exact });
        symbolizer.data_symbol(GuestAddress(pc));
        variables.describe(GuestAddress(pc), 8);
    }
    variables.globals_named("main");
    space.functions_meaning(|_| Some(()));
});

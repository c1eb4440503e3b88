//! Names of linkage stubs: code that does nothing but jump through a pointer that the loader fills in.
//!
//! May miss: stubs of other forms than those of today's linkers, and pointers to functions that have no name.

use std::collections::BTreeMap;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget};

use crate::elf::Image;
use crate::space::FileVma;

/// Stubs are this long, and begin at multiples of it.
const LENGTH: u64 = 16;
/// A stub has fewer instructions before its jump.
const MOST_INSTRUCTIONS: usize = 3;

/// The stubs of one module.
pub(crate) struct Stubs {
    image: Option<Arc<Image>>,
    /// Names of functions by where the pointers to them are.
    pointers: BTreeMap<u64, String>,
}

impl Stubs {
    pub fn load(image: Option<&Arc<Image>>) -> Stubs {
        let pointers = image.and_then(|image| pointers(image)).unwrap_or_default();
        Stubs { image: image.map(Arc::clone), pointers }
    }

    /// The function that the stub at an address leads to, as other tools write it: `malloc@plt`.
    pub fn name_at(&self, address: FileVma) -> Option<String> {
        if self.pointers.is_empty() {
            return None;
        }
        let start = address.0 - address.0 % LENGTH;
        let tail = self.image.as_ref()?.tail_of_segment(start)?;
        let decoder = Decoder::with_ip(64, tail.bytes.bytes(), start, DecoderOptions::NONE);
        let mut instructions =
            decoder.into_iter().take(MOST_INSTRUCTIONS).take_while(|next| next.ip() < start + LENGTH);
        let jump = instructions.find(|next| next.flow_control() != FlowControl::Next)?;
        let is_through_pointer = jump.flow_control() == FlowControl::IndirectBranch && jump.is_ip_rel_memory_operand();
        let name = self.pointers.get(&jump.ip_rel_memory_address()).filter(|_| is_through_pointer)?;
        Some(format!("{name}@plt"))
    }
}

fn pointers(image: &Image) -> Option<BTreeMap<u64, String>> {
    let file = image.file()?;
    let symbols = file.dynamic_symbol_table()?;
    let named = file.dynamic_relocations()?.filter_map(|(address, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = symbols.symbol_by_index(index).ok()?;
        let name = symbol.name().ok()?.split('@').next().filter(|name| !name.is_empty())?;
        Some((address, name.to_owned()))
    });
    Some(named.collect())
}

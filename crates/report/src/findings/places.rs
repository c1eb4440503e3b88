//! Places in findings: made from what is known of the program, and shown.

use program::symbols::{SourceFrame, UNMAPPED};
use trace::finding::{Address, Place};

use crate::look::Look;
use crate::stack;
use crate::text::{keep_start, printable};

/// Longer names of functions are cut in sentences; stacks have them.
const MAX_NAME: usize = 60;

/// The place of an instruction, as a finding has it.
pub fn place(pc: u64, frame: &SourceFrame) -> Place {
    Place {
        function: frame.function.clone(),
        file: frame.file.clone(),
        line: frame.line,
        column: frame.column,
        inlined: frame.inlined,
        module: Some(frame.module.clone()),
        module_offset: Some(Address(frame.module_offset)),
        pc: Some(Address(pc)),
    }
}

pub(super) fn frame(place: &Place) -> SourceFrame {
    let address = place.module_offset.filter(|_| place.module.is_some()).or(place.pc);
    SourceFrame {
        function: place.function.clone(),
        file: place.file.clone(),
        line: place.line,
        column: place.column,
        inlined: place.inlined,
        module: place.module.clone().unwrap_or_else(|| UNMAPPED.to_owned()),
        module_offset: address.map_or(0, |address| address.0),
    }
}

/// `src/count.c:9`, or `libc.so.6+0x85c00`; nothing for a place of which nothing is known.
pub(super) fn spot(place: &Place, look: &Look) -> Option<String> {
    let is_known = place.file.is_some() || place.module.is_some() || place.pc.is_some();
    is_known.then(|| stack::place(&SourceFrame { column: None, ..frame(place) }, look))
}

/// `bump at src/count.c:9`.
pub(super) fn words(place: &Place, look: &Look) -> String {
    let function = place.function.as_deref().map(|name| keep_start(&printable(name), MAX_NAME));
    match (function, spot(place, look)) {
        (Some(function), Some(spot)) => format!("{function} at {spot}"),
        (Some(known), None) | (None, Some(known)) => known,
        (None, None) => "an unknown place".to_owned(),
    }
}

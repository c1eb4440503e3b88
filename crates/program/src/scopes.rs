//! Which local variables and parameters exist where in a function, those of inlined functions included.

use std::ops::Range;

use crate::debug_info::{DebugInfo, Descend, Entry, EntryId, flag};

/// A local variable or parameter, not yet asked where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalEntry {
    pub entry: EntryId,
    /// The function that declares it, which may be inlined into the one whose frame it is in.
    pub declaring: EntryId,
    pub inlined: bool,
    pub parameter: bool,
    /// How deep the block that declares it is nested.
    depth: isize,
}

/// Whose code to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    /// The blocks around one address.
    Address(u64),
    /// All blocks of the function itself.
    Function,
    /// Those of functions that are inlined into it, too.
    Everywhere,
}

/// More would be no function that somebody wrote.
const MAX_LOCALS: usize = 1 << 14;
/// Likewise.
const MAX_BLOCKS: usize = 1 << 16;

/// The variables and parameters in scope, the innermost block's first; in declaration order inside a block.
pub(crate) fn locals(debug_info: &DebugInfo, function: EntryId, within: Within) -> Vec<LocalEntry> {
    let mut walk = ScopeWalk { debug_info, within, function, inlined: Vec::new(), found: Vec::new(), n_blocks: 0 };
    debug_info.walk(function, &mut |depth, id, entry| walk.visit(depth, id, entry));
    let mut found = walk.found;
    found.sort_by_key(|local| std::cmp::Reverse(local.depth));
    found
}

struct ScopeWalk<'a> {
    debug_info: &'a DebugInfo,
    within: Within,
    function: EntryId,
    /// Depth and entry of the inlined functions around the current entry.
    inlined: Vec<(isize, EntryId)>,
    found: Vec<LocalEntry>,
    n_blocks: usize,
}

impl ScopeWalk<'_> {
    fn visit(&mut self, depth: isize, id: EntryId, entry: &Entry) -> Descend {
        if depth == 0 {
            return Descend::Yes;
        }
        while self.inlined.last().is_some_and(|(outer, _)| *outer >= depth) {
            self.inlined.pop();
        }
        match entry.tag() {
            gimli::DW_TAG_lexical_block | gimli::DW_TAG_try_block | gimli::DW_TAG_catch_block => self.enter(id, entry),
            gimli::DW_TAG_inlined_subroutine => {
                let entered = if self.within == Within::Function { Descend::No } else { self.enter(id, entry) };
                if entered == Descend::Yes {
                    self.inlined.push((depth, id));
                }
                entered
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                self.add(depth, id, entry);
                Descend::No
            }
            _ => Descend::No,
        }
    }

    /// A block that does not say where its code is has been merged with the one around it.
    fn enter(&mut self, id: EntryId, entry: &Entry) -> Descend {
        self.n_blocks += 1;
        if self.n_blocks > MAX_BLOCKS {
            return Descend::No;
        }
        let ranges: Option<Vec<Range<u64>>> = self.debug_info.ranges(id, entry);
        match (self.within, ranges) {
            (Within::Address(address), Some(ranges)) if !ranges.iter().any(|range| range.contains(&address)) => {
                Descend::No
            }
            _ => Descend::Yes,
        }
    }

    fn add(&mut self, depth: isize, id: EntryId, entry: &Entry) {
        // A declaration inside a function speaks of a variable elsewhere.
        let elsewhere = flag(entry, gimli::DW_AT_declaration) && !entry.has_attr(gimli::DW_AT_location);
        if elsewhere || self.found.len() == MAX_LOCALS {
            return;
        }
        self.found.push(LocalEntry {
            entry: id,
            declaring: self.inlined.last().map_or(self.function, |(_, inlined)| *inlined),
            inlined: !self.inlined.is_empty(),
            parameter: entry.tag() == gimli::DW_TAG_formal_parameter,
            depth,
        });
    }
}

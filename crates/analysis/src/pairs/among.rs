//! Passing over accesses to memory that cannot have pairs.

use crate::races::Suspects;
use crate::races::shapes::{Concern, Shapes};
use crate::races::suspects::Filter;
use trace::stream::Access;
use trace::stream::records::{Record, Records, Template};

pub(super) struct Among {
    filter: Filter,
    shapes: Shapes,
    /// By the numbers of patterns: all of its instructions are known to have been executed.
    heard: Vec<bool>,
}

impl Among {
    pub fn new(shared: Suspects) -> Among {
        Among { filter: Filter::new(shared), shapes: Shapes::default(), heard: Vec::new() }
    }

    #[inline]
    pub fn has(&self, access: &Access) -> bool {
        self.filter.wants(access.address, u64::from(access.size))
    }

    /// Whether a record touches nothing that can have pairs. `is_heard` tells whether a template's instruction is known already.
    #[inline]
    pub fn passes_over(
        &mut self,
        record: &Record<'_>,
        records: &Records<'_>,
        is_heard: impl Fn(&Template) -> bool,
    ) -> bool {
        let number = record.number as usize;
        if !self.heard.get(number).is_some_and(|heard| *heard) {
            if !records.patterns.templates(record.number).iter().all(is_heard) {
                return false;
            }
            self.heard.resize(self.heard.len().max(number + 1), false);
            self.heard[number] = true;
        }
        let shape = self.shapes.of(record.number, records.patterns, |_| Concern::Plain);
        let mut parts = self.shapes.parts(shape).iter();
        !parts.any(|part| self.filter.wants(part.address(record.words, records.fs_base), u64::from(part.size)))
    }
}

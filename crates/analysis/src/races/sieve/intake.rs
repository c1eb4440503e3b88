//! How records and accesses come to a sieve, and how much is looked at of them: all, unless it [samples](super::super::sampling).

use super::super::sampling::Share;
use super::super::shapes::{Concern, Shape};
use super::super::sites::SiteClass;
use super::cells::{Span, Standing};
use super::{Sieve, span_of};
use trace::stream::records::{Patterns, Records};
use trace::stream::{Access, AccessKind};

impl Sieve {
    /// The plain records at the front, of the thread that is running. Gives how many words they have.
    pub(super) fn read(&mut self, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            let shape = self.shape(record.number, records.patterns);
            if shape.is_special {
                break;
            }
            length += record.words.len();
            // Who gives and takes what under locks depends on the order of accesses.
            if self.hatches.is_holding() || !self.note(shape, record.words, records.fs_base) {
                self.take_apart(&record, records);
            }
        }
        length
    }

    /// The plain records at the front that show nothing to one thread alone.
    pub(super) fn pass_over(&mut self, records: &Records<'_>) -> usize {
        let plain = records.plain().take_while(|record| !self.shape(record.number, records.patterns).is_special);
        plain.map(|record| record.words.len()).sum()
    }

    #[inline]
    fn shape(&mut self, number: u32, patterns: &Patterns) -> Shape {
        let sites = &self.sites;
        self.shapes.of(number, patterns, |template| match sites.class(template.site) {
            SiteClass::Ignored => Concern::None,
            SiteClass::Plain if template.kind != AccessKind::Atomic => Concern::Plain,
            SiteClass::Plain | SiteClass::Atomic => Concern::Special,
        })
    }

    /// All that happens to some memory is looked at from now on.
    pub(super) fn know(&mut self, address: u64, size: u32) {
        if let Some(sampling) = &mut self.sampling {
            sampling.know(address, size);
        }
    }

    /// Notes what a record touches, in whatever order. False if it touches synchronisation memory, where the order of its
    /// accesses counts: then they have to be noted once more, one by one.
    #[inline]
    fn note(&mut self, shape: Shape, words: &[u64], fs_base: u64) -> bool {
        for index in shape.parts() {
            let part = self.shapes.part(index);
            let span = Span { address: part.address(words, fs_base), size: part.size, writes: part.writes };
            let share = match &mut self.sampling {
                Some(sampling) => sampling.share(part.site, span.address, span.size),
                None => Share::All,
            };
            let is_noted = match share {
                Share::All => self.note_span(&span),
                Share::Some => self.note_some(&span),
                Share::Nothing => true,
            };
            if !is_noted {
                return false;
            }
        }
        true
    }

    /// Notes what is touched. False if it is synchronisation memory.
    #[inline]
    fn note_span(&mut self, span: &Span) -> bool {
        match self.cells.standing(&self.now, span) {
            Standing::Known => {}
            Standing::Own => self.cells.note(&self.now, span),
            Standing::Others => return !self.touch(span),
        }
        true
    }

    /// The same with what is looked at.
    fn note_some(&mut self, span: &Span) -> bool {
        let parts = self.looked_at(span);
        parts.into_iter().all(|(address, size)| self.note_span(&Span { address, size, ..*span }))
    }

    fn looked_at(&self, span: &Span) -> Vec<(u64, u32)> {
        self.sampling.as_ref().map_or_else(Vec::new, |sampling| sampling.looked_at(span.address, span.size))
    }

    #[inline]
    pub(super) fn access(&mut self, access: &Access) {
        self.heed(access);
        match self.share(access) {
            Share::All => self.access_all(access),
            Share::Some => self.access_some(access),
            Share::Nothing => {}
        }
    }

    /// A thread that holds a lock accesses what may be a flag.
    #[inline]
    fn heed(&mut self, access: &Access) {
        if self.hatches.is_holding() && self.orders[access.site.0 as usize] {
            self.hatches.heed(access);
        }
    }

    /// An access of which a part is looked at. It is one access still: what it orders comes before or after all of it.
    fn access_some(&mut self, access: &Access) {
        let span = span_of(access);
        let mut is_sync = false;
        for (address, size) in self.looked_at(&span) {
            is_sync |= self.touch(&Span { address, size, ..span });
        }
        if is_sync && self.orders[access.site.0 as usize] {
            self.synchronise(access);
            self.enter(self.now.slot);
        }
    }

    /// How much is looked at of an access: all that may order something.
    #[inline]
    fn share(&mut self, access: &Access) -> Share {
        if access.kind == AccessKind::Atomic
            || self.sites.class(access.site) != SiteClass::Plain
            || self.is_handing(access)
        {
            return Share::All;
        }
        match &mut self.sampling {
            Some(sampling) => sampling.share(access.site, access.address, access.size),
            None => Share::All,
        }
    }

    #[inline]
    fn access_all(&mut self, access: &Access) {
        // Whether a site is of no concern is asked where its accesses would have an effect.
        let is_plain = access.kind != AccessKind::Atomic && self.sites.class(access.site) != SiteClass::Atomic;
        let is_known = || self.cells.standing(&self.now, &span_of(access)) == Standing::Known;
        if !is_plain && self.is_known_lock(access) {
            return;
        }
        if !is_plain || self.is_handing(access) || !is_known() {
            self.look(access);
        }
    }
}

//! The memory that the records of a pattern touch, with as few parts as it takes: accesses next to each other are one, and
//! what is written need not be read too.

use super::suspects::Filter;
use std::collections::BTreeMap;
use std::ops::Range;
use trace::stream::Site;
use trace::stream::records::{Patterns, Record, Records, Template, address};

/// Memory that records of a pattern touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    pub offset: i64,
    pub size: u32,
    pub word: u16,
    pub through_fs: bool,
    /// All of it is written. Otherwise all is read.
    pub writes: bool,
    /// Who accesses its first byte.
    pub site: Site,
}

impl Part {
    #[inline]
    pub fn address(&self, words: &[u64], fs_base: u64) -> u64 {
        address(self.word, self.through_fs, self.offset, words, fs_base)
    }
}

/// What a template is to the one who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Concern {
    /// Of no concern.
    None,
    Plain,
    /// The accesses of such a record have to be looked at one by one.
    Special,
}

/// What a pattern is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    first: u32,
    n_parts: u32,
    pub is_special: bool,
}

impl Shape {
    /// The numbers of its parts.
    #[inline]
    pub fn parts(self) -> Range<u32> {
        self.first..self.first + self.n_parts
    }
}

/// Shapes by the numbers of their patterns, worked out when they are first needed.
#[derive(Default)]
pub struct Shapes {
    shapes: Vec<Option<Shape>>,
    parts: Vec<Part>,
}

impl Shapes {
    #[inline]
    pub fn of(&mut self, number: u32, patterns: &Patterns, concern: impl Fn(&Template) -> Concern) -> Shape {
        match self.shapes.get(number as usize) {
            Some(Some(shape)) => *shape,
            _ => self.learn(number, patterns.templates(number), concern),
        }
    }

    #[inline]
    pub fn part(&self, number: u32) -> Part {
        self.parts[number as usize]
    }

    /// Whether a record of this shape touches what a filter wants.
    #[inline]
    pub fn any_wanted(&self, shape: Shape, record: &Record<'_>, records: &Records<'_>, filter: &Filter) -> bool {
        let mut parts = self.parts(shape).iter();
        parts.any(|part| filter.wants(part.address(record.words, records.fs_base), u64::from(part.size)))
    }

    #[inline]
    pub fn parts(&self, shape: Shape) -> &[Part] {
        &self.parts[shape.first as usize..][..shape.n_parts as usize]
    }

    #[cold]
    fn learn(&mut self, number: u32, templates: &[Template], concern: impl Fn(&Template) -> Concern) -> Shape {
        let is_special = templates.iter().any(|template| concern(template) == Concern::Special);
        let first = self.parts.len();
        if !is_special {
            self.parts.extend(parts_of(templates.iter().filter(|template| concern(template) == Concern::Plain)));
        }
        let shape = Shape { first: first as u32, n_parts: (self.parts.len() - first) as u32, is_special };
        if self.shapes.len() <= number as usize {
            self.shapes.resize(number as usize + 1, None);
        }
        self.shapes[number as usize] = Some(shape);
        shape
    }
}

/// What is accessed at some distance, and by whom.
#[derive(Clone, Copy)]
struct Span {
    start: i64,
    end: i64,
    site: Site,
}

fn parts_of<'a>(templates: impl Iterator<Item = &'a Template>) -> Vec<Part> {
    let mut bases: BTreeMap<(u16, bool), (Vec<Span>, Vec<Span>)> = BTreeMap::new();
    for template in templates {
        let (reads, writes) = bases.entry((template.word, template.through_fs)).or_default();
        let end = template.offset.saturating_add(i64::from(template.size));
        let span = Span { start: template.offset, end, site: template.site };
        if template.kind.writes() { writes.push(span) } else { reads.push(span) }
    }
    let mut parts = Vec::new();
    for ((word, through_fs), (reads, writes)) in bases {
        let (mut reads, writes) = (joined(reads), joined(writes));
        reads.retain(|read| !writes.iter().any(|write| write.start <= read.start && read.end <= write.end));
        let part = |span: Span, writes| Part {
            offset: span.start,
            size: (span.end - span.start) as u32,
            word,
            through_fs,
            writes,
            site: span.site,
        };
        parts.extend(writes.into_iter().map(|span| part(span, true)));
        parts.extend(reads.into_iter().map(|span| part(span, false)));
    }
    parts
}

/// Spans that touch each other become one, unless it would be too long for a part.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end && span.end - last.start <= i64::from(u32::MAX) => {
                last.end = last.end.max(span.end);
            }
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::AccessKind;

    fn template(word: u16, offset: i64, size: u32, kind: AccessKind) -> Template {
        Template { offset, size, site: Site(0), word, kind, through_fs: false }
    }

    fn spans(templates: &[Template]) -> Vec<(u16, i64, u32, bool)> {
        let parts = parts_of(templates.iter());
        parts.iter().map(|part| (part.word, part.offset, part.size, part.writes)).collect()
    }

    #[test]
    fn neighbours_are_one_part() {
        use AccessKind::{Read, Update, Write};
        let reads = [template(1, 8, 8, Read), template(1, 0, 8, Read), template(1, 4, 8, Read)];
        assert_eq!(spans(&reads), [(1, 0, 16, false)]);
        let apart = [template(1, 0, 4, Read), template(1, 5, 4, Read), template(2, 4, 4, Read)];
        assert_eq!(spans(&apart), [(1, 0, 4, false), (1, 5, 4, false), (2, 4, 4, false)]);
        let updated = [template(1, 0, 8, Read), template(1, 0, 8, Write), template(1, 8, 1, Update)];
        assert_eq!(spans(&updated), [(1, 0, 9, true)]);
        let more_read = [template(1, 0, 16, Read), template(1, 0, 8, Write)];
        assert_eq!(spans(&more_read), [(1, 0, 8, true), (1, 0, 16, false)]);
    }

    #[test]
    fn shapes_are_worked_out_once() {
        let mut shapes = Shapes::default();
        let patterns = Patterns::default();
        let shape = shapes.of(3, &patterns, |_| Concern::Plain);
        assert_eq!((shapes.parts(shape).len(), shape.is_special), (0, false));
        assert_eq!(shapes.of(3, &patterns, |_| Concern::Special), shape);
    }
}

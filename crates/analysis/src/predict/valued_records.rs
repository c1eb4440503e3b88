//! Records with values, of which few are of concern.

use trace::stream::records::{LONGEST_VALUE, Patterns, Record, Records};
use trace::stream::{Access, Site, Values};

/// By the number of a pattern, as far as it is known: whether a site that matters is in it.
#[derive(Default)]
pub struct Concerning(Vec<Option<bool>>);

impl Concerning {
    #[inline]
    pub fn is_so(&mut self, number: u32, patterns: &Patterns, matters: impl Fn(Site) -> bool) -> bool {
        let index = number as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        *self.0[index].get_or_insert_with(|| patterns.templates(number).iter().any(|template| matters(template.site)))
    }
}

/// Tells the accesses of a record, with what memory held before and after each.
#[inline]
pub fn tell(record: &Record<'_>, records: &Records<'_>, mut hear: impl FnMut(&Access, Values<'_>)) {
    let mut places = [[0; LONGEST_VALUE]; 2];
    let Record { number, words, .. } = *record;
    let templates = records.patterns.templates(number).iter().zip(records.patterns.held(number));
    for (template, [before, after]) in templates {
        let [before_place, after_place] = &mut places;
        let before = before.bytes(words, template.size, before_place);
        let after = after.bytes(words, template.size, after_place);
        hear(&template.access(words, records.fs_base), Values { before, after });
    }
}

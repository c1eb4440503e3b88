//! The source of guilty statements: lines with their surroundings, those near each other in one passage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use program::source::SourceCache;
use trace::finding::{Finding, Place};

use super::words;
use crate::excerpt::{CONTEXT, expand_tabs};
use crate::text::printable;

pub(super) struct Passage {
    pub file: PathBuf,
    pub lines: Vec<Line>,
}

pub(super) struct Line {
    pub number: u32,
    /// Without tabs, and fit to be shown.
    pub text: String,
    /// What is said of a guilty line; none if it is not guilty.
    pub remarks: Option<Vec<String>>,
}

/// Lines to what is said of them.
type Marks = BTreeMap<u32, Vec<String>>;

/// The files in the order in which the causes name them.
pub(super) fn passages(finding: &Finding, sources: &mut SourceCache) -> Vec<Passage> {
    let mut files: Vec<(&Path, Marks)> = Vec::new();
    for (place, remark) in marked_places(finding) {
        let Some((file, line)) = readable(place, sources) else { continue };
        let position = files.iter().position(|(known, _)| *known == file).unwrap_or_else(|| {
            files.push((file, Marks::new()));
            files.len() - 1
        });
        let remarks = files[position].1.entry(line).or_default();
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    files.iter().flat_map(|(file, marks)| cut(file, marks, sources)).collect()
}

/// The place's file and line, if that line can be read.
pub(super) fn readable<'a>(place: &'a Place, sources: &mut SourceCache) -> Option<(&'a Path, u32)> {
    let (file, line) = (place.file.as_deref()?, place.line?);
    sources.source_line(file, line)?;
    Some((file, line))
}

/// The statement at a place, without its indentation.
pub(super) fn statement(place: &Place, sources: &mut SourceCache) -> Option<String> {
    let (file, line) = readable(place, sources)?;
    let text = printable(&expand_tabs(sources.source_line(file, line)?.trim()));
    Some(text).filter(|text| !text.is_empty())
}

fn marked_places(finding: &Finding) -> Vec<(&Place, String)> {
    let mut marked = Vec::new();
    for cause in &finding.causes {
        let thread = cause.thread.map(|thread| words::thread(finding, thread));
        let text = Some(printable(&cause.text)).filter(|text| !text.is_empty());
        let remark = [thread, text].into_iter().flatten().collect::<Vec<_>>().join(" ");
        marked.push((&cause.place, remark));
    }
    if let Some((failure, place)) = finding.failure.as_ref().and_then(|failure| Some((failure, failure.at.as_ref()?))) {
        marked.push((place, printable(&failure.text)));
    }
    marked
}

fn cut(file: &Path, marks: &Marks, sources: &mut SourceCache) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let mut shown_to = 0_u32;
    for &marked in marks.keys() {
        let first = marked.saturating_sub(CONTEXT).max(1);
        // A gap of one line takes as much room as the line.
        if shown_to == 0 || first > shown_to.saturating_add(2) {
            passages.push(Passage { file: file.to_owned(), lines: Vec::new() });
            shown_to = first - 1;
        }
        let Some(passage) = passages.last_mut() else { continue };
        for number in shown_to.saturating_add(1)..=marked.saturating_add(CONTEXT) {
            let Some(text) = sources.source_line(file, number) else { break };
            let remarks = marks.get(&number).cloned();
            passage.lines.push(Line { number, text: printable(&expand_tabs(&text)), remarks });
        }
        shown_to = marked.saturating_add(CONTEXT);
    }
    passages
}

//! Findings rendered: for people as text and HTML, for programs as JSON and SARIF.
//!
//! The same findings, sources and look give the same bytes.

mod classes;
mod html;
mod narrowing;
mod passages;
mod places;
mod sarif;
mod text;
mod timeline;
mod words;

use program::source::SourceCache;
use trace::finding::Findings;

use crate::look::Look;

pub use places::place;
pub use words::preemption;

/// For a terminal of the look's width, ending in a line feed.
pub fn text(findings: &Findings, sources: &mut SourceCache, look: &Look) -> String {
    text::render(findings, sources, look)
}

/// One file that needs nothing else. The look says how paths are shown; colours are the page's own.
pub fn html(findings: &Findings, sources: &mut SourceCache, look: &Look) -> String {
    html::render(findings, sources, look)
}

/// SARIF 2.1.0. Paths below the look's folder are relative to it.
pub fn sarif(findings: &Findings, sources: &mut SourceCache, look: &Look) -> String {
    sarif::render(findings, sources, look)
}

/// As `docs/findings.md` has it.
pub fn json(findings: &Findings) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(findings)? + "\n")
}

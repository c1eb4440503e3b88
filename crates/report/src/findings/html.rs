//! Findings as one page that needs nothing else: no script, no network, light or dark as the reader's system is.
//!
//! Whatever comes from the program under examination goes through [`printable`] and the template, which escapes it. The page
//! also forbids scripts and loading by itself, so that a mistake here would do no harm.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use program::source::SourceCache;
use trace::finding::{Finding, Findings, Place, Status, Step};

use super::passages::{self, Passage};
use super::timeline::{self, Row};
use super::{classes, narrowing, places, words};
use crate::look::Look;
use crate::text::{count, printable};

const STYLE: &str = include_str!("html/style.css");
/// Nothing is loaded or run, and only the page's own style holds. In a file of its own, since the word for inline styles would
/// be taken for Rust's by those who look for that.
const POLICY: &str = include_str!("html/policy.txt");

/// Steps shown; JSON has all.
const MAX_STEPS: usize = 600;
/// With more threads than this, a table of columns is wider than anybody scrolls.
const MAX_COLUMNS: usize = 12;

pub(super) fn render(findings: &Findings, sources: &mut SourceCache, look: &Look) -> String {
    let title = format!("{}: {}", printable(&findings.verb), printable(&findings.program));
    let articles: Vec<Markup> = findings
        .findings
        .iter()
        .enumerate()
        .map(|(position, finding)| article(position + 1, finding, sources, look))
        .collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (overview(findings, &title)) }
                main { @for article in &articles { (article) } }
                (notes("What this way of looking may miss", &findings.notes))
                footer { p.faint { (printable(&findings.tool.name)) " " (printable(&findings.tool.version)) } }
            }
        }
    };
    page.into_string() + "\n"
}

fn overview(findings: &Findings, title: &str) -> Markup {
    let command = std::iter::once(&findings.program).chain(&findings.arguments);
    let command = command.map(|word| printable(word)).collect::<Vec<_>>().join(" ");
    html! {
        h1 { (title) }
        p { (words::summary(findings)) }
        @if let Some(text) = &findings.summary.text { p { (printable(text)) } }
        @if !findings.narrowing.is_empty() { (narrowing::plot(&findings.narrowing)) }
        p.faint { code { (command) } }
        @if findings.findings.len() > 1 {
            nav { ol {
                @for (position, finding) in findings.findings.iter().enumerate() {
                    li { a href={ "#finding-" (position + 1) } { (words::title(finding)) } }
                }
            } }
        }
    }
}

fn article(number: usize, finding: &Finding, sources: &mut SourceCache, look: &Look) -> Markup {
    let (word, class) = match finding.status() {
        Status::Proved => ("proved", "status proved"),
        Status::Suspected => ("suspected", "status suspected"),
    };
    let about = classes::about(finding.class);
    html! {
        article id={ "finding-" (number) } {
            h2 { (number) ". " (words::title(finding)) }
            p { span class=(class) { (word) } " " (words::capitalised(&words::standing(finding))) "." }
            p.faint { (about.meaning) }
            (facts(finding, look))
            (steps(finding, sources, look))
            (guilty_lines(finding, sources, look))
            (stacks(finding, look))
            (notes("Why this is told", &finding.grounds))
            (notes("What may be missing here", &finding.notes))
            (commands(finding))
        }
    }
}

fn facts(finding: &Finding, look: &Look) -> Markup {
    html! {
        @if let Some(variable) = &finding.variable { p { b { "Memory: " } (words::variable(variable)) } }
        @if let Some(failure) = &finding.failure { p { b { "Failure: " } (words::failure(finding, failure, look)) } }
        @if !finding.schedule.is_empty() {
            h3 { "The schedule that fails" }
            ol {
                @for preemption in &finding.schedule {
                    li { (words::capitalised(&words::preemption(finding, preemption, look))) }
                }
            }
        }
    }
}

fn steps(finding: &Finding, sources: &mut SourceCache, look: &Look) -> Markup {
    if finding.steps.is_empty() {
        return html! {};
    }
    let threads = timeline::threads(finding);
    // In a list, the one column is everybody's.
    let is_list = threads.len() > MAX_COLUMNS;
    let columns = if is_list { 1 } else { threads.len() };
    let rows = timeline::rows(finding, MAX_STEPS);
    html! {
        h3 { "What the threads did, in this order" }
        div.scroll { table.steps {
            @if !is_list {
                tr { th.number {} @for thread in &threads { th { (words::thread(finding, *thread)) } } }
            }
            @for row in &rows {
                @match row {
                    Row::Gap(left_out) => tr {
                        td.number {} td.faint colspan=(columns) { (count(*left_out, "step")) " left out" }
                    },
                    Row::Step { number, step } => tr {
                        td.number { (number) }
                        @if is_list {
                            (cell(step, Some(words::thread(finding, step.thread)), sources, look))
                        } @else {
                            @for thread in &threads {
                                @if *thread == step.thread { (cell(step, None, sources, look)) } @else { td {} }
                            }
                        }
                    },
                }
            }
        } }
    }
}

fn cell(step: &Step, thread: Option<String>, sources: &mut SourceCache, look: &Look) -> Markup {
    let statement = passages::statement(&step.place, sources);
    html! {
        td.guilty[step.guilty] {
            @if let Some(thread) = thread { b { (thread) } }
            span.place { (places::words(&step.place, look)) }
            @if let Some(statement) = statement { span.statement { (statement) } }
            @if !step.text.is_empty() { span.remark { (printable(&step.text)) } }
        }
    }
}

/// The guilty lines in their source; in words where it cannot be read.
fn guilty_lines(finding: &Finding, sources: &mut SourceCache, look: &Look) -> Markup {
    let passages = passages::passages(finding, sources);
    let unread = finding.causes.iter().filter(|cause| passages::readable(&cause.place, sources).is_none());
    let unread: Vec<_> = unread.collect();
    html! {
        @if !(passages.is_empty() && unread.is_empty()) { h3 { "Source" } }
        @for passage in &passages { (source(passage, look)) }
        @if !unread.is_empty() {
            ul {
                @for cause in unread {
                    li {
                        @if let Some(thread) = cause.thread { (words::thread(finding, thread)) ", " }
                        (places::words(&cause.place, look))
                        @if !cause.text.is_empty() { ": " (printable(&cause.text)) }
                    }
                }
            }
        }
    }
}

fn source(passage: &Passage, look: &Look) -> Markup {
    html! {
        p.place { (printable(&look.path(&passage.file))) }
        div.scroll { table.source {
            @for line in &passage.lines {
                tr.guilty[line.remarks.is_some()] {
                    td.number { (line.number) }
                    td {
                        span.statement { (line.text) }
                        @for remark in line.remarks.iter().flatten() { span.remark { "↑ " (remark) } }
                    }
                }
            }
        } }
    }
}

fn stacks(finding: &Finding, look: &Look) -> Markup {
    let stacks = words::stacks(finding, look);
    html! {
        @if !stacks.is_empty() { h3 { "Stacks" } }
        @for told in &stacks {
            details open {
                summary { (words::capitalised(&told.sentence)) }
                @if !told.stack.is_empty() {
                    ol.stack start="0" { @for place in told.stack { li { (frame(place, look)) } } }
                }
            }
        }
    }
}

fn frame(place: &Place, look: &Look) -> Markup {
    html! {
        code {
            span.function { (place.function.as_deref().map_or_else(|| "?".to_owned(), printable)) }
            @if place.inlined { " (inlined)" }
            @if let Some(spot) = places::spot(place, look) { " " span.faint { (spot) } }
        }
    }
}

fn notes(heading: &str, notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            h3 { (heading) }
            ul.faint { @for note in notes { li { (printable(note)) } } }
        }
    }
}

fn commands(finding: &Finding) -> Markup {
    html! {
        @if let Some(command) = finding.rerun() {
            h3 { "To see it again" }
            pre { (printable(command)) }
        }
        @if !finding.next.is_empty() {
            h3 { "Next" }
            @for next in &finding.next {
                @if !next.text.is_empty() { p { (words::capitalised(&printable(&next.text))) ":" } }
                pre { (printable(&next.command)) }
            }
        }
    }
}

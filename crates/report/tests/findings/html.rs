//! The HTML page: nothing of the program under examination becomes markup, and every element is closed.

use crate::examples;
use crate::support::{compare, look, sources};
use trace::finding::Findings;

/// Elements without an end.
const VOID: &[&str] = &["meta"];
/// What the page is made of; whatever else turns up was not escaped.
const KNOWN: &[&str] = &[
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "article", "h1", "h2", "h3",
    "p", "b", "a", "ol", "ul", "li", "span", "code", "pre", "div", "table", "tr", "th", "td", "details", "summary",
];

fn rendered(findings: &Findings) -> String {
    let page = report::findings::html(findings, &mut sources(), &look(false));
    assert_eq!(page, report::findings::html(findings, &mut sources(), &look(true)), "colours reach HTML");
    check_form(&page);
    page
}

/// Walks through all tags: known, nested, closed; and no control character or bare ampersand between them.
fn check_form(page: &str) {
    let body = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let mut open: Vec<&str> = Vec::new();
    let mut pieces = body.split('<');
    assert_eq!(pieces.next(), Some(""));
    for piece in pieces {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("a tag without end: {piece}"));
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                let name = tag.split(' ').next().unwrap();
                assert!(KNOWN.contains(&name), "<{tag}>");
                check_attributes(tag);
                open.extend((!VOID.contains(&name)).then_some(name));
            }
        }
        if open.last() != Some(&"style") {
            check_text(text);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

fn check_attributes(tag: &str) {
    assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    assert!(!tag.contains(" on") && !tag.contains("src=") && !tag.contains("javascript"), "{tag}");
}

fn check_text(text: &str) {
    assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
    for entity in text.split('&').skip(1) {
        assert!(["lt;", "gt;", "amp;", "quot;"].iter().any(|known| entity.starts_with(known)), "&{entity}");
    }
}

#[test]
fn every_shape() {
    compare("findings.html", &rendered(&examples::everything()));
}

#[test]
fn nothing_found() {
    assert!(rendered(&examples::nothing()).contains("No findings in server"));
}

#[test]
fn names_do_not_become_markup() {
    let page = rendered(&examples::unwieldy());
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;"));
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = rendered(&examples::everything());
    for reach in ["http:", "https:", "url(", "@import", "<link", "<img", "<script", "<iframe"] {
        assert!(!page.contains(reach), "{reach}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("prefers-color-scheme: dark"));
}

/// Fifty threads are a list, three are columns.
#[test]
fn columns() {
    let page = rendered(&examples::findings(vec![examples::schedule()]));
    assert!(page.contains("<th>thread 1</th><th>thread 2 &quot;worker&quot;</th><th>thread 3</th>"), "{page}");
    assert!(!rendered(&examples::unwieldy()).contains("<th>"));
}

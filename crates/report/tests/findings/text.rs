//! The text for terminals.

use crate::examples;
use crate::support::check;
use report::findings;
use trace::finding::Findings;

fn check_text(name: &str, width: usize, findings: &Findings) {
    check(name, width, |sources, look| findings::text(findings, sources, look));
}

#[test]
fn every_shape() {
    check_text("findings", 100, &examples::everything());
}

#[test]
fn narrow_terminals_get_lists() {
    check_text("findings_narrow", 60, &examples::everything());
}

#[test]
fn wide_terminals_get_wider_columns() {
    check_text("findings_wide", 150, &examples::findings(vec![examples::schedule()]));
}

#[test]
fn nothing_found() {
    check_text("findings_none", 100, &examples::nothing());
}

#[test]
fn unwieldy() {
    for width in [60, 100, 180] {
        check_text(&format!("findings_unwieldy_{width}"), width, &examples::unwieldy());
    }
}

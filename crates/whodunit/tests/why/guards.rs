//! Failures that a check announced: guards of the compiler and of the C library, exceptions, panics.

use super::Place;
use serde_json::json;

const LONG_NAME: &str = "a-name-that-is-far-too-long-for-the-room";

#[test]
fn guards_lead_to_the_statement_that_overran() {
    let place = Place::with("guards", "c", "cc", &["-g", "-O1", "-fstack-protector-all", "-D_FORTIFY_SOURCE=2"]);
    let smashed = place.finding(&["./guest", "keep", LONG_NAME]);
    assert_eq!((&smashed["class"], &smashed["status"]), (&json!("stack-overflow"), &json!("proved")), "{smashed:#}");
    assert_eq!(smashed["causes"][0]["line"], place.line("overrun"), "{smashed:#}");
    let fortified = place.finding(&["./guest", "label", LONG_NAME]);
    assert_eq!(
        (&fortified["class"], &fortified["status"]),
        (&json!("buffer-overflow"), &json!("proved")),
        "{fortified:#}"
    );
    assert_eq!(fortified["causes"][0]["function"], "set_label", "{fortified:#}");
}

#[test]
fn an_exception_that_nobody_catches_leads_to_what_it_was_thrown_for() {
    let place = Place::with("limit", "cc", "c++", &["-g", "-O0"]);
    let finding = place.finding(&["./guest"]);
    assert_eq!(finding["causes"][0]["line"], place.line("guilty"), "{finding:#}");
    assert_eq!(finding["failure"]["at"]["line"], place.line("thrown"), "{finding:#}");
}

#[test]
fn a_panic_leads_to_the_index() {
    let place = Place::with("index", "rs", "rustc", &["-g", "-Copt-level=0", "-Cpanic=abort"]);
    let finding = place.finding(&["./guest"]);
    assert_eq!(finding["causes"][0]["line"], place.line("guilty"), "{finding:#}");
    assert_eq!(finding["failure"]["at"]["line"], place.line("panics"), "{finding:#}");
}

//! Findings made by hand, rendered in every format. `BLESS=1` rewrites the files in `tests/expected`.

#[path = "../support/mod.rs"]
mod support;

mod damaged;
mod examples;
mod html;
mod json;
mod sarif;
mod text;

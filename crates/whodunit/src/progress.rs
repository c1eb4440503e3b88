//! How far a verb is: a line of its own that is written over again and again, for a person at a terminal.

use crate::voice;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(200);

pub struct Line {
    is_seen: bool,
    shown: Option<Instant>,
}

impl Line {
    pub fn new() -> Line {
        Line { is_seen: std::io::stderr().is_terminal(), shown: None }
    }

    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_seen && self.shown.is_none_or(|shown| shown.elapsed() >= INTERVAL) {
            self.shown = Some(Instant::now());
            voice::say(&format!("\r\x1b[K{}", text()));
        }
    }

    /// Takes it away.
    pub fn end(&self) {
        if self.shown.is_some() {
            voice::say("\r\x1b[K");
        }
    }
}

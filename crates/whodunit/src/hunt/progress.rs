//! How far a hunt is, for a person at a terminal.

use super::search::{Found, Plan};
use crate::progress::Line;
use crate::recordings::text::count;
use std::time::{Duration, Instant};

const WIDTH: u64 = 20;

pub struct Progress {
    line: Line,
    schedules: u64,
    began: Instant,
}

impl Progress {
    pub fn new(plan: &Plan) -> Progress {
        Progress { line: Line::new(), schedules: plan.schedules, began: Instant::now() }
    }

    pub fn show(&mut self, found: &Found) {
        self.line.show(|| line(found, self.schedules, self.began.elapsed()));
    }

    pub fn end(&self) {
        self.line.end();
    }
}

/// How far the shrinking of a failing schedule is.
pub struct Shrinking(Line);

impl Shrinking {
    pub fn new() -> Shrinking {
        Shrinking(Line::new())
    }

    pub fn show(&mut self, switches: usize, runs: u64) {
        self.0.show(|| {
            let (switches, runs) = (count(switches, "switch"), count(runs as usize, "run"));
            format!("Shrinking: {switches} left after {runs}; Ctrl-C keeps what there is")
        });
    }

    pub fn end(&self) {
        self.0.end();
    }
}

fn line(found: &Found, schedules: u64, elapsed: Duration) -> String {
    // The ordinary run comes before all.
    let done = found.schedules.saturating_sub(1).min(schedules);
    let full = (WIDTH * done / schedules.max(1)) as usize;
    let bar = "#".repeat(full) + &".".repeat(WIDTH as usize - full);
    let rate = found.schedules as f64 / elapsed.as_secs_f64().max(0.001);
    let failures = count(found.groups.len(), "failure");
    format!(
        "[{bar}] {done} of {schedules} schedules, {rate:.0} a second, {} different, {failures}",
        found.different.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_how_far_it_is() {
        let found = Found { schedules: 51, different: (0..40).collect(), ..Found::default() };
        let expected = "[##########..........] 50 of 100 schedules, 26 a second, 40 different, 0 failures";
        assert_eq!(line(&found, 100, Duration::from_secs(2)), expected);
    }
}

//! Files of findings that somebody has changed: refused, or rendered as whatever they now say.

use crate::examples;
use crate::support::{look, sources};
use trace::finding::Findings;

const ROUNDS: usize = 1000;
/// What does most harm in JSON.
const CHARACTERS: &[u8] = b"{}[]:,\"\\0918-.eE\x01azt\xff";

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) as usize % limit
    }
}

fn render_all(findings: &Findings) {
    report::findings::text(findings, &mut sources(), &look(true));
    report::findings::html(findings, &mut sources(), &look(true));
    report::findings::sarif(findings, &mut sources(), &look(true));
    let written = report::findings::json(findings).unwrap();
    assert_eq!(Findings::read(&written).unwrap(), *findings);
}

#[test]
fn changed_and_cut_off() {
    let whole = report::findings::json(&examples::everything()).unwrap();
    let mut random = Random(1);
    let (mut n_read, mut n_refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut damaged = whole.clone().into_bytes();
        for _ in 0..=random.below(2) {
            let at = random.below(damaged.len());
            damaged[at] = CHARACTERS[random.below(CHARACTERS.len())];
        }
        if round % 10 == 0 {
            damaged.truncate(random.below(damaged.len()));
        }
        match Findings::read(&String::from_utf8_lossy(&damaged)) {
            Ok(findings) => {
                n_read += 1;
                render_all(&findings);
            }
            Err(_) => n_refused += 1,
        }
    }
    assert!(n_read > ROUNDS / 20 && n_refused > ROUNDS / 20, "{n_read} read, {n_refused} refused");
}

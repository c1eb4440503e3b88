//! Starts a program under the engine: the way that `run` and followed programs share.

use crate::host::Terminal;
use crate::settings::{OnDeadlock, Settings};
use crate::stats::Destination;
use crate::voice;
use engine::{Observation, Options, PrivateFile, Program};
use std::process::ExitCode;

/// The hidden verb under which the programs that a guest executes are run.
pub const FOLLOWED_VERB: &str = "__exec";

pub struct Start {
    pub program: Program,
    pub settings: Settings,
    /// Whether programs that the guest executes are run under the engine too.
    pub follow: bool,
    pub stats: Option<Destination>,
    pub count: Option<Destination>,
    pub events: Option<PrivateFile>,
    pub observation: Observation,
}

impl Start {
    /// Runs the program in this process; returns only if it could not be started.
    pub fn go(self) -> ExitCode {
        let options = Options {
            follow: self.follow.then(|| followed_words(&self.settings)),
            report_deadlock: self.settings.on_deadlock == OnDeadlock::Report,
            observation: self.observation,
            cache_size: self.settings.cache_mebibytes << 20,
            seed: self.settings.seed,
        };
        let policy = self.settings.new_policy();
        let terminal = Terminal::new(&self.program, self.settings, self.stats, self.count, self.events);
        match engine::launch(self.program, options, policy, Box::new(terminal)) {
            Ok(never) => match never {},
            Err(error) => {
                voice::say(&format!("whodunit: {error}\n"));
                ExitCode::from(error.status())
            }
        }
    }
}

/// What stands before the path of a followed program; see [`crate::followed`].
fn followed_words(settings: &Settings) -> Vec<Vec<u8>> {
    ["whodunit", FOLLOWED_VERB, &settings.encode(), "--"].map(|word| word.as_bytes().to_vec()).into()
}

//! What the command lines of benchmarks have in common.

use super::alone;
use clap::Args;

#[derive(Args)]
pub struct Common {
    /// Only exhibits and programs whose name contains one of these.
    filters: Vec<String>,
    /// Passed by `cargo bench`; without it (as under `cargo test --all-targets`) nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
    /// Runs a command and tells its cost, as the only child of a process.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    alone: Vec<String>,
}

impl Common {
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Whether the benchmark of this name is to measure. If the process is there to run one command alone, that is done instead.
    pub fn measures(&self, name: &str) -> bool {
        if !self.alone.is_empty() {
            alone::run_alone(&self.alone);
            return false;
        }
        if !self.bench {
            println!("measures only under `cargo bench --bench {name}`");
        }
        self.bench
    }
}

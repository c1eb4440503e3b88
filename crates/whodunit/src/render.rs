//! `whodunit render`: findings that were kept as JSON, for people or in another format.

use crate::findings_output::OutputArguments;
use crate::recordings::{Trouble, conclude};
use clap::Args;
use program::source::SourceCache;
use std::path::PathBuf;
use std::process::ExitCode;
use trace::finding::Findings;

const AFTER_HELP: &str = "\
Source lines are read from where the findings say they are. docs/findings.md describes the JSON.

EXIT STATUS:
  0  there are no findings in the file
  1  there are some
  2  the command line is wrong
  3  the file holds no findings, or they cannot be written

EXAMPLES:
  whodunit render races.json
  whodunit render races.json -o races.html
  whodunit render races.json --format sarif > races.sarif";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// What an analysing verb wrote with --format json
    #[arg(value_name = "FINDINGS")]
    findings: PathBuf,
    #[command(flatten)]
    output: OutputArguments,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let ready = read(arguments).and_then(|findings| Ok((findings, arguments.output.prepare()?)));
    match ready {
        Ok((findings, output)) => output.give(&findings, SourceCache::new()),
        Err(trouble) => conclude(Err(trouble)),
    }
}

fn read(arguments: &Arguments) -> Result<Findings, Trouble> {
    let shown = arguments.findings.display();
    let text = std::fs::read_to_string(&arguments.findings)
        .map_err(|error| Trouble::Refused(format!("cannot read {shown}: {error}")))?;
    Findings::read(&text).map_err(|problem| {
        Trouble::Refused(format!("{shown} holds no findings: {problem}; such files are written with --format json"))
    })
}

//! provisional
use clap::Args;
use program::copies::Copies;
use std::process::ExitCode;
use std::sync::Arc;
use trace::finding::Findings;

#[derive(Args, Debug)]
pub struct Output {
    #[arg(long)]
    format: Option<String>,
}

pub fn write(findings: &Findings, _output: &Output, _copies: Arc<Copies>) -> ExitCode {
    println!("{}", serde_json::to_string_pretty(findings).unwrap_or_default());
    ExitCode::from(u8::from(!findings.findings.is_empty()))
}

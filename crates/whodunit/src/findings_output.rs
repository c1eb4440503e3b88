//! How analysing verbs give what they found: `--format` and `-o`, which they all take, and the exit status.
//!
//! A verb flattens [`OutputArguments`] into its own, calls [`OutputArguments::prepare`] before it starts to work, so that a file that
//! cannot be written is told at once, and ends in [`Output::give`].

use crate::recordings::{Trouble, conclude, paint, print};
use crate::{status, voice};
use clap::{Args, ValueEnum};
use program::source::SourceCache;
use report::findings;
use report::look::Look;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::finding::Findings;

/// Named apart from the verbs' own `Arguments`: clap makes a group of each structure, by its name.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArguments {
    /// How to write findings; by default as the ending of FILE says (.json, .sarif, .html), else as text
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write findings to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, in a terminal
    Text,
    /// For programs, see docs/findings.md
    Json,
    /// SARIF 2.1.0, for code hosts and editors
    Sarif,
    /// For people, one page for a browser
    Html,
}

/// Where findings will go.
#[derive(Debug)]
pub struct Output {
    format: Format,
    file: Option<(PathBuf, File)>,
}

impl OutputArguments {
    /// For verbs that call their options otherwise.
    pub fn new(format: Option<Format>, output: Option<PathBuf>) -> OutputArguments {
        OutputArguments { format, output }
    }

    /// Opens the file. What it holds stays until there is something to write.
    pub fn prepare(&self) -> Result<Output, Trouble> {
        let open = |path: &PathBuf| {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            file.map(|file| (path.clone(), file)).map_err(|error| unwritable(path, &error))
        };
        Ok(Output { format: self.format(), file: self.output.as_ref().map(open).transpose()? })
    }

    fn format(&self) -> Format {
        let name = self.output.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let ends = |endings: &[&str]| name.as_ref().is_some_and(|name| endings.iter().any(|end| name.ends_with(end)));
        match self.format {
            Some(format) => format,
            None if ends(&[".sarif", ".sarif.json"]) => Format::Sarif,
            None if ends(&[".json"]) => Format::Json,
            None if ends(&[".html", ".htm"]) => Format::Html,
            None => Format::Text,
        }
    }
}

impl Output {
    /// Writes the findings, and says how the verb ends: 0 if there are none, 1 if there are some.
    pub fn give(self, findings: &Findings, sources: SourceCache) -> ExitCode {
        let status = if findings.findings.is_empty() { 0 } else { status::FINDINGS };
        match self.write(findings, sources) {
            Ok(()) => ExitCode::from(status),
            // Whoever reads has seen enough; that does not unmake a finding.
            Err(Trouble::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(status),
            Err(trouble) => conclude(Err(trouble)),
        }
    }

    fn write(self, findings: &Findings, sources: SourceCache) -> Result<(), Trouble> {
        let Some((path, file)) = self.file else {
            return print(&rendered(findings, sources, self.format, &look_of_terminal())?);
        };
        let text = rendered(findings, sources, self.format, &Look::here(false))?;
        replace(&file, &text).map_err(|error| unwritable(&path, &error))?;
        let number = findings.findings.len();
        let plural = if number == 1 { "" } else { "s" };
        voice::say(&format!("whodunit: {number} finding{plural} written to {}\n", path.display()));
        Ok(())
    }
}

fn rendered(findings: &Findings, mut sources: SourceCache, format: Format, look: &Look) -> Result<String, Trouble> {
    let failed = |error| Trouble::Refused(format!("cannot put the findings into words: {error}"));
    match format {
        Format::Text => Ok(findings::text(findings, &mut sources, look)),
        Format::Json => findings::json(findings).map_err(failed),
        Format::Sarif => Ok(findings::sarif(findings, &mut sources, look)),
        Format::Html => Ok(findings::html(findings, &mut sources, look)),
    }
}

fn look_of_terminal() -> Look {
    let look = Look::here(paint().colour);
    match terminal_size::terminal_size_of(io::stdout()) {
        Some((width, _)) => look.with_width(usize::from(width.0)),
        None => look,
    }
}

/// Only files have a length; a pipe or a terminal takes what it is given.
fn replace(mut file: &File, text: &str) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())
}

fn unwritable(path: &Path, error: &io::Error) -> Trouble {
    Trouble::Refused(format!("cannot write the findings to {}: {error}; name another file with -o", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use trace::finding::{Class, Finding};

    #[derive(Parser)]
    struct Verb {
        #[command(flatten)]
        output: OutputArguments,
    }

    fn arguments(words: &[&str]) -> OutputArguments {
        Verb::try_parse_from([&["verb"], words].concat()).unwrap().output
    }

    #[test]
    fn the_format_is_told_or_follows_from_the_name() {
        let cases: [(&[&str], Format); 8] = [
            (&[], Format::Text),
            (&["--format", "sarif"], Format::Sarif),
            (&["-o", "a.html"], Format::Html),
            (&["-o", "folder.html/a"], Format::Text),
            (&["--output", "a.json"], Format::Json),
            (&["-o", "a.sarif.json"], Format::Sarif),
            (&["-o", "a.json", "--format", "text"], Format::Text),
            (&["-o", "a.sarif"], Format::Sarif),
        ];
        for (words, format) in cases {
            assert_eq!(arguments(words).format(), format, "{words:?}");
        }
        assert!(Verb::try_parse_from(["verb", "--format", "xml"]).is_err());
    }

    fn some_findings() -> Findings {
        let mut findings = Findings::new("races", "server");
        findings.push(Finding::suspected(Class::DataRace, "somebody writes"));
        findings
    }

    #[test]
    fn files_are_replaced_and_the_status_tells() {
        let path = std::env::temp_dir().join(format!("whodunit-findings-{}.json", std::process::id()));
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        let give = |findings: &Findings| {
            let output = arguments(&["-o", path.to_str().unwrap()]).prepare().unwrap_or_else(|_| panic!("writable"));
            let status = output.give(findings, SourceCache::new());
            (status, Findings::read(&std::fs::read_to_string(&path).unwrap()).unwrap())
        };
        assert_eq!(give(&some_findings()), (ExitCode::from(1), some_findings()));
        let none = Findings::new("races", "server");
        assert_eq!(give(&none), (ExitCode::SUCCESS, none));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn unwritable_files_are_told_before_the_work() {
        let folder = std::env::temp_dir();
        for path in [folder.to_str().unwrap(), "/nowhere/at/all.json"] {
            match arguments(&["-o", path]).prepare() {
                Err(Trouble::Refused(sentence)) => {
                    assert!(sentence.contains(path) && sentence.contains("name another file"), "{sentence}");
                }
                _ => panic!("{path} was opened"),
            }
        }
    }
}

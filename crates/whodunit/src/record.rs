//! `whodunit record`: runs a program and writes down what it takes from outside, so that it can be run again.

use crate::settings::Cpu;
use crate::start::Recording;
use crate::{run, status, voice};
use clap::{Args, ValueEnum};
use engine::Program;
use session::Limits;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use trace::format::TAIL_SIZE;
use trace::{Manifest, NewRecording, Store};

const AFTER_HELP: &str = "\
EXIT STATUS:
  As for `whodunit run`; 3 also if the recording cannot be written, or not any more under --on-full stop.

EXAMPLES:
  Record a failing test, then look at it as often as you like:
    whodunit record -- ./test --case 7
    whodunit show latest
    whodunit replay latest
  Keep the recording elsewhere, and no more than 500 MB of it:
    whodunit record -o /tmp/rec --max-size 500M -- ./server
  Rather lose the run than a part of its recording:
    whodunit record --on-full stop -- ./nightly-test
  Let the program use all that this machine's processor has, such as AVX-512:
    whodunit record --cpu native -- ./numbers";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnFull {
    /// It goes on without being recorded
    GoOn,
    /// It is ended, with status 3
    Stop,
}

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[group(id = "recorded")]
pub struct Arguments {
    /// The folder for the recording, which must not exist [default: a new one where `whodunit ls` looks]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Stop recording when it takes this much room, e.g. 500M or 2G; the program goes on
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Stop recording after this many seconds; the program goes on
    #[arg(long, value_name = "SECONDS")]
    max_time: Option<u64>,
    /// What becomes of the program when the disk is full or --max-size is reached
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnFull::GoOn)]
    on_full: OnFull,
    /// The processor that the program sees: recordings replay on every machine of that level
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Cpu::V3)]
    cpu: Cpu,
    #[command(flatten)]
    run: run::Arguments,
}

pub fn run(arguments: Arguments) -> ExitCode {
    let limits = Limits {
        bytes: arguments.max_size,
        time: arguments.max_time.map(Duration::from_secs),
        status_when_full: (arguments.on_full == OnFull::Stop).then_some(status::MACHINE),
    };
    let cpu = arguments.cpu;
    // The program may go elsewhere, and its children's logs may not.
    let output = arguments.output.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
    run::start(arguments.run, |program| {
        let NewRecording { folder, first_log, .. } = create(program, output.as_deref())?;
        Ok(Some(Recording {
            folder,
            log: first_log,
            parent: None,
            streams: vec![(1, 1), (2, 2)],
            limits,
            cpu,
            branches: None,
        }))
    })
}

/// What a list of recordings tells of a run of the program.
pub fn manifest(program: &Program) -> Manifest {
    let text = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
    Manifest {
        tool: concat!("whodunit ", env!("CARGO_PKG_VERSION")).to_owned(),
        program: program.path.to_string_lossy().into_owned(),
        arguments: program.arguments.iter().map(text).collect(),
        directory: std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned(),
        started: SystemTime::now(),
    }
}

fn create(program: &Program, output: Option<&Path>) -> Result<NewRecording, ExitCode> {
    let manifest = manifest(program);
    let made = match output {
        // A folder of the user's own needs no store, which only loses the alias `latest`.
        Some(folder) => {
            let store = Store::from_environment().unwrap_or_else(|_| Store::at("/dev/null"));
            store.create_at(folder, &manifest, TAIL_SIZE)
        }
        None => Store::from_environment().and_then(|store| store.create(&manifest, TAIL_SIZE)),
    };
    made.map_err(|error| {
        voice::say(&format!("whodunit: {error}\n"));
        ExitCode::from(status::MACHINE)
    })
}

/// A size with an optional unit.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return Err("give a number with K, M or G, e.g. 500M".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "give a number with K, M or G, e.g. 500M".to_owned())?;
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(|| "that is no size for a recording".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("500M"), Ok(500 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        assert_eq!(size("4096"), Ok(4096));
        for wrong in ["", "M", "-1", "0", "5X", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}

//! Owns running one command in one mode and what it cost.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::debian::SEARCH_PATH;

/// How a command is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Native,
    Whodunit,
    /// Every memory access is traced and thrown away.
    Tracing,
    /// The run is recorded.
    Record,
    /// The recording just made is replayed, all processes, with registers compared.
    Replay,
    /// The reference: translation by a mature tool that observes nothing.
    Valgrind,
}

impl Mode {
    pub fn title(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Whodunit => "whodunit",
            Self::Tracing => "tracing",
            Self::Record => "record",
            Self::Replay => "verify",
            Self::Valgrind => "valgrind",
        }
    }

    fn prefix(self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let whodunit = whodunit().display().to_string();
        match self {
            Self::Native => Vec::new(),
            Self::Whodunit => words(&[&whodunit, "run", "--"]),
            Self::Tracing => words(&[&whodunit, "run", "--trace-discard", "--"]),
            Self::Record => words(&[&whodunit, "record", "-o", RECORDING, "--"]),
            Self::Replay => words(&[&whodunit, "verify", RECORDING]),
            Self::Valgrind => words(&["valgrind", "-q", "--tool=none", "--trace-children=yes"]),
        }
    }
}

/// Where recordings go, beside the inputs.
const RECORDING: &str = "./recording";

fn whodunit() -> PathBuf {
    std::env::var_os("WHODUNIT_BIN").map_or_else(|| env!("CARGO_BIN_EXE_whodunit").into(), PathBuf::from)
}

/// A command, run in the folder of the generated inputs. If it writes a file, the file is called `product`.
pub struct Task {
    pub words: Vec<String>,
    pub input: Option<PathBuf>,
}

/// What a run cost and what it wrote.
pub struct Run {
    /// User and system time of all processes of the run.
    pub cpu: Duration,
    pub wall: Duration,
    /// Standard output, followed by the product.
    pub output: Vec<u8>,
    /// The size of the recording, if one was made.
    pub recorded: Option<u64>,
}

/// Runs the task once. Nothing else may be started meanwhile: the cost is what waited-for children add up to.
pub fn run(task: &Task, mode: Mode, folder: &Path) -> Result<Run, String> {
    let mut words = mode.prefix();
    if mode != Mode::Replay {
        words.extend(task.words.iter().cloned());
    }
    if mode == Mode::Record {
        let _ = fs::remove_dir_all(folder.join(RECORDING));
    }
    let (output, product) = (folder.join("output"), folder.join("product"));
    remove(&product)?;
    let before = children_cpu();
    let start = Instant::now();
    let status = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", SEARCH_PATH), ("LC_ALL", "C.UTF-8"), ("PYTHONHASHSEED", "1")])
        .stdin(task.input.as_ref().map_or_else(Stdio::null, |path| open(path).into()))
        .stdout(File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?)
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", words[0]))?;
    let (wall, cpu) = (start.elapsed(), children_cpu() - before);
    if !status.success() {
        return Err(status.to_string());
    }
    let mut output = fs::read(&output).map_err(|error| error.to_string())?;
    if product.exists() {
        output.extend(fs::read(&product).map_err(|error| error.to_string())?);
    }
    let recorded = (mode == Mode::Record).then(|| size_of(&folder.join(RECORDING)));
    Ok(Run { cpu, wall, output, recorded })
}

/// Bytes of the files in a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    }
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn children_cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts the time of children");
    duration(usage.user_time()) + duration(usage.system_time())
}

fn duration(time: TimeVal) -> Duration {
    let micros = u64::try_from(time.tv_usec()).expect("times are not negative");
    Duration::from_secs(u64::try_from(time.tv_sec()).expect("times are not negative")) + Duration::from_micros(micros)
}

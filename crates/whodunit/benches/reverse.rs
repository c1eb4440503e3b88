//! How long one waits for a way back: `cargo bench --bench reverse [-- FILTER…]` records programs that run for about ten
//! seconds, lets gdb run each to its end and go back from there, and prints seconds of wall time.

#[path = "speed/corpus.rs"]
#[allow(dead_code, reason = "only a part of what the other benchmark needs")]
mod corpus;
#[path = "../tests/programs/debian.rs"]
mod debian;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;

/// What one may wait for a way back.
const BAR: Duration = Duration::from_secs(2);

const MEGABYTE: usize = 1 << 20;

/// Name, the file on standard input (if any), command. Each takes about ten seconds to record.
const COMMANDS: &[(&str, Option<&str>, &str)] = &[
    ("bzip2", Some("text"), "bzip2 -9 -c"),
    ("xz", Some("text"), "xz -1 -T1 -c"),
    ("python3", None, "/usr/bin/python3 longer.py"),
    ("sqlite3", Some("longer.sql"), "sqlite3 :memory:"),
];

/// What is asked, in this order, each from the end of the recording: the title of its column, what is set up for it, and
/// the command that is measured. `environ` is written once, right at the start.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("step back", "", "reverse-stepi"),
    ("to the last write", "break write", "reverse-continue"),
    ("to the start", "break __libc_start_main", "reverse-continue"),
    ("to a write at the start", "watch *(long *) &environ", "reverse-continue"),
];

#[derive(Parser)]
struct Arguments {
    /// Only programs whose name contains one of these.
    filters: Vec<String>,
    /// Passed by `cargo bench`; without it (as under `cargo test --all-targets`) nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("measures only under `cargo bench --bench reverse`");
        return;
    }
    debian::need(&["bzip2", "gdb", "python3", "sqlite3", "xz"]);
    let place = Place::prepare();
    let titles: Vec<&str> = QUESTIONS.iter().map(|(title, ..)| *title).collect();
    println!("| program | recorded in | {} |", titles.join(" | "));
    println!("|---|---|{}", "---|".repeat(QUESTIONS.len()));
    let wanted = |name: &str| {
        arguments.filters.is_empty() || arguments.filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let mut slowest = Duration::ZERO;
    for (name, input, command) in COMMANDS.iter().filter(|(name, ..)| wanted(name)) {
        let recorded = place.record(input.map(|input| place.folder.join(input)).as_deref(), command);
        let times = place.ways_back();
        slowest = times.iter().copied().chain([slowest]).max().unwrap_or(slowest);
        let cells: Vec<String> = times.iter().map(|time| format!("{:.2}", time.as_secs_f64())).collect();
        println!("| `{name}` | {:.1} s | {} |", recorded.as_secs_f64(), cells.join(" | "));
    }
    let verdict = if slowest <= BAR { "within" } else { "beyond" };
    println!(
        "the slowest way back took {:.2} s, {verdict} the {} s that it may take",
        slowest.as_secs_f64(),
        BAR.as_secs()
    );
}

/// A folder with the inputs and the recording, removed when dropped.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn prepare() -> Place {
        let folder = std::env::temp_dir().join(format!("whodunit-reverse-{}", std::process::id()));
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs");
        let source =
            |name: &str| fs::read_to_string(programs.join(name)).expect("the programs are part of the sources");
        let place = Place { folder };
        place.write("text", &corpus::text(100 * MEGABYTE)[..80 * MEGABYTE]);
        place.write("longer.py", &source("loop.py").replace("90000", "250000"));
        // The same once more, from the first line on.
        place.write(
            "longer.sql",
            &[source("joins.sql"), "DROP TABLE person; DROP TABLE visit;\n".to_owned(), source("joins.sql")].concat(),
        );
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    fn whodunit(&self) -> Command {
        let binary = std::env::var_os("WHODUNIT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_whodunit").into());
        let mut command = Command::new(binary);
        command.current_dir(&self.folder);
        command
    }

    /// Records a command; tells how long that took.
    fn record(&self, input: Option<&Path>, words: &str) -> Duration {
        let _ = fs::remove_dir_all(self.folder.join("recording"));
        let input = input.map_or(Stdio::null(), |path| fs::File::open(path).expect("the input was written").into());
        let mut command = self.whodunit();
        command.args(["record", "-o", "recording", "--"]).args(words.split_whitespace());
        let begun = Instant::now();
        let status = command.stdin(input).stdout(Stdio::null()).status().expect("whodunit can be run");
        assert!(status.success(), "failed: {words}");
        begun.elapsed()
    }

    /// The time that each question takes, in a session of its own.
    fn ways_back(&self) -> Vec<Duration> {
        QUESTIONS.iter().map(|(_, setup, question)| self.way_back(setup, question)).collect()
    }

    fn way_back(&self, setup: &str, question: &str) -> Duration {
        // The end is shown as a stop; what is set up only now does not stop the way there.
        self.write("script", &format!("continue\n{setup}\nmaint set per-command time on\n{question}\n"));
        let mut server = self.whodunit();
        server.args(["replay", "--gdb", "--quiet", "recording"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut server = server.spawn().expect("whodunit can be run");
        let output = self.gdb(&address(&mut server)).output().expect("gdb can be run");
        let _ = server.kill();
        let _ = server.wait();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        wall_time(&said).unwrap_or_else(|| panic!("gdb told no time:\n{said}"))
    }

    fn gdb(&self, address: &str) -> Command {
        let mut command = Command::new("gdb");
        command.args(["-nx", "-batch", "-ex", "set pagination off", "-ex", "set debuginfod enabled off"]);
        command.args(["-ex", "set can-use-hw-watchpoints 4", "-ex", "set sysroot /", "-ex"]);
        command.arg(format!("target remote {address}")).args(["-x", "script"]);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// Where the server waits for gdb.
fn address(server: &mut Child) -> String {
    let said = BufReader::new(server.stderr.take().expect("it is a pipe"));
    let mut lines = said.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("target remote")).expect("the server tells where it waits");
    let (_, behind) = line.split_once("target remote ").expect("it was found by these words");
    behind.split('\'').next().unwrap_or(behind).to_owned()
}

/// `Command execution time: 0.010000 (cpu), 1.234567 (wall)`, of the last command.
fn wall_time(said: &str) -> Option<Duration> {
    let line = said.lines().rev().find(|line| line.contains("Command execution time:"))?;
    let seconds = line.split_once("(cpu), ")?.1.split_once(" (wall)")?.0;
    Some(Duration::from_secs_f64(seconds.trim().parse().ok()?))
}

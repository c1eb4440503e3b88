//! Owns the list of workloads and the preparation of their inputs: each takes one to three seconds natively.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::corpus;
use crate::measure::Task;

/// Commands of packages that the workloads use.
pub const NEEDS: &[&str] =
    &["bzip2", "g++", "gawk", "gcc", "gzip", "pbzip2", "perl", "python3", "sqlite3", "valgrind", "xz", "zstd"];

pub struct Workload {
    pub name: &'static str,
    pub task: Task,
}

const MEGABYTE: usize = 1 << 20;

/// Name, the file that the command reads on standard input (if any), command.
const COMMANDS: &[(&str, Option<&str>, &str)] = &[
    ("gzip -6", Some("text-30"), "gzip -6 -c"),
    ("bzip2", Some("text-20"), "bzip2 -9 -c"),
    ("xz -1", Some("text-20"), "xz -1 -T1 -c"),
    ("pbzip2 -p2", None, "pbzip2 -p2 -c text-20"),
    ("zstd -9", Some("text-60"), "zstd -q -9 -T1 -c"),
    ("python3 loop", None, "/usr/bin/python3 loop.py"),
    ("perl", None, "perl words.pl"),
    ("gawk", Some("text-20"), "gawk -f fields.awk"),
    ("sqlite3", Some("joins.sql"), "sqlite3 :memory:"),
    ("gcc -O2", None, "gcc -O2 -c generated.c -o product"),
    ("mutexes", None, "./mutex"),
    ("matrix", None, "./matrix"),
    ("system calls", None, "./syscalls"),
    ("virtual calls", None, "./virtual"),
];

/// A folder with all inputs, removed when dropped.
pub struct Inputs {
    pub folder: PathBuf,
}

impl Inputs {
    pub fn prepare() -> Self {
        let folder = std::env::temp_dir().join(format!("whodunit-speed-{}", std::process::id()));
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let inputs = Self { folder };
        inputs.copy_programs();
        inputs.compile();
        inputs.write("generated.c", &corpus::c_source(60));
        let text = corpus::text(60 * MEGABYTE);
        inputs.write("text-60", &text);
        inputs.write("text-30", &text[..30 * MEGABYTE]);
        inputs.write("text-20", &text[..20 * MEGABYTE]);
        inputs
    }

    pub fn workloads(&self) -> Vec<Workload> {
        let workload = |&(name, input, command): &(&'static str, Option<&str>, &str)| Workload {
            name,
            task: Task { words: words(command), input: input.map(|input| self.folder.join(input)) },
        };
        COMMANDS.iter().map(workload).collect()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn copy_programs(&self) {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs");
        for entry in fs::read_dir(&programs).expect("the programs are part of the sources") {
            let entry = entry.expect("the folder can be listed");
            fs::copy(entry.path(), self.folder.join(entry.file_name())).expect("a source can be copied");
        }
    }

    fn compile(&self) {
        for command in [
            "gcc -O2 -o getppid getppid.c",
            "gcc -O2 -o syscalls syscalls.c",
            "gcc -O2 -pthread -o mutex mutex.c",
            "gcc -O2 -o matrix matrix.c",
            "g++ -O2 -o virtual virtual.cc",
        ] {
            let words = words(command);
            let status = Command::new(&words[0]).args(&words[1..]).current_dir(&self.folder).status();
            assert!(status.is_ok_and(|status| status.success()), "failed: {command}");
        }
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

pub fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

//! Owns the programs: where their sources are, and the folder in which they are built and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the table.
pub struct Program {
    pub name: &'static str,
    /// In `programs`, without its ending.
    source: &'static str,
    options: &'static [&'static str],
}

const fn plain(name: &'static str) -> Program {
    Program { name, source: name, options: &[] }
}

/// What a run is learnt from before most of it goes by is the same for a long run: so one of them is long.
pub const PROGRAMS: &[Program] = &[
    plain("compress"),
    Program { name: "compress-long", source: "compress", options: &["-DBLOCKS=512"] },
    plain("fft"),
    plain("radix"),
    plain("lu"),
    plain("accounts"),
    plain("cache"),
];

/// A folder with all programs, removed when dropped.
pub struct Workplace {
    pub folder: PathBuf,
}

impl Workplace {
    pub fn prepare() -> Self {
        let folder = std::env::temp_dir().join(format!("whodunit-races-{}", std::process::id()));
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let workplace = Self { folder };
        for program in PROGRAMS {
            workplace.compile(program, program.name, &[]);
            workplace.compile(program, &format!("{}.tsan", program.name), &["-fsanitize=thread"]);
        }
        workplace
    }

    fn compile(&self, program: &Program, output: &str, options: &[&str]) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/races/programs");
        let status = Command::new("gcc")
            .args(["-g", "-O2", "-pthread", "-o", output])
            .args(program.options)
            .args(options)
            .arg(sources.join(format!("{}.c", program.source)))
            .arg("-lm")
            .current_dir(&self.folder)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{} cannot be compiled", program.name);
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

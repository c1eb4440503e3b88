//! Owns the programs: where their sources are, and the folder in which they are built and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources in `programs`, without their endings.
pub const PROGRAMS: &[&str] = &["compress", "fft", "radix", "lu", "accounts", "cache"];

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
            workplace.compile(program, program, &[]);
            workplace.compile(program, &format!("{program}.tsan"), &["-fsanitize=thread"]);
        }
        workplace
    }

    fn compile(&self, program: &str, output: &str, options: &[&str]) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/races/programs");
        let status = Command::new("gcc")
            .args(["-g", "-O2", "-pthread", "-o", output])
            .args(options)
            .arg(sources.join(format!("{program}.c")))
            .arg("-lm")
            .current_dir(&self.folder)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{program} cannot be compiled");
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

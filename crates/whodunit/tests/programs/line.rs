//! Owns what one line of the suite is, and the shell script that both of its runs execute.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::debian::SEARCH_PATH;

/// Long enough for every line under a slow engine on a busy machine; only a hang reaches it.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// Lines that use the same commands, starting files and preparation.
pub struct Family {
    /// Also the folder under `fixtures/` that is copied into the working directory, if there is one.
    pub name: &'static str,
    /// Commands that have to be installed.
    pub needs: &'static [&'static str],
    /// Shell commands that run natively before every line.
    pub setup: &'static str,
}

/// One command line, compared between its two runs.
pub struct Line {
    body: String,
    setup: &'static str,
    /// The wait status of the native run: a line that fails for a reason of its own compares nothing.
    pub ending: ExitStatus,
    /// Paths (files or folders) that rightly differ between two native runs.
    pub left_out: &'static [&'static str],
    pub limit: Duration,
}

/// A command that runs under whodunit as a whole; redirections are the shell's.
pub fn guest(command: &str) -> Line {
    line(format!("exec $run {command}"))
}

/// A script that runs natively and puts `$run` before the commands that whodunit is to run.
pub fn driver(script: &str) -> Line {
    line(script.to_owned())
}

fn line(body: String) -> Line {
    Line { body, setup: "", ending: ExitStatus::from_raw(0), left_out: &[], limit: DEFAULT_LIMIT }
}

impl Line {
    /// Runs `setup` natively first, after the family's own.
    pub fn after(self, setup: &'static str) -> Self {
        Self { setup, ..self }
    }

    /// The command exits with `code` and not with 0.
    pub fn exits(self, code: u8) -> Self {
        Self { ending: ExitStatus::from_raw(i32::from(code) << 8), ..self }
    }

    /// The command is killed by a signal. Whether the machine writes core dumps does not matter.
    pub fn dies_by(self, signal: Signal) -> Self {
        Self { ending: ExitStatus::from_raw(signal as i32), ..self }
    }

    /// Leaves `paths` out of the comparison of files.
    pub fn leaving_out(self, paths: &'static [&'static str]) -> Self {
        Self { left_out: paths, ..self }
    }

    /// What to call the line in a report.
    pub fn title(&self) -> &str {
        &self.body
    }

    /// The script of both runs. It starts from an empty `work` folder in `base`, so that running it by hand
    /// repeats what the suite did. Temporary files have random names and go where nothing is compared.
    pub fn script(&self, family: &Family, fixtures: &Path, base: &Path) -> String {
        let base = base.display();
        let copy = match fixtures.is_dir() {
            true => format!("cp -R '{}/.' . || exit 99", fixtures.display()),
            false => String::new(),
        };
        format!(
            "# Run by hand: env -i RUN='whodunit run --' sh {base}/line.sh\n\
             export PATH={SEARCH_PATH} LC_ALL=C.UTF-8 TZ=UTC TERM=dumb\n\
             export HOME={base}/work TMPDIR={base}/tmp RUSTC='{rustc}'\n\
             run=$RUN; unset RUN\n\
             umask 022; ulimit -c 0\n\
             rm -rf {base}/work {base}/tmp && mkdir {base}/work {base}/tmp && cd {base}/work || exit 99\n\
             {copy}\n\
             (set -e; :\n{family_setup}\n{setup}\n) >{base}/setup.log 2>&1 </dev/null || exit 99\n\
             {body}\n",
            rustc = rustc().display(),
            family_setup = family.setup,
            setup = self.setup,
            body = self.body,
        )
    }
}

/// The compiler beside the `cargo` that built this suite: the compiler itself, not a launcher for it.
fn rustc() -> std::path::PathBuf {
    Path::new(env!("CARGO")).with_file_name("rustc")
}

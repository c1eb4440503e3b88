//! Owns the programs: where their sources are, and the folder in which they are built and run.

use crate::corpus;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the table.
pub struct Program {
    pub name: &'static str,
    origin: Origin,
}

enum Origin {
    /// From a file in `programs`, without its ending.
    Compiled { source: &'static str, options: &'static [&'static str] },
    /// Debian's, with these words.
    Installed(&'static [&'static str]),
}

const fn plain(name: &'static str) -> Program {
    compiled(name, name, &[])
}

const fn compiled(name: &'static str, source: &'static str, options: &'static [&'static str]) -> Program {
    Program { name, origin: Origin::Compiled { source, options } }
}

const fn installed(name: &'static str, words: &'static [&'static str]) -> Program {
    Program { name, origin: Origin::Installed(words) }
}

impl Program {
    /// How it is run.
    pub fn command(&self) -> Vec<String> {
        match self.origin {
            Origin::Compiled { .. } => vec![format!("./{}", self.name)],
            Origin::Installed(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    /// Whether there is a build with ThreadSanitizer.
    pub fn has_source(&self) -> bool {
        matches!(self.origin, Origin::Compiled { .. })
    }
}

/// What Debian's programs compress: some 12, 48 and 192 MB.
const TEXTS: [(&str, usize); 3] = [("text-12", 12 << 20), ("text-48", 48 << 20), ("text-192", 192 << 20)];
/// The commands that have to be there.
pub const COMPRESSORS: [&str; 4] = ["pbzip2", "pigz", "xz", "zstd"];

/// What a run is learnt from before most of it goes by is the same for a long run: so two of them are there for a short and a long time.
pub const PROGRAMS: &[Program] = &[
    plain("compress"),
    compiled("compress-long", "compress", &["-DBLOCKS=512"]),
    plain("fft"),
    plain("radix"),
    plain("lu"),
    plain("accounts"),
    plain("cache"),
    installed("pbzip2", &["pbzip2", "-p2", "-k", "-c", "text-12"]),
    installed("pigz", &["pigz", "-p", "2", "-k", "-c", "text-48"]),
    installed("xz", &["xz", "-T2", "-k", "-c", "text-12"]),
    installed("zstd", &["zstd", "-T2", "-q", "-k", "-c", "text-48"]),
    installed("zstd-long", &["zstd", "-T2", "-q", "-k", "-c", "text-192"]),
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
        for Program { name, origin } in PROGRAMS {
            let Origin::Compiled { source, options } = origin else { continue };
            workplace.compile(source, options, name);
            workplace.compile(source, &[options, ["-fsanitize=thread"].as_slice()].concat(), &format!("{name}.tsan"));
        }
        for (name, length) in TEXTS {
            let file = workplace.folder.join(name);
            fs::write(&file, corpus::text(length)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        workplace
    }

    fn compile(&self, source: &str, options: &[&str], output: &str) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/races/programs");
        let status = Command::new("gcc")
            .args(["-g", "-O2", "-pthread", "-o", output])
            .args(options)
            .arg(sources.join(format!("{source}.c")))
            .arg("-lm")
            .current_dir(&self.folder)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{output} cannot be compiled");
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

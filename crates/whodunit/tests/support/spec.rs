//! What a guest program's header says.
//!
//! A header line starts with `//@` (`#@` in a shell script). The words that may follow:
//!
//! | line | meaning |
//! |---|---|
//! | `cc: FLAGS` | flags for the compiler; `{lib}` stands for the path of the program's library |
//! | `lib: FLAGS` | compile the same file as a shared library too; the program finds its path in `LIB_PATH` |
//! | `post: SHELL` | run after building, with the program's path in `$OUT` |
//! | `args: A B` | arguments, split at blanks |
//! | `env: A=B` | one more environment variable |
//! | `stdin: TEXT` | standard input, with a newline added; without it, standard input is empty |
//! | `run: SHELL` | run this, with the command in `"$@"`, in place of the bare command |
//! | `time: N` | the limit in seconds (20 otherwise) |
//! | `threaded` | every outside input is fixed, so the schedule must be the same in every run |
//! | `crashes` | the program or a child of it dies by a signal; the engine is told not to report it |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_LIMIT: Duration = Duration::from_secs(90);
const EXTENSIONS: [&str; 5] = ["c", "cc", "rs", "S", "sh"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub group: String,
    pub name: String,
    pub source: PathBuf,
    /// Where the program's own headers are.
    pub include: PathBuf,
    pub compiler_flags: Vec<String>,
    pub library_flags: Option<Vec<String>>,
    pub post: Option<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub stdin: Option<String>,
    /// Files that the run finds in its folder, and what is in them.
    pub files: BTreeMap<String, String>,
    pub run: Option<String>,
    pub limit: Duration,
    pub threaded: bool,
    pub crashes: bool,
}

impl Spec {
    pub fn read(source: &Path) -> Result<Spec, String> {
        let text =
            std::fs::read_to_string(source).map_err(|error| format!("cannot read {}: {error}", source.display()))?;
        let mut spec = Spec::named_after(source);
        for (line_idx, line) in text.lines().enumerate() {
            let option = line.strip_prefix("//@").or_else(|| line.strip_prefix("#@"));
            if let Some(option) = option {
                spec.apply(option.trim())
                    .map_err(|problem| format!("{}:{}: {problem}", source.display(), line_idx + 1))?;
            }
        }
        Ok(spec)
    }

    fn named_after(source: &Path) -> Spec {
        let last =
            |path: Option<&std::ffi::OsStr>| path.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Spec {
            group: last(source.parent().and_then(Path::file_name)),
            name: last(source.file_stem()),
            source: source.to_path_buf(),
            include: super::programs_folder().join("include"),
            compiler_flags: Vec::new(),
            library_flags: None,
            post: None,
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            files: BTreeMap::new(),
            run: None,
            limit: DEFAULT_LIMIT,
            threaded: false,
            crashes: false,
        }
    }

    fn apply(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once(':').unwrap_or((option, ""));
        let value = value.trim();
        match key {
            "cc" => self.compiler_flags.extend(words(value)),
            "lib" => self.library_flags = Some(words(value)),
            "post" => self.post = Some(value.to_owned()),
            "args" => self.args.extend(words(value)),
            "env" => self.env.push(variable(value)?),
            "stdin" => self.stdin = Some(format!("{value}\n")),
            "run" => self.run = Some(value.to_owned()),
            "time" => self.limit = seconds(value)?,
            "threaded" => self.threaded = true,
            "crashes" => self.crashes = true,
            _ => return Err(format!("unknown option `{option}`")),
        }
        Ok(())
    }

    pub fn extension(&self) -> &str {
        self.source.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
    }

    /// `group::name`, as the tests are called.
    pub fn title(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

fn variable(value: &str) -> Result<(String, String), String> {
    let (name, value) = value.split_once('=').ok_or_else(|| format!("`{value}` is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn seconds(value: &str) -> Result<Duration, String> {
    let count: u64 = value.parse().map_err(|_| format!("`{value}` is not a number of seconds"))?;
    Ok(Duration::from_secs(count))
}

/// The program called `name` in `group`, whatever language it is written in.
pub fn find(group: &str, name: &str) -> Result<Spec, String> {
    let folder = super::programs_folder().join(group);
    let source = EXTENSIONS
        .iter()
        .map(|extension| folder.join(format!("{name}.{extension}")))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no program {name} in {}", folder.display()))?;
    Spec::read(&source)
}

/// Every program of every group, sorted by group and name.
pub fn all() -> Result<Vec<Spec>, String> {
    let mut specs = Vec::new();
    for group in entries(&super::programs_folder())? {
        if group.is_dir() && group.file_name().is_some_and(|name| name != "include") {
            for source in entries(&group)? {
                specs.push(Spec::read(&source)?);
            }
        }
    }
    Ok(specs)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listing = std::fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

//! The folder where recordings are kept: naming, finding, listing and removing them.
//!
//! A recording of `prog` is called `prog-1`, `prog-2` and so on. `latest` is a symbolic link to the one begun last.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::error::OpenError;
use crate::format::{FILES, LogId, MANIFEST};
use crate::manifest::Manifest;
use crate::recording::{Content, NewLog, Recording, new_recording_id};
use crate::summary::{Summary, size_of};

/// The alias of the recording begun last.
pub const LATEST: &str = "latest";

#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A recording just begun: a folder that no other recorder has.
pub struct NewRecording {
    pub folder: PathBuf,
    /// For the logs of child processes.
    pub id: u64,
    pub first_log: NewLog,
}

impl NewRecording {
    /// Begins a recording in an empty folder, of the same program and with copies of the same files as another.
    pub fn beside(other: &Path, folder: &Path, tail_size: usize) -> io::Result<NewRecording> {
        fs::create_dir_all(folder)?;
        let id = new_recording_id(folder);
        let first_log = NewLog::create_numbered(folder, LogId { recording: id, log: 1 }, tail_size)?;
        if other.join(FILES).exists() {
            copy_folder(&other.join(FILES), &folder.join(FILES))?;
        }
        // A recording is as good without one.
        let _ = fs::copy(other.join(MANIFEST), folder.join(MANIFEST));
        Ok(NewRecording { folder: folder.to_owned(), id, first_log })
    }
}

#[derive(Debug)]
pub enum StoreError {
    /// None of the variables is set that could tell where recordings are.
    NoHome,
    /// A folder or file could not be made, read or removed.
    Io {
        doing: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// The folder asked for has something in it.
    Occupied {
        folder: PathBuf,
        is_recording: bool,
    },
    /// No recording of that name.
    Unknown {
        name: String,
        root: PathBuf,
    },
    /// Its recorder is still at work.
    Live {
        folder: PathBuf,
    },
    /// There is more in the folder than a recording.
    Foreign {
        entry: PathBuf,
    },
    Open(OpenError),
}

impl Store {
    pub fn at(root: impl Into<PathBuf>) -> Store {
        Store { root: root.into() }
    }

    /// `WHODUNIT_DIR`, or the user's folder for data.
    pub fn from_environment() -> Result<Store, StoreError> {
        root_of(|name| env::var_os(name)).map(Store::at).ok_or(StoreError::NoHome)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Begins a recording of `program` in a folder of the next free number, and makes it the latest.
    pub fn create(&self, manifest: &Manifest, tail_size: usize) -> Result<NewRecording, StoreError> {
        let folder = self.new_folder(&manifest.program)?;
        let begun = self.begin(folder.clone(), manifest, tail_size);
        if begun.is_err() {
            let _ = fs::remove_dir_all(folder);
        }
        begun
    }

    /// Takes a finished recording of `program` in from another place, which may be another file system, and makes it the
    /// latest.
    pub fn adopt(&self, recording: &Path, program: &str) -> Result<PathBuf, StoreError> {
        let folder = self.new_folder(program)?;
        let moved = fs::rename(recording, &folder).or_else(|_| copy_folder(recording, &folder));
        if let Err(error) = moved {
            let _ = fs::remove_dir_all(&folder);
            return Err(StoreError::io("write to", folder, error));
        }
        let _ = self.point_latest_to(&folder);
        Ok(folder)
    }

    /// A folder of the next free number, still empty.
    pub fn new_folder(&self, program: &str) -> Result<PathBuf, StoreError> {
        make_folders(&self.root)?;
        let name = name_of(OsStr::new(program));
        let mut number = self.newest_of(&name).map_or(1, |(newest, _)| newest.saturating_add(1));
        loop {
            let folder = self.root.join(format!("{name}-{number}"));
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(error) => return Err(StoreError::io("make", folder, error)),
            }
        }
    }

    /// Begins a recording in a folder that the user named: a new one, or an empty one. Makes it the latest.
    pub fn create_at(&self, folder: &Path, manifest: &Manifest, tail_size: usize) -> Result<NewRecording, StoreError> {
        make_folders(folder)?;
        let content = Content::of(folder).map_err(|error| StoreError::io("read", folder, error))?;
        if !content.is_empty {
            let is_recording = Recording::open(folder).is_ok();
            return Err(StoreError::Occupied { folder: folder.to_owned(), is_recording });
        }
        self.begin(folder.to_owned(), manifest, tail_size)
    }

    /// The first log decides between two recorders that found the same empty folder.
    fn begin(&self, folder: PathBuf, manifest: &Manifest, tail_size: usize) -> Result<NewRecording, StoreError> {
        let id = new_recording_id(&folder);
        let first_log = match NewLog::create_numbered(&folder, LogId { recording: id, log: 1 }, tail_size) {
            Ok(first_log) => first_log,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Occupied { folder, is_recording: true });
            }
            Err(error) => return Err(StoreError::io("write to", folder, error)),
        };
        manifest.write(&folder).map_err(|error| StoreError::io("write to", &folder, error))?;
        // An alias that cannot be made (a file system without links) is no reason not to record.
        let _ = self.point_latest_to(&folder);
        Ok(NewRecording { folder, id, first_log })
    }

    /// Replaces the alias at once: whoever resolves it sees the old or the new recording.
    pub fn point_latest_to(&self, folder: &Path) -> io::Result<()> {
        let target = match folder.parent() {
            Some(parent) if parent == self.root => PathBuf::from(folder.file_name().unwrap_or_default()),
            _ => fs::canonicalize(folder)?,
        };
        let temporary = self.root.join(format!(".{LATEST}.{}", process::id()));
        let _ = fs::remove_file(&temporary);
        fs::create_dir_all(&self.root)?;
        std::os::unix::fs::symlink(target, &temporary)?;
        fs::rename(temporary, self.root.join(LATEST))
    }

    /// The folder that a user means: a path if it has a slash; else `latest`, a recording's name, or a program's name (its
    /// newest recording), and only then a path.
    pub fn resolve(&self, argument: &OsStr) -> Result<PathBuf, StoreError> {
        let path = Path::new(argument);
        if argument.as_encoded_bytes().contains(&b'/') || [".", ".."].iter().any(|&dots| argument == dots) {
            return Ok(path.to_owned());
        }
        let name = argument.to_string_lossy();
        let unknown = || StoreError::Unknown { name: name.clone().into_owned(), root: self.root.clone() };
        if argument.is_empty() {
            return Err(unknown());
        }
        let direct = self.root.join(argument);
        if direct.is_dir() {
            return fs::canonicalize(&direct).map_err(|error| StoreError::io("read", direct, error));
        }
        if let Some((_, folder)) = self.newest_of(&name) {
            return Ok(folder);
        }
        if path.exists() { Ok(path.to_owned()) } else { Err(unknown()) }
    }

    pub fn open(&self, argument: &OsStr) -> Result<Recording, StoreError> {
        Recording::open(&self.resolve(argument)?).map_err(StoreError::Open)
    }

    /// All recordings of the store, the oldest first. What cannot be read is listed with the reason.
    pub fn list(&self) -> Result<Vec<Summary>, StoreError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("read", &self.root, error)),
        };
        let mut summaries: Vec<Summary> = entries
            .filter_map(|entry| entry.ok())
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| split_name(&entry.file_name()).is_some())
            .map(|entry| Summary::of(&entry.path()))
            .collect();
        summaries.sort_by(|a, b| (a.started, &a.folder).cmp(&(b.started, &b.folder)));
        Ok(summaries)
    }

    /// Removes a recording, and returns how many bytes it had. Refuses what is not a recording, what is more than one, and
    /// what is still being written.
    pub fn remove(&self, folder: &Path) -> Result<u64, StoreError> {
        let failed = |error| StoreError::io("remove", folder, error);
        let folder = fs::canonicalize(folder).map_err(|error| StoreError::Open(OpenError::io(folder, error)))?;
        let content = Content::of(&folder).map_err(|error| StoreError::Open(OpenError::io(&folder, error)))?;
        check_is_recording(&folder, &content)?;
        let size = size_of(&folder);
        fs::remove_dir_all(&folder).map_err(failed)?;
        self.mend_latest();
        Ok(size)
    }

    /// Once the latest recording is gone, the newest of the others takes its place.
    fn mend_latest(&self) {
        let alias = self.root.join(LATEST);
        if alias.exists() || fs::symlink_metadata(&alias).is_err() {
            return;
        }
        let newest = self.list().ok().and_then(|mut summaries| summaries.pop());
        let mended = newest.is_some_and(|summary| self.point_latest_to(&summary.folder).is_ok());
        if !mended {
            let _ = fs::remove_file(alias);
        }
    }

    /// The folder of the highest number among those of this name.
    fn newest_of(&self, name: &str) -> Option<(u32, PathBuf)> {
        let entries = fs::read_dir(&self.root).ok()?.filter_map(|entry| entry.ok());
        entries
            .filter_map(|entry| {
                let (entry_name, number) = split_name(&entry.file_name())?;
                (entry_name == name).then(|| (number, entry.path()))
            })
            .max()
    }
}

fn root_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("WHODUNIT_DIR")
        // Relative paths are to be ignored, says the specification of the variable.
        .or_else(|| set("XDG_DATA_HOME").filter(|path| path.is_absolute()).map(|path| path.join("whodunit")))
        .or_else(|| set("HOME").map(|path| path.join(".local/share/whodunit")))
}

/// The name that recordings of a program get: its file name, without what a shell would trip over.
fn name_of(program: &OsStr) -> String {
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = file.chars().take(64).map(plain).collect();
    match name.trim_start_matches(['-', '.']) {
        "" => "program".to_owned(),
        name => name.to_owned(),
    }
}

/// `prog-12` is of `prog`, number 12.
fn split_name(entry: &OsStr) -> Option<(String, u32)> {
    let (name, digits) = entry.to_str()?.rsplit_once('-')?;
    let number: u32 = digits.parse().ok()?;
    (!name.is_empty() && number.to_string() == digits).then(|| (name.to_owned(), number))
}

/// Copies files and folders, and nothing else: a recording has no others.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy_folder(&entry.path(), &target)?,
            _ => {
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}

fn make_folders(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|error| StoreError::io("make", path, error))
}

fn check_is_recording(folder: &Path, content: &Content) -> Result<(), StoreError> {
    use crate::error::Unopened::{DamagedHeader, Empty, Newer};
    match Recording::open(folder) {
        Ok(recording) if recording.is_live() => return Err(StoreError::Live { folder: folder.to_owned() }),
        // A recording all the same, if of no use.
        Err(OpenError { why: DamagedHeader | Empty | Newer(_), .. }) if !content.logs.is_empty() => {}
        Ok(_) => {}
        Err(error) => return Err(StoreError::Open(error)),
    }
    match &content.foreign {
        Some(entry) => Err(StoreError::Foreign { entry: entry.clone() }),
        None => Ok(()),
    }
}

impl StoreError {
    fn io(doing: &'static str, path: impl Into<PathBuf>, error: io::Error) -> StoreError {
        StoreError::Io { doing, path: path.into(), error }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NoHome => {
                write!(f, "no place for recordings: set WHODUNIT_DIR to a folder, or HOME")
            }
            StoreError::Io { doing, path, error } => write!(
                f,
                "cannot {doing} {}: {error}; check its permissions and space, or set WHODUNIT_DIR to another folder",
                path.display()
            ),
            StoreError::Occupied { folder, is_recording: true } => write!(
                f,
                "{} already holds a recording; name another folder, or remove it with `whodunit rm`",
                folder.display()
            ),
            StoreError::Occupied { folder, is_recording: false } => {
                write!(f, "{} is not empty; name a new or an empty folder", folder.display())
            }
            StoreError::Unknown { name, root } => {
                write!(f, "there is no recording `{name}` in {}; `whodunit ls` lists those there are", root.display())
            }
            StoreError::Live { folder } => {
                write!(f, "{} is still being recorded; end the program first", folder.display())
            }
            StoreError::Foreign { entry } => {
                write!(f, "{} is no part of a recording; move it elsewhere, then remove the recording", entry.display())
            }
            StoreError::Open(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Io { error, .. } => Some(error),
            StoreError::Open(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Option<PathBuf> {
        root_of(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn variables_tell_where_recordings_are() {
        let home = ("HOME", "/home/ada");
        assert_eq!(root(&[]), None);
        assert_eq!(root(&[home]), Some("/home/ada/.local/share/whodunit".into()));
        assert_eq!(root(&[home, ("XDG_DATA_HOME", "/data")]), Some("/data/whodunit".into()));
        assert_eq!(root(&[home, ("XDG_DATA_HOME", "data")]), root(&[home]));
        assert_eq!(root(&[home, ("XDG_DATA_HOME", "/data"), ("WHODUNIT_DIR", "here")]), Some("here".into()));
        assert_eq!(root(&[home, ("WHODUNIT_DIR", "")]), root(&[home]));
    }

    #[test]
    fn names_come_from_programs() {
        for (program, name) in [
            ("/usr/bin/ls", "ls"),
            ("a b*c", "a_b_c"),
            ("./x/../prog-2", "prog-2"),
            ("--help", "help"),
            ("..", "program"),
            ("", "program"),
            ("g++", "g++"),
        ] {
            assert_eq!(name_of(OsStr::new(program)), name, "{program}");
        }
    }

    #[test]
    fn names_are_split_at_the_number() {
        let split = |name: &str| split_name(OsStr::new(name));
        assert_eq!(split("prog-12"), Some(("prog".into(), 12)));
        assert_eq!(split("a-b-3"), Some(("a-b".into(), 3)));
        for other in ["prog", "prog-", "prog-01", "-1", "latest", "prog-x", "prog-99999999999"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}

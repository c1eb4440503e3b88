//! A recording as a folder: begun by a recorder, opened by readers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};

use crate::checksum::{Digest, Hasher};
use crate::error::{OpenError, Unopened};
use crate::format::{COMMONS, FILES, LogId, MANIFEST, log_name, tail_name};
use crate::index::{self, Index};
use crate::lock;
use crate::log::Log;
use crate::manifest::Manifest;

/// A recording that can be read.
#[derive(Clone, Debug)]
pub struct Recording {
    folder: PathBuf,
    logs: Vec<u32>,
    manifest: Option<Manifest>,
}

impl Recording {
    /// Opens the recording in `folder`. Its first log must have a good header; other logs are looked at when opened.
    pub fn open(folder: &Path) -> Result<Recording, OpenError> {
        let content = Content::of(folder).map_err(|error| OpenError::io(folder, error))?;
        if content.logs.first() != Some(&1) {
            let why = if content.is_empty { Unopened::Empty } else { Unopened::NotARecording };
            return Err(OpenError::new(folder, why));
        }
        Log::open(folder, 1)?;
        Ok(Recording { folder: folder.to_owned(), logs: content.logs, manifest: Manifest::read(folder) })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The numbers of the logs, in ascending order.
    pub fn logs(&self) -> &[u32] {
        &self.logs
    }

    /// None if it is missing or damaged, which harms nothing else.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    pub fn log(&self, number: u32) -> Result<Log, OpenError> {
        Log::open(&self.folder, number)
    }

    /// Whether a recorder is at work on any of the logs.
    pub fn is_live(&self) -> bool {
        self.logs.iter().any(|&number| self.is_log_live(number))
    }

    pub fn is_log_live(&self, number: u32) -> bool {
        File::open(self.folder.join(log_name(number))).is_ok_and(|file| lock::is_held(&file))
    }

    /// Which file each copy was, in a packed recording. Empty in others.
    pub fn index(&self) -> Index {
        index::read(&self.folder)
    }

    /// Where a copy of the file with this content is, in a packed recording.
    pub fn file_copy(&self, checksum: Digest) -> PathBuf {
        file_copy(&self.folder, checksum)
    }

    /// Whether it has copies of files.
    pub fn has_copies(&self) -> bool {
        fs::read_dir(self.folder.join(FILES)).is_ok_and(|mut copies| copies.next().is_some())
    }
}

/// See [`Recording::file_copy`].
pub fn file_copy(folder: &Path, checksum: Digest) -> PathBuf {
    folder.join(FILES).join(checksum.to_string())
}

/// Keeps a copy of a file where [`file_copy`] finds it. What is there already stays.
pub fn keep_copy(folder: &Path, checksum: Digest, mut file: &File) -> io::Result<()> {
    let copy = file_copy(folder, checksum);
    if copy.exists() {
        return Ok(());
    }
    refuse_beyond_limit(file.metadata()?.len())?;
    fs::create_dir_all(folder.join(FILES))?;
    // Others may keep the same file, and a copy that is not whole must not be taken for one.
    let temporary = copy.with_extension(std::process::id().to_string());
    file.rewind()?;
    let made = File::create(&temporary).and_then(|mut out| io::copy(&mut file, &mut out));
    let made = made.and_then(|_| fs::rename(&temporary, &copy));
    if made.is_err() {
        let _ = fs::remove_file(temporary);
    }
    made
}

/// What a folder holds.
pub(crate) struct Content {
    pub logs: Vec<u32>,
    pub is_empty: bool,
    /// The first entry that is no part of a recording.
    pub foreign: Option<PathBuf>,
}

impl Content {
    pub fn of(folder: &Path) -> io::Result<Content> {
        let mut content = Content { logs: Vec::new(), is_empty: true, foreign: None };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            content.is_empty = false;
            match Part::of(&entry.file_name().to_string_lossy()) {
                Some(Part::Log(number)) => content.logs.push(number),
                Some(Part::Tail | Part::Manifest | Part::Files | Part::Commons) => {}
                None => content.foreign = Some(entry.path()),
            }
        }
        content.logs.sort_unstable();
        Ok(content)
    }
}

enum Part {
    Log(u32),
    Tail,
    Manifest,
    Files,
    Commons,
}

impl Part {
    fn of(name: &str) -> Option<Part> {
        let number = |digits: &str| digits.parse().ok().filter(|number: &u32| number.to_string() == digits);
        if let Some(digits) = name.strip_suffix(".log") {
            return number(digits).map(Part::Log);
        }
        if let Some(digits) = name.strip_suffix(".tail") {
            return number(digits).map(|_| Part::Tail);
        }
        match name.strip_prefix('.').unwrap_or(name) {
            MANIFEST => Some(Part::Manifest),
            FILES => Some(Part::Files),
            COMMONS => Some(Part::Commons),
            _ => None,
        }
    }
}

/// The files of a log that is about to be written.
///
/// Made by the process that will fork, so that its [`Fork`](crate::event::Fork) event can tell the number; the child then
/// uses the files, and the parent closes them: the lock belongs to whoever has them open.
pub struct NewLog {
    pub id: LogId,
    /// Empty, locked, open for appending: for a [`FileSink`](crate::FileSink).
    pub log: File,
    /// All zeros and allocated on disk, so that stores to a mapping of it cannot fail: for a shared mapping.
    pub tail: File,
    pub tail_path: PathBuf,
}

impl NewLog {
    /// Creates the next log of the recording in `folder`. `recording` is the id that its other logs have.
    pub fn create(folder: &Path, recording: u64, tail_size: usize) -> io::Result<NewLog> {
        let mut number = Content::of(folder)?.logs.last().map_or(1, |&last| last.saturating_add(1));
        loop {
            match NewLog::create_numbered(folder, LogId { recording, log: number }, tail_size) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                result => return result,
            }
        }
    }

    /// Creates the log of this number, unless it exists.
    pub(crate) fn create_numbered(folder: &Path, id: LogId, tail_size: usize) -> io::Result<NewLog> {
        let path = folder.join(log_name(id.log));
        let log = OpenOptions::new().append(true).create_new(true).open(&path)?;
        let tail_path = folder.join(tail_name(id.log));
        let tail = lock::hold(&log).and_then(|()| create_tail(&tail_path, tail_size));
        match tail {
            Ok(tail) => Ok(NewLog { id, log, tail, tail_path }),
            Err(error) => {
                let _ = fs::remove_file(tail_path);
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }
}

/// The limit on the size of files (`ulimit -f`) comes with a signal, which is not for the recorder to die of.
fn refuse_beyond_limit(size: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if size > limit => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// Writes zeros: a hole would be filled at the first store to it, which kills the process if the disk is full then.
fn create_tail(path: &Path, size: usize) -> io::Result<File> {
    refuse_beyond_limit(size as u64)?;
    let mut tail = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 64 << 10];
    let mut left = size;
    while left > 0 {
        let piece = left.min(zeros.len());
        tail.write_all(&zeros[..piece])?;
        left -= piece;
    }
    Ok(tail)
}

/// Opens the file by which the processes of a recording take turns. Whichever comes first makes it, all zeros.
pub fn open_commons(folder: &Path, size: usize) -> io::Result<File> {
    let path = folder.join(COMMONS);
    if !path.exists() {
        let temporary = path.with_extension(std::process::id().to_string());
        // One that another process has made in the meantime is as good.
        let made = create_tail(&temporary, size).map(|_| fs::hard_link(&temporary, &path));
        let _ = fs::remove_file(temporary);
        let _ = made?;
    }
    OpenOptions::new().read(true).write(true).open(path)
}

/// A number that other recordings do not have.
pub fn new_recording_id(folder: &Path) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = Hasher::new();
    hasher.add(folder.as_os_str().as_encoded_bytes());
    hasher.add(&now.as_nanos().to_le_bytes());
    hasher.add(&std::process::id().to_le_bytes());
    hasher.digest().0
}

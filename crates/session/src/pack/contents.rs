//! What goes into a pack: the recording, the files that its replay maps, and what belongs to those.

use super::write::open_regular;
use super::{Name, PackError};
use crate::build_id;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trace::format::{FILES, MANIFEST, log_name, tail_name};
use trace::index::{Entry, Index, Kind};
use trace::{Digest, Ending, Event, Recording};

#[derive(Default)]
pub struct Contents {
    /// Where the bytes of each member are.
    pub(super) members: BTreeMap<Name, PathBuf>,
    /// What the copies among them were.
    pub(super) index: Index,
    /// Of programs and libraries, as they were recorded.
    build_ids: BTreeMap<Name, Vec<u8>>,
    /// What the machine was that the recording was made on.
    pub processor: String,
    pub features: Vec<String>,
    /// Process images that cannot be read to their end, with the reason.
    pub unreadable: Vec<(u32, String)>,
    /// The recording came in a pack. Who made that is not known, and so neither is what its programs name as their
    /// sources: files of this machine are not added to it.
    pub was_packed: bool,
}

impl Contents {
    /// Looks through all events for files that a replay takes from where they lie.
    pub fn of(recording: &Recording) -> Result<Contents, PackError> {
        let folder = recording.folder();
        if recording.is_live() {
            return Err(PackError::Live { folder: folder.to_owned() });
        }
        let mut contents = Contents { was_packed: folder.join(FILES).is_dir(), ..Contents::default() };
        contents.add_if_there(Name::Manifest, folder.join(MANIFEST));
        for &number in recording.logs() {
            contents.members.insert(Name::Log(number), folder.join(log_name(number)));
            contents.add_if_there(Name::Tail(number), folder.join(tail_name(number)));
            contents.read_log(recording, number);
        }
        for entry in recording.index().into_iter().filter(|entry| entry.kind != Kind::Mapped) {
            let copy = recording.file_copy(entry.checksum);
            if copy.is_file() {
                contents.members.entry(Name::Copy(entry.checksum)).or_insert(copy);
                contents.index.insert(entry);
            }
        }
        Ok(contents)
    }

    /// Programs and libraries: what each was called, and where its bytes are.
    pub fn mapped(&self) -> Vec<(PathBuf, PathBuf)> {
        let mapped = self.index.iter().filter(|entry| entry.kind == Kind::Mapped);
        mapped.filter_map(|entry| Some((entry.path.clone().into(), self.place(entry.checksum)?.clone()))).collect()
    }

    /// Adds a file of this machine, and tells its size.
    pub fn add(&mut self, kind: Kind, path: &Path) -> io::Result<u64> {
        let not_text = || io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8");
        let text = path.to_str().ok_or_else(not_text)?.to_owned();
        let (checksum, bytes) = Digest::of_reader(open_regular(path)?.0)?;
        self.members.entry(Name::Copy(checksum)).or_insert_with(|| path.to_owned());
        self.index.insert(Entry { kind, path: text, checksum });
        Ok(bytes)
    }

    /// Takes out what is there for one purpose.
    pub fn leave_out(&mut self, kind: Kind) {
        self.index.retain(|entry| entry.kind != kind);
        let wanted: BTreeSet<Digest> = self.index.iter().map(|entry| entry.checksum).collect();
        self.members.retain(|name, _| !matches!(name, Name::Copy(checksum) if !wanted.contains(checksum)));
    }

    /// What each copy was; of several files with the same content, the first.
    pub(super) fn origins(&self) -> BTreeMap<Name, &Entry> {
        self.index.iter().rev().map(|entry| (Name::Copy(entry.checksum), entry)).collect()
    }

    /// Why `path` is not the member that it should be.
    pub(super) fn changed(&self, name: Name, path: &Path) -> PackError {
        let recorded = self.build_ids.get(&name).map(Vec::as_slice).unwrap_or_default();
        PackError::Changed { path: path.to_owned(), builds: build_id::difference(recorded, path) }
    }

    fn place(&self, checksum: Digest) -> Option<&PathBuf> {
        self.members.get(&Name::Copy(checksum))
    }

    fn add_if_there(&mut self, name: Name, path: PathBuf) {
        if path.exists() {
            self.members.insert(name, path);
        }
    }

    fn read_log(&mut self, recording: &Recording, number: u32) {
        let log = match recording.log(number) {
            Ok(log) => log,
            Err(error) => return self.unreadable.push((number, error.to_string())),
        };
        let mut cursor = log.cursor();
        while let Some(record) = cursor.next() {
            match record.event {
                Event::Start(start) if self.features.is_empty() => {
                    self.processor = start.machine.processor.to_owned();
                    self.features = start.machine.features.iter().map(str::to_owned).collect();
                }
                Event::File(file) => {
                    let Some(checksum) = file.checksum else { continue };
                    let copy = Some(recording.file_copy(checksum)).filter(|copy| copy.exists());
                    let original = || PathBuf::from(OsStr::from_bytes(file.path));
                    self.members.entry(Name::Copy(checksum)).or_insert_with(|| copy.unwrap_or_else(original));
                    self.build_ids.insert(Name::Copy(checksum), file.build_id.to_vec());
                    let path = String::from_utf8_lossy(file.path).into_owned();
                    self.index.insert(Entry { kind: Kind::Mapped, path, checksum });
                }
                _ => {}
            }
        }
        if let ending @ Ending::Damaged(_) = cursor.ending() {
            self.unreadable.push((number, ending.to_string()));
        }
    }
}

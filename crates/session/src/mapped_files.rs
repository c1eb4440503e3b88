//! Files that a guest maps: by reference if they are programs and libraries, and by content if they are data, which
//! may well be gone or changed by the time of a replay.

use crate::build_id;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use trace::event;
use trace::format::MANIFEST;
use trace::{Digest, file_copy, keep_copy};

/// Larger parts of data files are kept by reference too.
const LARGEST_CONTENT: u64 = 32 << 20;

/// Identity of a file's content: device, inode, size, modification time.
type Identity = (u64, u64, u64, i64);

/// Files that a recording has named so far.
#[derive(Default)]
pub struct Named {
    ids: BTreeMap<Identity, (u32, bool)>,
    /// By device and inode, since their content changes: numbers of those mapped shared, and how far they were mapped.
    shared: BTreeMap<(u64, u64), (u32, u64)>,
    /// Memory of System V, which is mapped shared as well.
    segments: BTreeMap<u64, u32>,
    n_named: u32,
}

/// A file as a recording names it.
pub struct Found {
    pub id: u32,
    /// A program or library, which replay takes from where it lies.
    pub is_program: bool,
    /// What is to be written down, the first time.
    pub new: Option<NewFile>,
    file: File,
}

pub struct NewFile {
    pub path: Vec<u8>,
    pub identity: (u64, u64, u64, i64),
    pub checksum: Option<Digest>,
    /// Nobody has a name for it any more.
    pub is_unlinked: bool,
    /// Empty if it has none.
    pub build_id: Vec<u8>,
}

impl NewFile {
    pub fn event(&self, id: u32) -> event::File<'_> {
        let (device, inode, size, modified) = self.identity;
        let (path, build_id, checksum) = (&self.path, &self.build_id, self.checksum);
        event::File { id, path, device, inode, size, modified, build_id, checksum }
    }
}

impl Named {
    /// Looks at the file behind a descriptor of this process, which is mapped privately; `None` if it is no regular file.
    pub fn find(&mut self, descriptor: i32) -> Option<Found> {
        let (file, metadata) = open(descriptor)?;
        if let Some(&(id, is_program)) = self.ids.get(&identity_of(&metadata)) {
            return Some(Found { id, is_program, new: None, file });
        }
        let mut magic = [0; 4];
        let is_program = file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF";
        let found = self.name(descriptor, file, &metadata, is_program);
        self.ids.insert(identity_of(&metadata), (found.id, found.is_program));
        Some(found)
    }

    /// The same for one that is mapped shared, up to `end`.
    pub fn find_shared(&mut self, descriptor: i32, end: u64) -> Option<Found> {
        let (file, metadata) = open(descriptor)?;
        if let Some((id, mapped)) = self.shared.get_mut(&(metadata.dev(), metadata.ino())) {
            *mapped = end.max(*mapped);
            return Some(Found { id: *id, is_program: false, new: None, file });
        }
        let found = self.name(descriptor, file, &metadata, false);
        if !found.is_program {
            self.shared.insert((metadata.dev(), metadata.ino()), (found.id, end));
        }
        Some(found)
    }

    fn name(&mut self, descriptor: i32, mut file: File, metadata: &Metadata, is_program: bool) -> Found {
        let by_reference = is_program || metadata.size() > LARGEST_CONTENT;
        let checksum = if by_reference { Digest::of_reader(&mut file).ok().map(|(digest, _)| digest) } else { None };
        let build_id = if is_program { build_id::of_file(&file) } else { Vec::new() };
        let path = fs::read_link(link_of(descriptor)).map(|path| path.into_os_string().into_vec()).unwrap_or_default();
        self.n_named += 1;
        let (identity, is_unlinked) = (identity_of(metadata), metadata.nlink() == 0);
        let new = NewFile { path, identity, checksum, build_id, is_unlinked };
        Found { id: self.n_named, is_program: by_reference, new: Some(new), file }
    }

    /// The number of a segment of System V's shared memory.
    pub fn segment(&mut self, segment: u64) -> u32 {
        *self.segments.entry(segment).or_insert_with(|| {
            self.n_named += 1;
            self.n_named
        })
    }

    /// A forked process goes on in a log of its own, which names files anew. Those mapped shared are its parent's too.
    pub fn begin_log(&mut self) {
        self.ids.clear();
    }

    /// Whether files are mapped whose content changes.
    pub fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The file behind a descriptor if it is mapped shared, its number, and how far it was mapped.
    pub fn shared(&self, descriptor: i32) -> Option<(File, u32, u64)> {
        let (file, metadata) = open(descriptor)?;
        let &(id, end) = self.shared.get(&(metadata.dev(), metadata.ino()))?;
        Some((file, id, end))
    }
}

fn link_of(descriptor: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

fn open(descriptor: i32) -> Option<(File, Metadata)> {
    let file = File::open(link_of(descriptor)).ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    Some((file, metadata))
}

fn identity_of(metadata: &Metadata) -> Identity {
    let modified = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    (metadata.dev(), metadata.ino(), metadata.size(), modified)
}

impl Found {
    /// Keeps a copy of a program that the run itself has made, or that is gone already: neither can be relied on later.
    pub fn keep(&self, folder: &Path) -> io::Result<()> {
        let Some(NewFile { checksum: Some(checksum), identity, is_unlinked, .. }) = self.new else { return Ok(()) };
        let begun = fs::metadata(folder.join(MANIFEST)).map_or(0, |metadata| identity_of(&metadata).3);
        if is_unlinked || identity.3 >= begun { keep_copy(folder, checksum, &self.file) } else { Ok(()) }
    }

    /// What a mapping of `length` bytes from `offset` on shows.
    pub fn content(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let size = self.file.metadata().ok()?.size();
        bytes.resize(usize::try_from(length.min(size.saturating_sub(offset))).ok()?, 0);
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// Files that a replay opens.
pub struct Originals {
    folder: PathBuf,
    files: BTreeMap<u32, Original>,
}

struct Original {
    path: PathBuf,
    checksum: Option<Digest>,
    build_id: Vec<u8>,
    is_checked: bool,
}

impl Originals {
    pub fn new(folder: &Path) -> Originals {
        Originals { folder: folder.to_owned(), files: BTreeMap::new() }
    }
}

impl engine::Files for Originals {
    fn learn(&mut self, file: &event::File<'_>) {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(file.path));
        let (checksum, build_id) = (file.checksum, file.build_id.to_vec());
        self.files.insert(file.id, Original { path, checksum, build_id, is_checked: false });
    }

    fn open(&mut self, id: u32) -> Result<OwnedFd, String> {
        let original = self.files.get_mut(&id).ok_or_else(|| format!("the recording does not name its file {id}"))?;
        let copy = original.checksum.map(|checksum| file_copy(&self.folder, checksum)).filter(|copy| copy.exists());
        let path = copy.as_ref().unwrap_or(&original.path);
        let shown = path.display();
        let mut file = File::open(path).map_err(|error| {
            format!("{shown}, which the program had mapped, cannot be opened: {error}; put it back where it was")
        })?;
        if !std::mem::replace(&mut original.is_checked, true) && changed(&mut file, original.checksum) {
            let builds = build_id::difference(&original.build_id, path);
            return Err(format!(
                "{shown} has changed since the recording was made{builds}; put the version back that was recorded"
            ));
        }
        Ok(file.into())
    }
}

fn changed(file: &mut impl Read, checksum: Option<Digest>) -> bool {
    checksum.is_some_and(|expected| Digest::of_reader(file).map_or(true, |(digest, _)| digest != expected))
}

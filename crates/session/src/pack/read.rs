//! From a pack to a recording in the store.
//!
//! A replay ends when the guest does, in whatever way, and may go on in other processes: nobody is left to tidy up. So a
//! pack becomes a recording of the store, which later uses find again and `whodunit rm` removes, and no temporary
//! folder. (Folders for temporary files are often mounted so that no program can be mapped from them, too.) The name
//! comes from the pack's content. A recording of that name is used only if it equals the pack byte for byte.

use super::content::Content;
use super::{Header, MOST_MEMBERS, Name, NoHeader, PackError, most_bytes};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use trace::format::FILES;
use trace::{Digest, Recording};

/// Recordings of a store have a name and a number.
const NAME: &str = "unpacked";
const UNFINISHED: &str = ".unpacking-";
/// Other packs with the same name by chance, or by intent.
const MOST_NAMESAKES: u32 = 16;
/// What may follow the last member: tar ends in zeros, which some tools fill up to a block of this size.
const LONGEST_END: u64 = 64 << 10;

/// A pack as a recording.
pub struct Unpacked {
    pub folder: PathBuf,
    /// It was not there before.
    pub is_new: bool,
}

/// Makes a recording below `root` out of the pack at `path`, or finds the one made before.
pub fn unpack(path: &Path, root: &Path) -> Result<Unpacked, PackError> {
    let pack = Pack::open(path)?;
    fs::create_dir_all(root).map_err(|error| PackError::io("make", root, error))?;
    clear_unfinished(root);
    let mut fresh = None;
    for namesake in 0..MOST_NAMESAKES {
        let folder = root.join(format!("{NAME}-{}", (pack.header.body.0 as u32).wrapping_add(namesake)));
        if folder.exists() {
            if pack.visit(&mut Comparison { folder: &folder, is_equal: true })?.is_equal {
                return Ok(Unpacked { folder, is_new: false });
            }
            continue;
        }
        let unfinished = match fresh.take() {
            Some(unfinished) => unfinished,
            None => pack.unpack_below(root)?,
        };
        match fs::rename(&unfinished.0, &folder) {
            Ok(()) => return Ok(Unpacked { folder, is_new: true }),
            // Somebody else was faster, most likely with the same pack.
            Err(_) if folder.exists() => fresh = Some(unfinished),
            Err(error) => return Err(PackError::io("make", folder, error)),
        }
    }
    Err(pack.refused("the store has too many others of its name; remove some with `whodunit rm`"))
}

struct Pack {
    path: PathBuf,
    file: File,
    header: Header,
}

impl Pack {
    /// Reads all of the file once, so that damage is found before anything is written.
    fn open(path: &Path) -> Result<Pack, PackError> {
        let failed = |error| PackError::io("read", path, error);
        let damaged = |what: String| PackError::Damaged { path: path.to_owned(), what };
        let mut file = File::open(path).map_err(failed)?;
        let mut first = Vec::new();
        file.by_ref().take(Header::SIZE as u64).read_to_end(&mut first).map_err(failed)?;
        let header = Header::decode(&first).map_err(|why| match why {
            NoHeader::Foreign => PackError::Foreign { path: path.to_owned() },
            NoHeader::Newer(version) => PackError::Newer { path: path.to_owned(), version },
            NoHeader::Damaged => damaged("its first bytes are wrong".to_owned()),
        })?;
        let (digest, bytes) = Digest::of_reader(&file).map_err(failed)?;
        if bytes != header.body_bytes {
            let (there, whole) = (bytes.saturating_add(64), header.body_bytes.saturating_add(64));
            return Err(damaged(format!("it has {there} bytes, and {whole} when whole")));
        }
        if digest != header.body {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
        Ok(Pack { path: path.to_owned(), file, header })
    }

    fn refused(&self, what: impl Into<String>) -> PackError {
        PackError::Refused { path: self.path.clone(), what: what.into() }
    }

    fn unpack_below(&self, root: &Path) -> Result<Unfinished, PackError> {
        let folder = root.join(format!("{UNFINISHED}{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let make = |folder: &Path| DirBuilder::new().mode(0o700).create(folder);
        let made = make(&folder).and_then(|()| make(&folder.join(FILES)));
        made.map_err(|error| PackError::io("make", &folder, error))?;
        let unfinished = Unfinished(folder);
        self.visit(&mut Extraction { folder: &unfinished.0 })?;
        Recording::open(&unfinished.0).map_err(|_| self.refused("there is no recording in it that can be read"))?;
        Ok(unfinished)
    }

    /// Shows every member to the visitor, after all that can be checked about it. Refuses all but plain files with the
    /// names of a recording's parts, each once; sizes are checked before a member is read.
    fn visit<'v, V: Visitor>(&self, visitor: &'v mut V) -> Result<&'v mut V, PackError> {
        let unreadable = |error: io::Error| self.refused(format!("its archive cannot be read ({error})"));
        let mut file = &self.file;
        file.seek(io::SeekFrom::Start(Header::SIZE as u64)).map_err(unreadable)?;
        let body = file.take(self.header.body_bytes);
        let decoder = zstd::Decoder::with_buffer(BufReader::new(body)).map_err(unreadable)?;
        let mut archive = tar::Archive::new(decoder);
        let mut seen = BTreeSet::new();
        let mut left = most_bytes(self.header.body_bytes);
        // Raw: long names and other extensions would be read into memory, whatever their size.
        for member in archive.entries().map_err(unreadable)?.raw(true) {
            let mut member = member.map_err(unreadable)?;
            let name = self.name_of(&member)?;
            if !seen.insert(name) || seen.len() as u64 > MOST_MEMBERS {
                return Err(self.refused(format!("it has {name} twice, or too many files")));
            }
            left = left.checked_sub(member.size()).ok_or_else(|| self.too_large())?;
            let bytes = member.size();
            let mut content = Content::new(&mut member);
            let visited = visitor.member(name, &mut content);
            if let Some(error) = content.error.take() {
                return Err(unreadable(error));
            }
            if visited.is_ok() && content.bytes != bytes {
                return Err(self.refused(format!("{name} in it is cut off")));
            }
            visited.map_err(|error| match error {
                Unvisited::Io(path, error) => PackError::io("write", path, error),
                Unvisited::Wrong(what) => self.refused(what),
            })?;
        }
        let mut rest = archive.into_inner().take(LONGEST_END + 1);
        let end = io::copy(&mut rest, &mut io::sink()).map_err(unreadable)?;
        if end > LONGEST_END { Err(self.refused("something follows its archive")) } else { Ok(visitor) }
    }

    fn name_of<R: Read>(&self, member: &tar::Entry<'_, R>) -> Result<Name, PackError> {
        let bytes = member.path_bytes();
        let name = Name::of(&bytes).filter(|_| member.header().entry_type() == tar::EntryType::Regular);
        name.ok_or_else(|| {
            let shown = bytes.escape_ascii();
            self.refused(format!("`{shown}` in it is no part of a recording, or no plain file"))
        })
    }

    fn too_large(&self) -> PackError {
        let most = most_bytes(self.header.body_bytes) >> 20;
        self.refused(format!("it holds more than the {most} MiB that a pack of its size may hold"))
    }
}

/// A folder that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What processes left that were killed while they unpacked.
fn clear_unfinished(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(UNFINISHED)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

enum Unvisited {
    Io(PathBuf, io::Error),
    Wrong(String),
}

trait Visitor {
    fn member(&mut self, name: Name, content: &mut Content<impl Read>) -> Result<(), Unvisited>;
}

/// Writes members to a new folder.
struct Extraction<'a> {
    folder: &'a Path,
}

impl Visitor for Extraction<'_> {
    fn member(&mut self, name: Name, content: &mut Content<impl Read>) -> Result<(), Unvisited> {
        let path = self.folder.join(name.to_string());
        let mut write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            io::copy(content, &mut file)
        };
        write().map_err(|error| Unvisited::Io(path.clone(), error))?;
        match name {
            Name::Copy(checksum) if checksum != content.digest() => {
                Err(Unvisited::Wrong(format!("{name} in it has another checksum than its name says")))
            }
            _ => Ok(()),
        }
    }
}

/// Compares members with what is in a folder.
struct Comparison<'a> {
    folder: &'a Path,
    is_equal: bool,
}

impl Visitor for Comparison<'_> {
    fn member(&mut self, name: Name, content: &mut Content<impl Read>) -> Result<(), Unvisited> {
        let there = File::open(self.folder.join(name.to_string()));
        let equal = |file: File| is_same(&mut *content, &mut BufReader::with_capacity(PIECE, file));
        self.is_equal = self.is_equal && there.and_then(equal).unwrap_or(false);
        // Whatever it is, all of it is looked at.
        io::copy(content, &mut io::sink()).map_err(|error| Unvisited::Wrong(error.to_string()))?;
        Ok(())
    }
}

const PIECE: usize = 64 << 10;

fn is_same(one: &mut impl Read, other: &mut impl Read) -> io::Result<bool> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    loop {
        first.clear();
        second.clear();
        one.by_ref().take(PIECE as u64).read_to_end(&mut first)?;
        other.by_ref().take(PIECE as u64).read_to_end(&mut second)?;
        if first != second || first.is_empty() {
            return Ok(first == second);
        }
    }
}

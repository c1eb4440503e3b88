//! From a recording to a pack. The recording stays as it is: files that it refers to go straight into the archive.

use super::content::Content;
use super::{Header, MOST_MEMBERS, Name, PackError, VERSION, most_bytes};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trace::format::{MANIFEST, log_name, tail_name};
use trace::{Ending, Event, Hasher, Recording};

/// Twice as slow as the fastest levels and smaller by a fifth; a pack is made once and sent often.
const LEVEL: i32 = 9;

/// What goes into a pack.
#[derive(Default)]
pub struct Contents {
    members: BTreeMap<Name, PathBuf>,
    /// What the machine was that the recording was made on.
    pub processor: String,
    pub features: Vec<String>,
    /// Process images that cannot be read to their end, with the reason.
    pub unreadable: Vec<(u32, String)>,
}

/// A file in a pack.
#[derive(Debug)]
pub struct Member {
    /// Where it came from.
    pub path: PathBuf,
    pub bytes: u64,
    /// A program, library or large data file, which is no part of the recording's own folder.
    pub is_copy: bool,
}

/// A pack that was made.
#[derive(Debug)]
pub struct Packed {
    pub members: Vec<Member>,
    /// Of all members.
    pub bytes: u64,
    /// Of the pack.
    pub packed_bytes: u64,
}

impl Contents {
    /// Looks through all events for files that a replay takes from where they lie.
    pub fn of(recording: &Recording) -> Result<Contents, PackError> {
        let folder = recording.folder();
        if recording.is_live() {
            return Err(PackError::Live { folder: folder.to_owned() });
        }
        let mut contents = Contents::default();
        contents.add_if_there(Name::Manifest, folder.join(MANIFEST));
        for &number in recording.logs() {
            contents.members.insert(Name::Log(number), folder.join(log_name(number)));
            contents.add_if_there(Name::Tail(number), folder.join(tail_name(number)));
            contents.read_log(recording, number);
        }
        Ok(contents)
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
                }
                _ => {}
            }
        }
        if let ending @ Ending::Damaged(_) = cursor.ending() {
            self.unreadable.push((number, ending.to_string()));
        }
    }
}

/// Writes a pack. Nothing is at `output` before all of it is there; what is there already stays unless `force` is set.
pub fn pack(contents: &Contents, output: &Path, force: bool) -> Result<Packed, PackError> {
    if !force && fs::symlink_metadata(output).is_ok() {
        return Err(PackError::Occupied { path: output.to_owned() });
    }
    let temporary = temporary_for(output)?;
    let made =
        write_all(contents, &temporary).and_then(|packed| put_in_place(&temporary, output, force).map(|()| packed));
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    made
}

/// In the same folder, because only there it can be renamed to what it should be.
fn temporary_for(output: &Path) -> Result<PathBuf, PackError> {
    let no_name = || PackError::io("write", output, io::Error::from(io::ErrorKind::IsADirectory));
    let name = output.file_name().filter(|_| !output.is_dir()).ok_or_else(no_name)?;
    let mut hidden = OsStr::new(".").to_owned();
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    Ok(output.with_file_name(hidden))
}

fn put_in_place(temporary: &Path, output: &Path, force: bool) -> Result<(), PackError> {
    let failed = |error| PackError::io("write", output, error);
    if force {
        return fs::rename(temporary, output).map_err(failed);
    }
    // A link is never made over something that came in the meantime. Some file systems have none.
    match fs::hard_link(temporary, output) {
        Ok(()) => fs::remove_file(temporary).map_err(failed),
        Err(_) if fs::symlink_metadata(output).is_ok() => Err(PackError::Occupied { path: output.to_owned() }),
        Err(_) => fs::rename(temporary, output).map_err(failed),
    }
}

fn write_all(contents: &Contents, temporary: &Path) -> Result<Packed, PackError> {
    let failed = |error| PackError::io("write", temporary, error);
    let _ = fs::remove_file(temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).open(temporary).map_err(failed)?;
    file.write_all(&[0; Header::SIZE]).map_err(failed)?;
    let body = Body { out: BufWriter::new(file), hasher: Hasher::new(), bytes: 0 };
    let mut archive = tar::Builder::new(zstd::Encoder::new(body, LEVEL).map_err(failed)?);
    let mut members = Vec::new();
    for (name, path) in &contents.members {
        members.push(append(&mut archive, *name, path, temporary)?);
    }
    let body = archive.into_inner().and_then(zstd::Encoder::finish).map_err(failed)?;
    let header = Header { version: VERSION, body_bytes: body.bytes, body: body.hasher.digest() };
    let mut file = body.out.into_inner().map_err(|error| failed(error.into_error()))?;
    let finished = file.rewind().and_then(|()| file.write_all(&header.encode())).and_then(|()| file.sync_all());
    finished.map_err(failed)?;
    let bytes = members.iter().map(|member| member.bytes).sum();
    let packed_bytes = header.body_bytes + Header::SIZE as u64;
    if bytes > most_bytes(packed_bytes) || members.len() as u64 > MOST_MEMBERS {
        return Err(PackError::TooCompressible { bytes, packed: packed_bytes });
    }
    Ok(Packed { members, bytes, packed_bytes })
}

fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    name: Name,
    path: &Path,
    temporary: &Path,
) -> Result<Member, PackError> {
    let unusable = |error| match name {
        Name::Copy(_) => PackError::NoFile { path: path.to_owned(), error },
        _ => PackError::io("read", path, error),
    };
    let (file, bytes) = open_regular(path).map_err(unusable)?;
    let mut content = Content::new(BufReader::new(file).take(bytes));
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    let appended = archive.append_data(&mut header, name.to_string(), &mut content);
    if let Some(error) = content.error.take() {
        return Err(unusable(error));
    }
    appended.map_err(|error| PackError::io("write", temporary, error))?;
    let is_as_recorded = match name {
        Name::Copy(checksum) => checksum == content.digest(),
        _ => true,
    };
    if !is_as_recorded || content.bytes != bytes {
        return Err(PackError::Changed { path: path.to_owned() });
    }
    Ok(Member { path: path.to_owned(), bytes, is_copy: matches!(name, Name::Copy(_)) })
}

/// Opening a device or a pipe may do something, or never end; a recording may name any path.
fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
    fs::metadata(path).and_then(|there| there.is_file().then_some(()).ok_or_else(not_regular))?;
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// The compressed bytes on their way to the disk.
struct Body<W> {
    out: W,
    hasher: Hasher,
    bytes: u64,
}

impl<W: Write> Write for Body<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.out.write(buffer)?;
        self.hasher.add(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header is a frame like others to zstd.
    #[test]
    fn common_tools_can_read_a_pack() {
        let folder = std::env::temp_dir().join(format!("whodunit-pack-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("log"), [7; 5000]).unwrap();
        let mut contents = Contents::default();
        contents.members.insert(Name::Log(1), folder.join("log"));
        let packed = pack(&contents, &folder.join("pack"), false).unwrap();
        let file = fs::read(folder.join("pack")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((packed.bytes, packed.packed_bytes), (5000, file.len() as u64));
        let mut archive = tar::Archive::new(zstd::Decoder::new(&file[..]).unwrap());
        let mut members = archive.entries().unwrap();
        let mut content = Vec::new();
        let mut member = members.next().unwrap().unwrap();
        member.read_to_end(&mut content).unwrap();
        assert_eq!((member.path().unwrap().to_str(), content), (Some("1.log"), vec![7; 5000]));
        assert!(members.next().is_none());
    }
}

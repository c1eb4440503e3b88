//! From a recording to a pack. The recording stays as it is: files that it refers to go straight into the archive.

use super::content::Content;
use super::contents::Contents;
use super::{Header, MOST_MEMBERS, Name, PackError, VERSION, most_bytes};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use trace::Hasher;
use trace::index::{self, Index, Kind};

/// Twice as slow as the fastest levels and smaller by a fifth; a pack is made once and sent often.
const LEVEL: i32 = 9;

/// A file in a pack.
#[derive(Debug)]
pub struct Member {
    /// Where it came from; for what came in a pack, where it once was.
    pub path: PathBuf,
    pub bytes: u64,
    /// What it is a copy for; none for parts of the recording's own folder.
    pub kind: Option<Kind>,
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
    let origins = contents.origins();
    for (name, path) in &contents.members {
        let bytes = append(&mut archive, *name, path, temporary)?.ok_or_else(|| contents.changed(*name, path))?;
        let entry = origins.get(name);
        let path = entry.map_or_else(|| path.to_owned(), |entry| PathBuf::from(&entry.path));
        members.push(Member { path, bytes, kind: entry.map(|entry| entry.kind) });
    }
    let bytes = append_index(&mut archive, &contents.index).map_err(failed)?;
    members.push(Member { path: PathBuf::from(Name::Index.to_string()), bytes, kind: None });
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

/// Tells the size; nothing if the file is not the one that the name asks for.
fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    name: Name,
    path: &Path,
    temporary: &Path,
) -> Result<Option<u64>, PackError> {
    let unusable = |error| match name {
        Name::Copy(_) => PackError::NoFile { path: path.to_owned(), error },
        _ => PackError::io("read", path, error),
    };
    let (file, bytes) = open_regular(path).map_err(unusable)?;
    let mut content = Content::new(BufReader::new(file).take(bytes));
    let appended = archive.append_data(&mut plain_file(bytes), name.to_string(), &mut content);
    if let Some(error) = content.error.take() {
        return Err(unusable(error));
    }
    appended.map_err(|error| PackError::io("write", temporary, error))?;
    let is_as_recorded = match name {
        Name::Copy(checksum) => checksum == content.digest(),
        _ => true,
    };
    if !is_as_recorded || content.bytes != bytes {
        return Ok(None);
    }
    Ok(Some(bytes))
}

fn append_index<W: Write>(archive: &mut tar::Builder<W>, index: &Index) -> io::Result<u64> {
    let bytes = index::encode(index);
    archive.append_data(&mut plain_file(bytes.len() as u64), Name::Index.to_string(), &bytes[..])?;
    Ok(bytes.len() as u64)
}

fn plain_file(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    header
}

/// Opening a device or a pipe may do something, or never end; a recording may name any path.
pub(super) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
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
        let index = packed.members[1].bytes;
        assert_eq!((packed.bytes, packed.packed_bytes), (5000 + index, file.len() as u64));
        let mut archive = tar::Archive::new(zstd::Decoder::new(&file[..]).unwrap());
        let mut members = archive.entries().unwrap();
        let mut content = Vec::new();
        let mut member = members.next().unwrap().unwrap();
        member.read_to_end(&mut content).unwrap();
        assert_eq!((member.path().unwrap().to_str(), content), (Some("1.log"), vec![7; 5000]));
        drop(member);
        assert_eq!(members.next().unwrap().unwrap().path().unwrap().to_str(), Some("files/index.json"));
        assert!(members.next().is_none());
    }
}

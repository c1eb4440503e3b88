//! Debug information that is kept in a file of its own, as distributions do.
//!
//! Looked for by build id below the system's debug folder, then by the file's `.gnu_debuglink`, which names a file and
//! its checksum. Debug information shared by several files (`.gnu_debugaltlink`) is found likewise. Wherever a copy stands
//! for one of these files, the copy is read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;
use std::sync::Arc;

use crate::copies::Copies;
use crate::elf::Image;

const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// A file with debug information.
#[derive(Clone, Debug)]
pub(crate) struct DebugFile {
    /// Of the original, if a copy was read.
    pub path: PathBuf,
    pub image: Arc<Image>,
}

impl DebugFile {
    fn read(path: &Path, copies: &Copies) -> Option<DebugFile> {
        let image = Arc::new(Image::read(copies.place(path))?);
        Some(DebugFile { path: path.to_owned(), image })
    }
}

/// The separate debug file of the module at `path`, if it has one and needs one.
pub(crate) fn find(path: &Path, image: &Image, copies: &Copies) -> Option<DebugFile> {
    if image.section(".debug_info").is_some() {
        return None;
    }
    let build_id = image.file()?.build_id().ok().flatten();
    build_id.and_then(|build_id| by_build_id(build_id, copies)).or_else(|| by_link(path, image, copies))
}

/// The file that holds what several debug files have in common; `holder` is the one that refers to it.
pub(crate) fn find_shared(holder: &DebugFile, copies: &Copies) -> Option<DebugFile> {
    let file = holder.image.file()?;
    let (name, build_id) = file.gnu_debugaltlink().ok()??;
    let beside = holder.path.parent()?.join(OsStr::from_bytes(name));
    let matches = |found: &DebugFile| found.image.file().and_then(|file| file.build_id().ok()?) == Some(build_id);
    by_build_id(build_id, copies).or_else(|| DebugFile::read(&beside, copies).filter(matches))
}

fn by_build_id(build_id: &[u8], copies: &Copies) -> Option<DebugFile> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    DebugFile::read(Path::new(&format!("{DEBUG_FOLDER}/.build-id/{first:02x}/{rest}.debug")), copies)
}

fn by_link(path: &Path, image: &Image, copies: &Copies) -> Option<DebugFile> {
    let file = image.file()?;
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let candidates = link_candidates(path.parent()?, Path::new(OsStr::from_bytes(name)));
    let others = candidates.iter().filter(|candidate| *candidate != path);
    let mut files = others.filter_map(|path| DebugFile::read(path, copies));
    files.find(|found| crc32(found.image.data()) == checksum)
}

fn link_candidates(folder: &Path, name: &Path) -> [PathBuf; 3] {
    let relative = folder.strip_prefix("/").unwrap_or(folder);
    [folder.join(name), folder.join(".debug").join(name), Path::new(DEBUG_FOLDER).join(relative).join(name)]
}

/// The checksum of `.gnu_debuglink`: the common CRC-32, least significant bit first.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc32_table();
    let step = |sum: u32, byte: &u8| TABLE[(sum as u8 ^ byte) as usize] ^ (sum >> 8);
    !bytes.iter().fold(!0, step)
}

const fn crc32_table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut position = 0;
    while position < 256 {
        let mut value = position as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[position] = value;
        position += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    #[test]
    fn checksum_of_the_standard_test_message() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}

//! Build ids: by which the linker tells one build of a program or library from another.

use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache};
use std::fs::File;
use std::path::Path;

/// Longer notes are no build ids.
const LONGEST: usize = 64;

/// The build id of a file; empty if it has none, or is no ELF file. Only its headers and notes are read.
pub fn of_file(file: &File) -> Vec<u8> {
    find(file).filter(|build_id| build_id.len() <= LONGEST).unwrap_or_default()
}

fn find(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let header = FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, &cache).ok()? {
        let Ok(Some(mut notes)) = segment.notes(endian, &cache) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

/// What tells the file at `path` from the one that was recorded, in brackets; empty if build ids do not tell.
pub fn difference(recorded: &[u8], path: &Path) -> String {
    let now = File::open(path).map(|file| of_file(&file)).unwrap_or_default();
    if recorded.is_empty() || now.is_empty() || recorded == now {
        return String::new();
    }
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(" (build id {} then, {} now)", digits(recorded), digits(&now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_have_none() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/build_id.rs");
        assert_eq!(of_file(&File::open(source).unwrap()), b"");
        assert_eq!(difference(&[0xab], Path::new(source)), "");
        assert_eq!(difference(&[0xab], Path::new("/nowhere")), "");
    }
}

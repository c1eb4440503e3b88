//! Where a recording has copies of the files that reports ask for by their paths.

use program::copies::Copies;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::index::Kind;
use trace::{Event, Recording};

/// Of a recording that came in a pack, all of them; of others, programs that could not be relied on later.
pub fn copies_of(recording: &Recording) -> Arc<Copies> {
    let mut copies = Copies::default();
    let mut came_in_pack = false;
    for entry in recording.index() {
        came_in_pack = true;
        // The kernel tells the full paths of what is mapped.
        let Ok(copy) = fs::canonicalize(recording.file_copy(entry.checksum)) else { continue };
        let original = PathBuf::from(entry.path);
        match entry.kind {
            Kind::Mapped => copies.add_loaded(original, copy),
            Kind::Debug | Kind::Source => copies.add(original, copy),
        }
    }
    if !came_in_pack && recording.has_copies() {
        add_kept(&mut copies, recording);
    }
    Arc::new(copies)
}

/// Adds the copies that the recorder kept: the events tell of which files they are.
fn add_kept(copies: &mut Copies, recording: &Recording) {
    for log in recording.logs().iter().filter_map(|log| recording.log(*log).ok()) {
        let mut cursor = log.cursor();
        while let Some(record) = cursor.next() {
            let Event::File(file) = record.event else { continue };
            let copy = file.checksum.and_then(|checksum| fs::canonicalize(recording.file_copy(checksum)).ok());
            let original = Path::new(OsStr::from_bytes(file.path)).to_owned();
            copy.into_iter().for_each(|copy| copies.add_loaded(original.clone(), copy));
        }
    }
}

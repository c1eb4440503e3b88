//! Where a recording that came in a pack has the files that reports ask for by their paths.

use program::copies::Copies;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use trace::Recording;
use trace::index::Kind;

/// None of other recordings: there every file is where its path says.
pub fn copies_of(recording: &Recording) -> Arc<Copies> {
    let mut copies = Copies::default();
    for entry in recording.index() {
        // The kernel tells the full paths of what is mapped.
        let Ok(copy) = fs::canonicalize(recording.file_copy(entry.checksum)) else { continue };
        let original = PathBuf::from(entry.path);
        match entry.kind {
            Kind::Mapped => copies.add_loaded(original, copy),
            Kind::Debug | Kind::Source => copies.add(original, copy),
        }
    }
    Arc::new(copies)
}

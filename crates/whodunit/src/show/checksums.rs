//! Checksums of files, worked out once: many recordings of a program name the same ones.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use trace::Digest;

/// A file and its state: device and number, length, and when it was last changed and touched.
type Identity = (u64, u64, u64, [i64; 4]);

static KNOWN: Mutex<BTreeMap<Identity, Digest>> = Mutex::new(BTreeMap::new());

/// The checksum of what a file holds whose state is this.
pub fn of(path: &Path, metadata: &Metadata) -> io::Result<Digest> {
    let identity = identity(metadata);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(checksum) = known.get(&identity) {
        return Ok(*checksum);
    }
    let checksum = Digest::of_reader(File::open(path)?)?.0;
    known.insert(identity, checksum);
    Ok(checksum)
}

fn identity(metadata: &Metadata) -> Identity {
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    (metadata.dev(), metadata.ino(), metadata.len(), times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_has_another_checksum() {
        let path = std::env::temp_dir().join(format!("whodunit-checksums-{}", std::process::id()));
        let checksum = |text: &str| {
            std::fs::write(&path, text).expect("the file can be written");
            let metadata = std::fs::metadata(&path).expect("it is there");
            [(); 2].map(|()| of(&path, &metadata).expect("it can be read"))
        };
        let first = checksum("what was mapped");
        assert_eq!(first[0], first[1]);
        assert_ne!(checksum("what was mapped, and more"), first);
        std::fs::remove_file(&path).expect("it can be removed");
    }
}

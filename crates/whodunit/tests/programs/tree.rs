//! Owns what a run left behind in its working directory: kinds, permissions and contents of files.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// By path relative to the working directory.
pub type Tree = BTreeMap<PathBuf, Entry>;

#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    Folder {
        mode: u32,
    },
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link {
        target: PathBuf,
    },
    /// A socket, pipe or device: that it exists is all there is to compare.
    Special(&'static str),
}

/// Reads everything below `root`, except the paths in `left_out` and what is below them.
pub fn read(root: &Path, left_out: &[&str]) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(folder) = pending.pop() {
        for name in names_in(&root.join(&folder)) {
            let path = folder.join(name);
            if left_out.iter().any(|skipped| path == Path::new(skipped)) {
                continue;
            }
            let entry = read_entry(&root.join(&path));
            if matches!(entry, Entry::Folder { .. }) {
                pending.push(path.clone());
            }
            tree.insert(path, entry);
        }
    }
    tree
}

fn names_in(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("a folder just opened can be listed").file_name()).collect()
}

fn read_entry(path: &Path) -> Entry {
    let explain = |error| panic!("{}: {error}", path.display());
    let metadata = fs::symlink_metadata(path).unwrap_or_else(explain);
    let mode = metadata.permissions().mode();
    let kind = metadata.file_type();
    if kind.is_symlink() {
        Entry::Link { target: fs::read_link(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) }
    } else if kind.is_dir() {
        Entry::Folder { mode }
    } else if kind.is_file() {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Entry::File { mode, bytes }
    } else if kind.is_socket() {
        Entry::Special("socket")
    } else if kind.is_fifo() {
        Entry::Special("named pipe")
    } else {
        Entry::Special("device")
    }
}

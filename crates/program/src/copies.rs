//! Copies of a program's files, where the originals may be gone: debug files and sources that are read from another
//! place, and modules that were loaded from one.
//!
//! Everything else speaks of original paths. Whoever opens a file asks here first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which copy stands for which file. The default has none: every file is where its path says.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// Copies by original.
    copies: BTreeMap<PathBuf, PathBuf>,
    /// Originals by copy.
    originals: BTreeMap<PathBuf, PathBuf>,
}

impl Copies {
    /// Whoever wants to read `original`, a debug file or a source, is to read `copy`.
    pub fn add(&mut self, original: PathBuf, copy: PathBuf) {
        self.copies.entry(original).or_insert(copy);
    }

    /// What is loaded from `copy` is `original`. Of several files with the same content the first counts.
    pub fn add_loaded(&mut self, original: PathBuf, copy: PathBuf) {
        self.originals.entry(copy).or_insert(original);
    }

    /// Where the bytes of the file at `path` are to be read.
    pub fn place<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.copies.get(path).map_or(path, PathBuf::as_path)
    }

    /// What the file at `path`, which was loaded, was called.
    pub fn original<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.originals.get(path).map_or(path, PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_own_map() {
        let (source, program, copy, loaded) = ["/a.c", "/bin/a", "/kept/1", "/kept/2"].map(Path::new).into();
        let mut copies = Copies::default();
        copies.add(source.to_owned(), copy.to_owned());
        copies.add_loaded(program.to_owned(), loaded.to_owned());
        copies.add_loaded("/bin/b".into(), loaded.to_owned());
        assert_eq!([source, program, copy].map(|path| copies.place(path)), [copy, program, copy]);
        assert_eq!([loaded, program, copy].map(|path| copies.original(path)), [program, program, copy]);
    }
}

//! Lines of source files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::copies::Copies;

/// Source files, each read once.
#[derive(Debug, Default)]
pub struct SourceCache {
    /// `None` for files that cannot be read.
    files: BTreeMap<PathBuf, Option<Vec<String>>>,
    copies: Arc<Copies>,
}

impl SourceCache {
    pub fn new() -> SourceCache {
        SourceCache::default()
    }

    /// Reads copies where there are some.
    pub fn with_copies(copies: Arc<Copies>) -> SourceCache {
        SourceCache { copies, ..SourceCache::default() }
    }

    /// Uses `text` as the content of `file`, whatever is on disk.
    pub fn insert(&mut self, file: &Path, text: &str) {
        self.files.insert(file.to_owned(), Some(split(text)));
    }

    /// Where files are read that have copies.
    pub fn copies(&self) -> &Arc<Copies> {
        &self.copies
    }

    /// Whether there is something to read.
    pub fn has(&self, file: &Path) -> bool {
        self.files.get(file).map_or_else(|| self.copies.place(file).is_file(), Option::is_some)
    }

    /// The line with number `line`, counted from one, without its line end.
    pub fn source_line(&mut self, file: &Path, line: u32) -> Option<String> {
        let position = usize::try_from(line.checked_sub(1)?).ok()?;
        self.lines(file)?.get(position).cloned()
    }

    fn lines(&mut self, file: &Path) -> Option<&Vec<String>> {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), read(self.copies.place(file)));
        }
        self.files.get(file)?.as_ref()
    }
}

/// Sources are not always UTF-8; what is not is replaced.
fn read(file: &Path) -> Option<Vec<String>> {
    std::fs::metadata(file).ok().filter(|metadata| metadata.is_file())?;
    let bytes = std::fs::read(file).ok()?;
    Some(split(&String::from_utf8_lossy(&bytes)))
}

fn split(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        let mut sources = SourceCache::new();
        let file = Path::new("/nowhere/a.c");
        sources.insert(file, "first\r\nsecond\n");
        let lines: Vec<_> = (0..4).map(|line| sources.source_line(file, line)).collect();
        assert_eq!(lines, [None, Some("first".to_owned()), Some("second".to_owned()), None]);
        assert_eq!(sources.source_line(Path::new("/nowhere/b.c"), 1), None);
    }
}

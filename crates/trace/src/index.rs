//! `files/index.json`: which file each copy in a packed recording was, for those who ask for files by their paths.
//!
//! A replay does not need it: events name what was mapped by checksum. Nothing is ever written where a path of it leads,
//! and a damaged index is none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::checksum::Digest;
use crate::format::{FILES, INDEX};

const SCHEMA: &str = "whodunit/files/1";

/// More than any index has: a larger file is not one.
const LARGEST: u64 = 64 << 20;

/// What a copy is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A program or library, or a data file that was mapped.
    Mapped,
    /// Debug information in a file of its own.
    Debug,
    Source,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Mapped, Kind::Debug, Kind::Source];

    fn word(self) -> &'static str {
        match self {
            Kind::Mapped => "mapped",
            Kind::Debug => "debug",
            Kind::Source => "source",
        }
    }
}

/// A file that there is a copy of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// Where it was. What is not UTF-8 in it is replaced.
    pub path: String,
    pub checksum: Digest,
}

/// All of them, in an order of their own.
pub type Index = BTreeSet<Entry>;

/// The bytes of the index file.
pub fn encode(index: &Index) -> Vec<u8> {
    let entry =
        |entry: &Entry| json!({"kind": entry.kind.word(), "path": entry.path, "checksum": entry.checksum.to_string()});
    let value = json!({"schema": SCHEMA, "files": index.iter().map(entry).collect::<Vec<_>>()});
    format!("{value:#}\n").into_bytes()
}

/// The index of the recording in `folder`; empty if it has none that can be read.
pub(crate) fn read(folder: &Path) -> Index {
    let path: PathBuf = folder.join(FILES).join(INDEX);
    let fits = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= LARGEST);
    let bytes = if fits { fs::read(path).unwrap_or_default() } else { Vec::new() };
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Index {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let files = value["files"].as_array().filter(|_| value["schema"] == SCHEMA);
    files.into_iter().flatten().filter_map(entry).collect()
}

/// Kinds that later versions may add are passed over.
fn entry(value: &Value) -> Option<Entry> {
    let kind = Kind::ALL.into_iter().find(|kind| value["kind"] == kind.word())?;
    let checksum = u64::from_str_radix(value["checksum"].as_str()?, 16).ok()?;
    Some(Entry { kind, path: value["path"].as_str()?.to_owned(), checksum: Digest(checksum) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_survives_the_way() {
        let entry = |kind, path: &str, sum| Entry { kind, path: path.to_owned(), checksum: Digest(sum) };
        let index = Index::from([
            entry(Kind::Source, "/src/\"a\".c", 1),
            entry(Kind::Debug, "/usr/lib/debug/a", u64::MAX),
            entry(Kind::Mapped, "/bin/a", 2),
            entry(Kind::Mapped, "/bin/a", 3),
        ]);
        assert_eq!(parse(&encode(&index)), index);
    }

    #[test]
    fn what_is_no_index_is_empty() {
        for text in ["", "[]", "{\"files\": [1]}", "{\"schema\": \"whodunit/files/1\"}", "\u{0}"] {
            assert_eq!(parse(text.as_bytes()), Index::new(), "{text}");
        }
        let mixed = r#"{"schema": "whodunit/files/1", "files": [
            3, {"kind": "later", "path": "/a", "checksum": "1"}, {"kind": "source", "path": "/a", "checksum": "x"},
            {"kind": "source", "path": "/b", "checksum": "a0"}]}"#;
        let paths: Vec<String> = parse(mixed.as_bytes()).into_iter().map(|entry| entry.path).collect();
        assert_eq!(paths, ["/b"]);
    }
}

//! Debug files and sources of the programs in a pack, as far as they are on this machine.
//!
//! Sources are limited, because the headers of a large program alone can be larger than its recording. What lies outside
//! of the system's folders goes first.

use crate::recordings::text::{count, escaped_bytes, size};
use program::material;
use session::pack::Contents;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trace::index::Kind;

/// Larger sources are generated, and no reading.
const LARGEST_SOURCE: u64 = 4 << 20;
/// The sources there are those of the distribution, which others can get.
const SYSTEM: &str = "/usr";

/// What is wanted beside the recording and its programs.
pub struct Wanted {
    pub debug: bool,
    /// How many bytes of sources at most.
    pub sources: u64,
}

/// Sources that are named and were not packed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Not on this machine, or not to be read.
    missing: usize,
    too_large: Vec<(PathBuf, u64)>,
    /// How many would have gone beyond the limit.
    beyond_limit: usize,
    limit: u64,
}

/// Adds to a pack what is wanted.
pub fn gather(contents: &mut Contents, wanted: &Wanted) -> LeftOut {
    if !wanted.debug {
        contents.leave_out(Kind::Debug);
    }
    if wanted.sources == 0 {
        contents.leave_out(Kind::Source);
    }
    if contents.was_packed || !wanted.debug && wanted.sources == 0 {
        return LeftOut::default();
    }
    let mut sources = BTreeSet::new();
    for (original, place) in contents.mapped() {
        let material = material::of_file(&original, &place);
        // What cannot be read is missing in reports, as it is now.
        let debug_files = material.debug_files.iter().filter(|_| wanted.debug);
        debug_files.for_each(|path| drop(contents.add(Kind::Debug, path)));
        sources.extend(material.sources);
    }
    if wanted.sources == 0 { LeftOut::default() } else { add_sources(contents, sources, wanted.sources) }
}

/// Comes last where there is much.
pub fn is_of_the_system(path: &Path) -> bool {
    path.starts_with(SYSTEM)
}

fn add_sources(contents: &mut Contents, sources: BTreeSet<PathBuf>, limit: u64) -> LeftOut {
    let mut left_out = LeftOut { limit, ..LeftOut::default() };
    let mut room = limit;
    let (system, own): (Vec<PathBuf>, Vec<PathBuf>) = sources.into_iter().partition(|path| is_of_the_system(path));
    for path in own.into_iter().chain(system) {
        match fs::metadata(&path).ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len()) {
            None => left_out.missing += 1,
            Some(bytes) if bytes > LARGEST_SOURCE => left_out.too_large.push((path, bytes)),
            Some(bytes) if bytes > room => left_out.beyond_limit += 1,
            Some(_) => match contents.add(Kind::Source, &path) {
                Ok(bytes) => room = room.saturating_sub(bytes),
                Err(_) => left_out.missing += 1,
            },
        }
    }
    left_out
}

impl LeftOut {
    /// For the account of a pack, a line each.
    pub fn lines(&self) -> Vec<String> {
        let shown = |path: &Path| escaped_bytes(path.as_os_str().as_bytes());
        let mut lines = Vec::new();
        for (path, bytes) in &self.too_large {
            lines.push(format!(
                "left out: {}, {}; sources have up to {}",
                shown(path),
                size(*bytes),
                size(LARGEST_SOURCE)
            ));
        }
        if self.beyond_limit > 0 {
            let (files, limit) = (count(self.beyond_limit, "source"), size(self.limit));
            lines.push(format!("left out: {files} beyond {limit}; --max-sources tells another limit"));
        }
        if self.missing > 0 {
            lines.push(format!("left out: {} not on this machine", count(self.missing, "source")));
        }
        lines
    }
}

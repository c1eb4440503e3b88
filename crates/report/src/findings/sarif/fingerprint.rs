//! Telling whether a finding of today is one of yesterday: a digest of what it is about, and not of what differs from run to
//! run (threads, addresses, order of the causes) or moves when other code is edited (line numbers, folders).

use std::collections::BTreeMap;

use program::source::SourceCache;
use trace::Hasher;
use trace::finding::{Finding, Place};

use crate::findings::passages;

/// Numbers findings that look alike, in the order in which they come.
#[derive(Default)]
pub(super) struct Fingerprints {
    seen: BTreeMap<u64, u32>,
}

impl Fingerprints {
    pub(super) fn of(&mut self, finding: &Finding, sources: &mut SourceCache) -> String {
        let digest = digest(finding, sources);
        let times = self.seen.entry(digest).or_default();
        *times += 1;
        format!("{digest:016x}:{times}")
    }
}

fn digest(finding: &Finding, sources: &mut SourceCache) -> u64 {
    let mut places: Vec<&Place> = finding.causes.iter().map(|cause| &cause.place).collect();
    if places.is_empty() {
        places.extend(finding.failure.as_ref().and_then(|failure| failure.at.as_ref()));
        places.extend(finding.sides.iter().filter_map(|side| side.stack.first()));
    }
    let mut identities: Vec<Vec<String>> = places.into_iter().map(|place| identity(place, sources)).collect();
    identities.sort();
    identities.dedup();
    let mut hasher = Hasher::new();
    let words = std::iter::once(finding.class.word()).chain(identities.iter().flatten().map(String::as_str));
    for word in words {
        hasher.add(&(word.len() as u64).to_le_bytes());
        hasher.add(word.as_bytes());
    }
    hasher.digest().0
}

/// What stays the same when the program is built again: names, and the statement itself. Without its text, the line has to
/// do, and without that the address in the module.
fn identity(place: &Place, sources: &mut SourceCache) -> Vec<String> {
    let name = place.file.as_ref().and_then(|file| file.file_name());
    let name = name.map(|name| name.to_string_lossy().into_owned()).or_else(|| place.module.clone());
    let line = place.file.as_ref().and(place.line).map(|line| line.to_string());
    let address = place.module_offset.map(|offset| offset.to_string());
    let statement = passages::statement(place, sources).or(line).or(address);
    [place.function.clone(), name, statement].into_iter().map(Option::unwrap_or_default).collect()
}

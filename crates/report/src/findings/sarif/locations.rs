//! Places as SARIF has them: a file and a region of it, or a module and an address; always a physical place, since some
//! readers refuse results without one.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use program::source::SourceCache;
use serde_json::{Value, json};
use trace::finding::Place;

use crate::look::Look;

/// The name of the folder that relative paths start from.
const ROOT: &str = "SRCROOT";

/// What a path in a URI must not hold as it is.
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    // The first part of a relative path would be taken for a scheme.
    .add(b':');

pub(super) struct Locations<'a> {
    pub sources: &'a mut SourceCache,
    pub look: &'a Look,
}

impl Locations<'_> {
    pub(super) fn bases(&self) -> Option<Value> {
        let folder = self.look.folder()?;
        let uri = format!("{}/", uri(folder).trim_end_matches('/'));
        Some(json!({ROOT: {"uri": uri}}))
    }

    pub(super) fn location(&mut self, place: &Place) -> Value {
        let mut location = json!({"physicalLocation": self.physical(place)});
        if let Some(function) = &place.function {
            location["logicalLocations"] = json!([{"fullyQualifiedName": function, "kind": "function"}]);
        }
        location
    }

    fn physical(&mut self, place: &Place) -> Value {
        let mut physical = match (&place.file, &place.module) {
            (Some(file), _) => json!({"artifactLocation": self.artifact(file)}),
            (None, Some(module)) => json!({"artifactLocation": {"uri": encoded(module.as_bytes())}}),
            (None, None) => json!({"artifactLocation": {"uri": "unknown"}}),
        };
        if let Some(region) = self.region(place) {
            physical["region"] = region;
        }
        if let Some(address) = address(place) {
            physical["address"] = address;
        }
        physical
    }

    fn artifact(&self, file: &Path) -> Value {
        match self.look.inside(file) {
            Some(inside) => json!({"uri": encoded(inside.as_os_str().as_bytes()), "uriBaseId": ROOT}),
            None => json!({"uri": uri(file)}),
        }
    }

    /// Lines and columns count from one; a file without a line has no region.
    fn region(&mut self, place: &Place) -> Option<Value> {
        let file = place.file.as_ref()?;
        let line = place.line.filter(|line| *line > 0)?;
        let mut region = json!({"startLine": line});
        if let Some(text) = self.sources.source_line(file, line) {
            let before = place.column.and_then(|column| text.get(..usize::try_from(column).ok()?.checked_sub(1)?));
            if let Some(before) = before {
                region["startColumn"] = json!(before.chars().count() + 1);
            }
            region["snippet"] = json!({"text": text});
        }
        Some(region)
    }
}

/// Addresses beyond what the format's readers take as a number are left out.
fn address(place: &Place) -> Option<Value> {
    let number = |address: trace::finding::Address| i64::try_from(address.0).ok();
    let mut value = json!({});
    if let Some(pc) = place.pc.and_then(number) {
        value["absoluteAddress"] = json!(pc);
    }
    if let Some(offset) = place.module_offset.and_then(number) {
        value["relativeAddress"] = json!(offset);
    }
    value.as_object().is_some_and(|fields| !fields.is_empty()).then_some(value)
}

fn uri(path: &Path) -> String {
    let text = encoded(path.as_os_str().as_bytes());
    if path.is_absolute() { format!("file://{text}") } else { text }
}

fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, NOT_IN_PATHS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn paths_become_uris_byte_for_byte() {
        let uri_of = |bytes: &[u8]| uri(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(uri_of(b"/a b/c%d/x.c"), "file:///a%20b/c%25d/x.c");
        assert_eq!(uri_of(b"/caf\xe9.c"), "file:///caf%E9.c");
        assert_eq!(uri_of(b"c:x.c"), "c%3Ax.c");
    }
}

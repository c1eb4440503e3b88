//! `recording.json`: what is recorded, for people and for lists. Nothing else depends on it: a recording without it, or with
//! a damaged one, can be read all the same.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::format::{MANIFEST, VERSION};

const SCHEMA: &str = "whodunit/recording/1";

/// More than any manifest has: a larger file is not one.
const LARGEST: u64 = 16 << 20;

/// Texts that are not UTF-8 are kept as well as that goes; the log has the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// As printed by `whodunit --version`.
    pub tool: String,
    pub program: String,
    /// The program's name first.
    pub arguments: Vec<String>,
    pub directory: String,
    pub started: SystemTime,
}

impl Manifest {
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let value = json!({
            "schema": SCHEMA,
            "format": VERSION.to_string(),
            "tool": self.tool,
            "program": self.program,
            "arguments": self.arguments,
            "directory": self.directory,
            "started": started.as_secs_f64(),
        });
        let temporary = folder.join(format!(".{MANIFEST}"));
        fs::write(&temporary, format!("{value:#}\n"))?;
        fs::rename(temporary, folder.join(MANIFEST))
    }

    pub(crate) fn read(folder: &Path) -> Option<Manifest> {
        let path = folder.join(MANIFEST);
        if fs::metadata(&path).ok()?.len() > LARGEST {
            return None;
        }
        Manifest::parse(&fs::read(path).ok()?)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Manifest> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        if value["schema"] != SCHEMA {
            return None;
        }
        let arguments = value["arguments"].as_array()?.iter();
        let started = Duration::try_from_secs_f64(value["started"].as_f64()?).ok()?;
        Some(Manifest {
            tool: text("tool")?,
            program: text("program")?,
            arguments: arguments.map(|argument| argument.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            directory: text("directory")?,
            started: UNIX_EPOCH.checked_add(started)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_manifest_is_none() {
        assert_eq!(Manifest::parse(b""), None);
        assert_eq!(Manifest::parse(b"[1, 2]"), None);
        assert_eq!(Manifest::parse(br#"{"schema": "whodunit/recording/1"}"#), None);
        let huge = br#"{"schema": "whodunit/recording/1", "tool": "", "program": "", "arguments": [], "directory": "", "started": 1e300}"#;
        assert_eq!(Manifest::parse(huge), None);
    }
}

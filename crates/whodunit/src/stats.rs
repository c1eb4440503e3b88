//! The figures of a run, for people and for programs.

use crate::settings::{Settings, name_of};
use engine::Stats;
use std::path::{Path, PathBuf};

/// Fields are added to this schema, never renamed.
const SCHEMA: &str = "whodunit/stats/1";

/// Where the figures go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    StandardError,
    /// An absolute path: the guest may change its folder.
    File(PathBuf),
}

impl Destination {
    /// Finds out before the guest starts whether the file could be written.
    pub fn file(path: &Path) -> Result<Destination, String> {
        let absolute = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = absolute.parent().filter(|folder| folder.is_dir());
        if folder.is_none() || absolute.is_dir() {
            return Err(format!("{}: cannot be written; name a file in a folder that exists", path.display()));
        }
        Ok(Destination::File(absolute))
    }
}

enum Value {
    Count(u64),
    Seconds(f64),
    Text(String),
}

type Row = (&'static str, Value);

fn rows(stats: &Stats, settings: &Settings) -> Vec<Row> {
    use Value::{Count, Seconds, Text};
    vec![
        ("units", Count(stats.cache.units)),
        ("instructions", Count(stats.cache.instructions)),
        ("code_bytes", Count(stats.code_bytes)),
        ("flushes", Count(stats.cache.flushes)),
        ("invalidated", Count(stats.cache.invalidated)),
        ("hot_paths", Count(stats.cache.hot_paths)),
        ("translation_seconds", Seconds(stats.cache.translation.as_secs_f64())),
        ("system_calls", Count(stats.system_calls)),
        ("exits", Count(stats.exits)),
        ("signals", Count(stats.signals)),
        ("switches", Count(stats.turn.switches)),
        ("threads", Count(stats.turn.threads)),
        ("schedule_hash", Text(format!("{:016x}", stats.turn.schedule_hash))),
        ("clock", Count(stats.clock)),
        ("seed", Count(settings.seed)),
        ("policy", Text(name_of(settings.policy))),
        ("quantum", Count(settings.quantum)),
    ]
}

/// Names as the JSON has them, in words.
pub fn table(stats: &Stats, settings: &Settings) -> String {
    let mut text = String::from("whodunit: figures of this run\n");
    for (name, value) in rows(stats, settings) {
        let value = match value {
            Value::Count(count) => count.to_string(),
            Value::Seconds(seconds) => format!("{seconds:.6}"),
            Value::Text(text) => text,
        };
        text += &format!("  {:<20} {value:>20}\n", name.replace('_', " "));
    }
    text
}

/// One object. No text in it needs escapes.
pub fn json(stats: &Stats, settings: &Settings) -> String {
    let mut text = format!("{{\n  \"schema\": \"{SCHEMA}\"");
    for (name, value) in rows(stats, settings) {
        let value = match value {
            Value::Count(count) => count.to_string(),
            Value::Seconds(seconds) => format!("{seconds:.6}"),
            Value::Text(text) => format!("\"{text}\""),
        };
        text += &format!(",\n  \"{name}\": {value}");
    }
    text + "\n}\n"
}

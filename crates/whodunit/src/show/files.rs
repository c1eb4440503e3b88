//! `show --files`: the files that were mapped, by which versions of them can be told apart.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use trace::event::File;
use trace::{Digest, Ending, Event, Log};

use crate::recordings::text::{escaped_bytes, size};

/// Files by path and content; a program may have replaced one.
#[derive(Default)]
pub struct Files(BTreeMap<(Vec<u8>, Option<Digest>), Known>);

struct Known {
    size: u64,
    build_id: String,
}

impl Files {
    /// Reads all events of a log, and tells what comes after the last.
    pub fn add(&mut self, log: &Log) -> Ending {
        let mut cursor = log.cursor();
        while let Some(record) = cursor.next() {
            if let Event::File(file) = record.event {
                let known = Known { size: file.size, build_id: build_id(&file) };
                self.0.insert((file.path.to_vec(), file.checksum), known);
            }
        }
        cursor.ending()
    }

    pub fn write(&self, as_json: bool) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for ((path, checksum), known) in &self.0 {
            match as_json {
                true => writeln!(out, "{}", json(path, *checksum, known))?,
                false => writeln!(out, "{}", line(path, *checksum, known))?,
            }
        }
        out.flush()
    }
}

/// In hexadecimal digits; empty if the file has none.
pub fn build_id(file: &File<'_>) -> String {
    file.build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `  17.7 kB  93ac61ec5a8eb139  /home/ada/list, build id 7ebc…`
fn line(path: &[u8], checksum: Option<Digest>, known: &Known) -> String {
    let checksum = checksum.map_or_else(|| "-".to_owned(), |checksum| checksum.to_string());
    let build_id = if known.build_id.is_empty() { String::new() } else { format!(", build id {}", known.build_id) };
    format!("{:>9}  {checksum:<16}  {}{build_id}", size(known.size), escaped_bytes(path))
}

fn json(path: &[u8], checksum: Option<Digest>, known: &Known) -> Value {
    json!({
        "path": String::from_utf8_lossy(path),
        "size": known.size,
        "checksum": checksum.map(|checksum| checksum.to_string()),
        "build_id": (!known.build_id.is_empty()).then_some(&known.build_id),
    })
}

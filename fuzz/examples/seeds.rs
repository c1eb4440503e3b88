//! Makes the corpora that the targets start from, out of what there is: `seeds CORPUS RECORDING… FILE…`.
//!
//! A recording (a folder) gives logs, events, an archive and a manifest; an ELF file modules and code to unwind; any other
//! file is a document, and each of its lines a place.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use trace::format::{ChunkHeader, Codec, LogHeader, MANIFEST, log_name, tail_name};
use trace::{Digest, Recording};

/// Large inputs make a fuzzer slow.
const LARGEST: usize = 64 << 10;
const LARGEST_MODULE: usize = 256 << 10;
const EVENTS_IN_A_SEED: usize = 12;

type Outcome = Result<(), Box<dyn Error>>;

struct Corpus(PathBuf);

impl Corpus {
    fn add(&self, target: &str, bytes: &[u8]) -> Outcome {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(Digest::of(bytes).to_string()), bytes)?)
    }

    fn add_recording(&self, folder: &Path) -> Outcome {
        let recording = Recording::open(folder)?;
        for &number in recording.logs() {
            let log = fs::read(folder.join(log_name(number)))?;
            let tail = fs::read(folder.join(tail_name(number))).unwrap_or_default();
            if log.len() + tail.len() <= LARGEST {
                self.add("log", &[&(log.len() as u32).to_le_bytes()[..], &log, &tail].concat())?;
            }
            self.add_events(&log)?;
        }
        let manifest = fs::read(folder.join(MANIFEST))?;
        self.add("folder", &manifest)?;
        self.add_archive(&[(MANIFEST, &manifest), ("1.log", &fs::read(folder.join(log_name(1)))?)])
    }

    /// The events of each chunk, a few at a time.
    fn add_events(&self, log: &[u8]) -> Outcome {
        let mut rest = log.get(LogHeader::SIZE..).unwrap_or_default();
        while let Some((header, body)) = rest.split_first_chunk() {
            let Some(header) = ChunkHeader::decode(header) else { break };
            let (body, behind) = body.split_at_checked(header.stored as usize).ok_or("a chunk is cut off")?;
            let raw = match header.codec {
                Codec::Plain => body.to_vec(),
                Codec::Zstd => zstd::bulk::decompress(body, header.raw as usize)?,
            };
            for events in whole_events(&raw).chunks(EVENTS_IN_A_SEED).take(40) {
                let bytes = events.concat();
                if bytes.len() <= LARGEST {
                    self.add("events", &bytes)?;
                }
            }
            rest = behind;
        }
        Ok(())
    }

    fn add_archive(&self, members: &[(&str, &[u8])]) -> Outcome {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            builder.append_data(&mut header, name, *bytes)?;
        }
        let archive = builder.into_inner()?;
        if archive.len() <= LARGEST { self.add("pack", &archive) } else { Ok(()) }
    }

    fn add_module(&self, bytes: &[u8]) -> Outcome {
        self.add("elf", &bytes[..bytes.len().min(4096)])?;
        if bytes.len() <= LARGEST_MODULE {
            self.add("module", bytes)?;
            let registers = [0x11000_u64.to_le_bytes(); 17].concat();
            self.add("unwind", &[&registers, bytes].concat())?;
            self.add("instruction", &bytes[bytes.len() / 4..][..bytes.len() / 16])?;
        }
        Ok(())
    }

    fn add_text(&self, bytes: &[u8]) -> Outcome {
        self.add("documents", bytes)?;
        self.add("folder", bytes)?;
        self.add("script", &bytes[..bytes.len().min(256)])?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| (1..80).contains(&line.len())).take(200) {
            self.add("place", line)?;
        }
        Ok(())
    }

    fn add_file(&self, path: &Path) -> Outcome {
        if path.is_dir() {
            return self.add_recording(path);
        }
        let bytes = fs::read(path)?;
        match &bytes[..] {
            [0x7f, b'E', b'L', b'F', ..] => self.add_module(&bytes),
            _ if bytes.get(8..15) == Some(b"WHOPACK") => self.add("pack_file", &bytes),
            _ => self.add_text(&bytes),
        }
    }
}

/// Events as they stand in a chunk, each with its length in front.
fn whole_events(mut raw: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    while !raw.is_empty() {
        let digits = raw.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let length = raw.iter().take(digits).rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        let Some((event, rest)) = raw.split_at_checked(digits + length) else { break };
        events.push(event);
        raw = rest;
    }
    events
}

fn main() -> Outcome {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let corpus = Corpus(arguments.next().ok_or("usage: seeds CORPUS RECORDING… FILE…")?);
    for path in arguments {
        corpus.add_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

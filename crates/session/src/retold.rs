//! What-if runs as recordings of their own.

use engine::Teller;
use std::io;
use std::path::Path;
use trace::event::Event;
use trace::format::TAIL_SIZE;
use trace::{FileSink, NewRecording, Writer};

/// Keeps what a run of the recording in `source` tells in an empty folder. Without an end, it is no recording.
pub fn teller(source: &Path, folder: &Path) -> io::Result<Teller> {
    let NewRecording { first_log, .. } = NewRecording::beside(source, folder, TAIL_SIZE)?;
    let (tail, sink) = (vec![0; TAIL_SIZE], FileSink::new(first_log.log));
    let failed = |error: trace::WriteError| io::Error::other(error.to_string());
    let mut writer = Some(Writer::create(first_log.id, tail, sink).map_err(failed)?);
    // What is told goes to the log alone, since nobody needs a run that was not told to its end.
    std::fs::remove_file(first_log.tail_path)?;
    Ok(Box::new(move |event| {
        let is_end = matches!(event, Event::End(_));
        let is_written = writer.as_mut().is_some_and(|writer| writer.append(event).is_ok());
        if is_end && let Some(writer) = &mut writer {
            let _ = writer.seal();
        }
        if !is_written {
            writer = None;
        }
    }))
}

//! One task for many recordings that begin alike: a process follows the first of them up to where they part, and copies of it
//! go on from there, each with its own.
//!
//! The process gets the task on its standard input, and then the recordings, one after the other. It answers each with a line
//! that begins with [`ANSWER`], or with [`REFUSAL`] and what the copy has said instead. It also learns from the first copies what code they ran,
//! and translates that before it makes more.

use super::{Reply, Subject, Task, not_started, said, spawn};
use crate::recordings::Trouble;
use crate::{status, voice};
use engine::{Continuation, Wishes};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use trace::Recording;

const ANSWER: u8 = b'=';
const REFUSAL: u8 = b'!';
/// From so many copies a process learns; what only later ones run is not worth a list.
const LESSONS: u32 = 3;

/// A recording to go on with.
#[derive(Serialize, Deserialize)]
struct Order {
    folder: PathBuf,
    log: u32,
}

/// A process that has followed what recordings have in common, as seen from who asks.
pub struct Stem {
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
    is_gone: bool,
}

impl Stem {
    /// Follows a recording up to this event, with a task that others will be asked about, too.
    pub fn start(subject: &Subject<'_>, parts_at: u64, task: &Task) -> Result<Stem, Trouble> {
        let (mut child, orders) = spawn(subject, Some(parts_at), task)?;
        let replies = child.stdout.take().ok_or_else(|| not_started(io::Error::other("it has no output")))?;
        Ok(Stem { child, orders, replies: BufReader::new(replies), is_gone: false })
    }

    /// Asks a copy that goes on with this recording.
    pub fn ask<T: DeserializeOwned>(&mut self, folder: &Path, log: u32) -> Result<T, Trouble> {
        let order = serde_json::to_vec(&Order { folder: folder.to_owned(), log });
        let order = order.map_err(|error| not_started(error.into()))?;
        // One that refuses does not read; it says why.
        let _ = self.orders.write_all(&order);
        let mut line = Vec::new();
        self.replies.read_until(b'\n', &mut line).map_err(not_started)?;
        match line.split_first() {
            Some((&ANSWER, answer)) => Reply(answer.to_vec())
                .read()
                .map_err(|error| Trouble::Refused(format!("a replay gave an answer that makes no sense: {error}"))),
            Some((_, refusal)) => Err(said(serde_json::from_slice::<String>(refusal).unwrap_or_default().as_bytes())),
            None => Err(self.gone()),
        }
    }

    /// Whether it answers no more.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Why it answers no more.
    fn gone(&mut self) -> Trouble {
        self.is_gone = true;
        let mut errors = Vec::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_end(&mut errors);
        }
        said(&errors)
    }
}

impl Drop for Stem {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process itself, and in a copy of it what that goes on with.
#[derive(Default)]
pub struct Siblings {
    followed: OnceLock<(Recording, u32)>,
    n_copied: AtomicU32,
}

impl Siblings {
    /// Makes copies as it is told. Comes back in each of them; the process itself ends here.
    pub fn part(&self) -> Continuation {
        let served = self.serve().map_err(|error| error.to_string());
        served.and_then(|order| self.follow(&order)).unwrap_or_else(|problem| {
            voice::say_last(&format!("whodunit: {problem}\n"));
            engine::leave(status::MACHINE)
        })
    }

    /// The recording that this copy goes on with, and its log.
    pub fn followed(&self) -> Option<&(Recording, u32)> {
        self.followed.get()
    }

    fn serve(&self) -> io::Result<Order> {
        for order in Deserializer::from_reader(io::stdin().lock()).into_iter() {
            let (answer, writer) = io::pipe()?;
            let errors = File::from(memfd_create("errors", MemfdFlags::CLOEXEC)?);
            match engine::copy_process()? {
                None => {
                    dup2_stdout(writer)?;
                    dup2_stderr(&errors)?;
                    return Ok(order?);
                }
                Some(pid) => {
                    drop(writer);
                    self.pass_on(pid, answer, errors)?;
                }
            }
        }
        engine::leave(0)
    }

    /// Waits for what a copy has to tell.
    fn pass_on(&self, pid: u32, answer: PipeReader, mut errors: File) -> io::Result<()> {
        let (mut line, mut lesson) = (vec![ANSWER], Vec::new());
        let mut answer = BufReader::new(answer);
        answer.read_until(b'\n', &mut line)?;
        answer.read_to_end(&mut lesson)?;
        let _ = Pid::from_raw(pid.cast_signed()).map(|pid| waitpid(Some(pid), WaitOptions::empty()));
        if !line.ends_with(b"\n") {
            (line, lesson) = (refusal(&mut errors)?, Vec::new());
        }
        let units: Vec<u64> = serde_json::from_slice(&lesson).unwrap_or_default();
        let mut out = io::stdout().lock();
        out.write_all(&line)?;
        out.flush()?;
        self.n_copied.fetch_add(1, Ordering::Relaxed);
        // Whoever asks is busy with the answer.
        engine::translate(&units);
        Ok(())
    }

    /// In a copy that has answered: what it ran, if that is still worth knowing.
    pub fn lesson(&self) -> Option<Reply> {
        let is_wanted = self.followed().is_some() && self.n_copied.load(Ordering::Relaxed) < LESSONS;
        is_wanted.then(|| Reply::of(&engine::translated()))
    }

    fn follow(&self, order: &Order) -> Result<Continuation, String> {
        let recording = Recording::open(&order.folder).map_err(|error| error.to_string())?;
        let recorded =
            session::recorded(&recording, order.log, Wishes::default()).map_err(|error| error.to_string())?;
        let _ = self.followed.set((recording, order.log));
        Ok(Continuation { cursor: recorded.first.cursor, files: recorded.files })
    }
}

fn refusal(errors: &mut File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    errors.rewind()?;
    errors.read_to_end(&mut text)?;
    let mut line = vec![REFUSAL];
    line.extend(serde_json::to_vec(&String::from_utf8_lossy(&text))?);
    line.push(b'\n');
    Ok(line)
}

//! Replays all processes of a recording and shows what they wrote in the order in which they wrote it.
//!
//! Every process image is replayed by a process of its own, which tells on its standard output what the guest writes and
//! when (`Frame`). What was written first is shown first, and an image is not started before its time has come, so that no more
//! of them are there at once than there were. Images are ordered by when they began where nothing else tells.

use crate::{status, voice};
use nix::sys::signal::Signal;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use trace::Recording;

/// What a replay says when it has come to the end of its log, in place of a stream.
const DONE: u8 = 0;
const STANDARD_OUTPUT: u8 = 1;
/// So much is told at once.
const LARGEST_PIECE: usize = 1 << 16;

/// Something that a replayed process has written.
struct Frame {
    /// When, or 0 if that was not recorded.
    nanoseconds: u64,
    /// 1 is standard output, 2 standard error.
    stream: u8,
    bytes: Vec<u8>,
}

impl Frame {
    /// `None` where no more come.
    fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let mut head = [0; 13];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [stream, a, b, c, d, e, f, g, h, length @ ..] = head;
        let length = u64::from(u32::from_le_bytes(length));
        let mut bytes = Vec::new();
        from.take(length).read_to_end(&mut bytes)?;
        Ok(Some(Frame { nanoseconds: u64::from_le_bytes([a, b, c, d, e, f, g, h]), stream, bytes }))
    }
}

/// Says in a process that replays for another one what the guest wrote; ends it if nobody listens any more.
pub fn tell(nanoseconds: u64, stream: u8, bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let mut tell = |piece: &[u8]| {
        let mut frame = vec![stream];
        frame.extend(nanoseconds.to_le_bytes());
        frame.extend((piece.len() as u32).to_le_bytes());
        frame.extend(piece);
        out.write_all(&frame)
    };
    let told = match bytes {
        [] => tell(bytes),
        _ => bytes.chunks(LARGEST_PIECE).try_for_each(tell),
    };
    if told.and_then(|()| out.flush()).is_err() {
        engine::leave(status::MACHINE);
    }
}

/// Says there that the replay came to its end.
pub fn tell_done() {
    tell(0, DONE, &[]);
}

/// A process image.
struct Source {
    log: u32,
    /// When it began, then when what is shown next was written.
    nanoseconds: u64,
    state: State,
}

enum State {
    Waiting,
    Running(Box<Running>),
    Over,
}

struct Running {
    process: Child,
    output: BufReader<ChildStdout>,
    /// What it says itself.
    words: JoinHandle<Vec<u8>>,
    next: Option<Frame>,
    is_done: bool,
}

impl Running {
    fn begin(mut process: Child) -> io::Result<Running> {
        let missing = || io::Error::other("a replay without output");
        let output = BufReader::new(process.stdout.take().ok_or_else(missing)?);
        let mut errors = process.stderr.take().ok_or_else(missing)?;
        let words = thread::spawn(move || {
            let mut words = Vec::new();
            let _ = errors.read_to_end(&mut words);
            words
        });
        let mut running = Running { process, output, words, next: None, is_done: false };
        running.advance()?;
        Ok(running)
    }

    fn advance(&mut self) -> io::Result<()> {
        self.next = Frame::read(&mut self.output)?;
        if self.next.as_ref().is_some_and(|frame| frame.stream == DONE) {
            self.is_done = true;
            self.next = Frame::read(&mut self.output)?;
        }
        Ok(())
    }
}

/// All images of a recording, in the order of their logs.
pub struct Together<'a> {
    recording: &'a Recording,
    /// What is put before the log's number.
    words: Vec<&'a str>,
    sources: Vec<Source>,
    /// The images of the first process.
    chain: Vec<u32>,
    /// How the last of them ended.
    status: Option<ExitStatus>,
    /// What some image ended with that did not come to its end.
    failure: Option<u8>,
}

impl<'a> Together<'a> {
    pub fn new(recording: &'a Recording, has_reports: bool) -> Together<'a> {
        let mut words = vec!["replay", "--told"];
        if !has_reports {
            words.push("--no-report");
        }
        // Where a recorder was killed, children may have gone on that it could not tell of any more.
        let first = recording.logs().first();
        let is_played = |log: &u32| Some(log) == first || session::has_beginning(recording, *log);
        let source = |log: u32| Source {
            log,
            nanoseconds: session::began(recording, log).unwrap_or_default(),
            state: State::Waiting,
        };
        let sources = recording.logs().iter().copied().filter(is_played).map(source).collect();
        Together { recording, words, sources, chain: session::first_process(recording), status: None, failure: None }
    }

    /// Replays, and ends as the recorded program did.
    pub fn run(mut self) -> ExitCode {
        loop {
            let waits = |source: &&mut Source| !matches!(source.state, State::Over);
            let Some(source) = self.sources.iter_mut().filter(waits).min_by_key(|source| source.nanoseconds) else {
                break;
            };
            let log = source.log;
            if let Err(error) = self.go_on(log) {
                voice::say(&format!("whodunit: process image {log} cannot be replayed: {error}\n"));
                return ExitCode::from(status::MACHINE);
            }
        }
        if let Some(failure) = self.failure {
            return ExitCode::from(failure);
        }
        match self.status {
            Some(status) => match status.signal() {
                Some(signal) => engine::leave_by(signal),
                None => ExitCode::from(status.code().unwrap_or_default() as u8),
            },
            None => ExitCode::from(status::MACHINE),
        }
    }

    /// Does the next thing about the image whose turn it is.
    fn go_on(&mut self, log: u32) -> io::Result<()> {
        let Some(at) = self.sources.iter().position(|source| source.log == log) else { return Ok(()) };
        match std::mem::replace(&mut self.sources[at].state, State::Over) {
            State::Waiting => {
                let running = Running::begin(self.start(log)?)?;
                self.keep(at, Box::new(running));
            }
            State::Running(mut running) => match running.next.take() {
                Some(frame) => {
                    show(frame.stream, &frame.bytes)?;
                    running.advance()?;
                    self.keep(at, running);
                }
                None => self.finish(log, *running)?,
            },
            State::Over => {}
        }
        Ok(())
    }

    /// What was written earlier in the same process is shown earlier, whatever the clock said.
    fn keep(&mut self, at: usize, running: Box<Running>) {
        let source = &mut self.sources[at];
        let next = running.next.as_ref().map_or(0, |frame| frame.nanoseconds);
        source.nanoseconds = source.nanoseconds.max(next);
        source.state = State::Running(running);
    }

    fn start(&self, log: u32) -> io::Result<Child> {
        let own: PathBuf = std::env::current_exe()?;
        let mut command = Command::new(own);
        command.args(&self.words).arg("--process").arg(log.to_string()).arg(self.recording.folder());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }

    fn finish(&mut self, log: u32, mut running: Running) -> io::Result<()> {
        let words = running.words.join().unwrap_or_default();
        voice::say(&String::from_utf8_lossy(&words));
        let ended = running.process.wait()?;
        if !running.is_done {
            let is_bug = ended.code() == Some(status::BUG);
            self.failure.get_or_insert(if is_bug { status::BUG as u8 } else { status::MACHINE });
        }
        if self.chain.last() == Some(&log) {
            self.status = Some(ended);
        }
        Ok(())
    }
}

fn show(stream: u8, bytes: &[u8]) -> io::Result<()> {
    if stream == STANDARD_OUTPUT {
        let mut out = io::stdout().lock();
        return match out.write_all(bytes).and_then(|()| out.flush()) {
            // The program would have been ended so, too.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => engine::leave_by(Signal::SIGPIPE as i32),
            shown => shown,
        };
    }
    // There may be nobody to hear it, as with the program itself.
    let _ = io::stderr().write_all(bytes);
    Ok(())
}

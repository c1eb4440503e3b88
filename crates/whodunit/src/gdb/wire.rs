//! What the server and the processes that replay say to each other: frames of JSON over a socket.

use engine::{Piece, ThreadRegisters, Watch, Watching};
use gdbstub::target::ext::breakpoints::WatchKind;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What a process that replays is told.
#[derive(Serialize, Deserialize, Debug)]
pub enum Command {
    Run(Errand),
    Threads,
    Read {
        address: u64,
        length: usize,
    },
    /// Tell whether one of the stops may lie behind that place.
    Passed {
        stops: Stops,
        since: Mark,
    },
    /// Make a copy of yourself, which gets the socket that follows.
    Fork,
    /// Stop soon. What comes when nothing runs is not answered.
    Interrupt,
}

/// What it answers.
#[derive(Serialize, Deserialize, Debug)]
pub enum Reply {
    Stopped(Box<Stop>),
    Threads(Vec<Thread>),
    Bytes(Vec<u8>),
    Passed(bool),
    Forked(Result<(), String>),
}

/// A run, and where it ends.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Errand {
    pub aim: Aim,
    pub stops: Stops,
    /// The guest's output was shown up to this event.
    pub shown: u64,
}

/// What the user wants to stop at.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Stops {
    pub breakpoints: BTreeSet<u64>,
    pub watched: Vec<Watchpoint>,
}

impl Stops {
    pub fn watches(&self) -> Vec<Watch> {
        let watch = |point: &Watchpoint| Watch { range: point.range.clone(), what: point.kind.into() };
        self.watched.iter().map(watch).collect()
    }
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Watchpoint {
    pub range: Range<u64>,
    pub kind: Kind,
}

/// gdb's `watch`, `rwatch` and `awatch`.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Write,
    Read,
    Access,
}

impl From<WatchKind> for Kind {
    fn from(kind: WatchKind) -> Kind {
        match kind {
            WatchKind::Write => Kind::Write,
            WatchKind::Read => Kind::Read,
            WatchKind::ReadWrite => Kind::Access,
        }
    }
}

impl From<Kind> for WatchKind {
    fn from(kind: Kind) -> WatchKind {
        match kind {
            Kind::Write => WatchKind::Write,
            Kind::Read => WatchKind::Read,
            Kind::Access => WatchKind::ReadWrite,
        }
    }
}

impl From<Kind> for Watching {
    fn from(kind: Kind) -> Watching {
        match kind {
            Kind::Write => Watching::Changes,
            Kind::Read => Watching::Reads,
            Kind::Access => Watching::Accesses,
        }
    }
}

#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub enum Aim {
    /// To the first of the stops.
    Forward,
    /// To where this thread has run one instruction, or to a stop before that.
    Step { thread: u32 },
    /// To a place, with a look at the stops on the way: the last one is in the answer.
    To(Mark),
    /// To one of the stops.
    Hit(Hit),
    /// To a place shortly before the first instruction that runs after so many events at this clock.
    Before { event: u64, clock: u64 },
    /// To a place by steps, which are counted.
    Count(Mark),
    /// So many instructions on.
    Steps(u64),
}

/// A place of the run. Events and clock tell it to within a few instructions; the digest, of registers and stack, tells
/// one time that the instruction is reached from another.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub event: u64,
    pub clock: u64,
    pub pc: u64,
    pub digest: u64,
}

impl Mark {
    /// What tells the order of most places.
    pub fn coarse(&self) -> (u64, u64) {
        (self.event, self.clock)
    }
}

/// A stop that a run came by: one of those after so many events at this clock.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    pub event: u64,
    pub clock: u64,
    pub ordinal: u64,
    /// A breakpoint that was only there to find the end of the search.
    pub extra: Option<u64>,
    /// The watched range that changed; a breakpoint otherwise.
    pub watch: Option<usize>,
}

/// Where and why a run has stopped.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Stop {
    pub why: Reason,
    pub mark: Mark,
    pub thread: u32,
    /// No instruction has run since the last event.
    pub fresh: bool,
    /// The clock when the last event had happened.
    pub first: u64,
    /// What ran between the last event and the one before: events, first and last clock.
    pub previous: Option<(u64, u64, u64)>,
    /// The last of the stops that the run came by.
    pub hit: Option<Hit>,
    pub steps: u64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    Began,
    Arrived,
    Breakpoint,
    Watch(usize),
    Stepped,
    /// Time for a checkpoint.
    Paused,
    Interrupted,
    Exited(i32),
    Killed(i32),
    /// The recording ends here, for this reason.
    Ends(String),
    /// The place that was looked for did not come.
    Lost,
}

/// A thread's registers; see [`ThreadRegisters`].
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Thread {
    pub thread: u32,
    pub tid: i32,
    pub general: [u64; 16],
    pub pc: u64,
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub legacy: Vec<u8>,
    pub in_call: bool,
}

impl From<ThreadRegisters> for Thread {
    fn from(registers: ThreadRegisters) -> Thread {
        let ThreadRegisters { thread, tid, general, pc, rflags, fs_base, gs_base, legacy, in_call } = registers;
        Thread { thread, tid, general, pc, rflags, fs_base, gs_base, legacy, in_call }
    }
}

pub fn words_of(piece: Piece) -> (u64, u64, u64) {
    (piece.event, piece.first, piece.last)
}

pub fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    stream.write_all(&frame)
}

pub fn receive<T: DeserializeOwned>(mut stream: &UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Sends one end of a socket through another.
pub fn send_socket(stream: &UnixStream, socket: &UnixStream) -> io::Result<()> {
    let descriptors = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

pub fn receive_socket(stream: &UnixStream) -> io::Result<UnixStream> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let descriptor: OwnedFd = received.ok_or_else(|| io::Error::other("a socket was to come"))?;
    Ok(UnixStream::from(descriptor))
}

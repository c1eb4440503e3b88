//! `whodunit replay --gdb`: a recording under gdb, forwards and backwards.
//!
//! The server speaks with gdb and never runs the guest. It starts one process that replays, which copies itself for
//! checkpoints and for every way back; all of them end when the server does.

mod debuggee;
mod ears;
mod errand;
mod registers;
mod target;
mod timeline;
mod wire;

use crate::replay::refuse;
use crate::voice;
use debuggee::Debuggee;
use ears::Ears;
use engine::Debugger;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use target::Player;
use timeline::{Process, Timeline};

/// Where gdb is waited for if nothing else is said: any free port, for this machine only.
pub const ANYWHERE: &str = "127.0.0.1:0";

/// A process that replays gets its orders through standard input.
pub fn debuggee() -> io::Result<Box<dyn Debugger>> {
    let server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Copies of this process must not hold the server's end of a conversation that is not theirs.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Box::new(Debuggee::new(server)))
}

/// What is to be debugged.
pub struct Subject<'a> {
    /// The words behind `whodunit` that replay it.
    pub words: Vec<&'a OsStr>,
    /// The program's path, when it was recorded.
    pub executable: Vec<u8>,
}

pub fn serve(subject: &Subject<'_>, address: &str) -> ExitCode {
    match listen_and_serve(subject, address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => refuse(&problem.to_string()),
    }
}

fn listen_and_serve(subject: &Subject<'_>, address: &str) -> io::Result<()> {
    let listener = Listener::open(address)?;
    let (mut child, first) = start(subject)?;
    // A recording that cannot be replayed is told before gdb is asked for.
    let timeline = Timeline::new(first, &mut Ears::new(None));
    let timeline = timeline.map_err(|_| io::Error::other("the recording cannot be replayed"))?;
    let program = String::from_utf8_lossy(&subject.executable).into_owned();
    voice::say(&format!(
        "whodunit: waiting for gdb; in another terminal:\n  \
         gdb -ex 'set sysroot /' -ex 'target remote {}' {program}\n",
        listener.name()?
    ));
    let result = match listener.accept()? {
        Connection::Tcp(stream) => {
            stream.set_nodelay(true)?;
            let ears = stream.as_fd().try_clone_to_owned()?;
            talk(stream, ears, timeline, subject.executable.clone())
        }
        Connection::Unix(stream) => {
            let ears = stream.as_fd().try_clone_to_owned()?;
            talk(stream, ears, timeline, subject.executable.clone())
        }
    };
    let _ = child.wait();
    result
}

/// Starts the process that replays.
fn start(subject: &Subject<'_>) -> io::Result<(Child, Process)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(std::env::current_exe()?)
        .args(&subject.words)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    Ok((child, Process::new(ours)))
}

fn talk<C>(connection: C, ears: OwnedFd, timeline: Timeline, executable: Vec<u8>) -> io::Result<()>
where
    C: ConnectionExt<Error = io::Error> + 'static,
{
    let mut player = Player::new(timeline, Ears::new(Some(ears)), executable)?;
    match GdbStub::new(connection).run_blocking::<Loop<C>>(&mut player) {
        Ok(
            DisconnectReason::TargetExited(_)
            | DisconnectReason::TargetTerminated(_)
            | DisconnectReason::Disconnect
            | DisconnectReason::Kill,
        ) => Ok(()),
        // gdb may go without a word.
        Err(error) if error.is_connection_error() => Ok(()),
        Err(error) => match error.into_target_error() {
            Some(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            Some(error) => Err(error),
            None => Err(io::Error::other("gdb said something that is not its protocol")),
        },
    }
}

struct Loop<C>(PhantomData<C>);

impl<C: ConnectionExt<Error = io::Error>> BlockingEventLoop for Loop<C> {
    type Target = Player;
    type Connection = C;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        player: &mut Player,
        _: &mut C,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<io::Error, io::Error>> {
        // The player itself listens for interrupts.
        player.go().map(Event::TargetStopped).map_err(WaitForStopReasonError::Target)
    }

    fn on_interrupt(_: &mut Player) -> io::Result<Option<Self::StopReason>> {
        Ok(None)
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// A port of this machine, `HOST:PORT`, or the path of a socket, which has a slash in it.
    fn open(address: &str) -> io::Result<Listener> {
        let told = |error: io::Error| io::Error::other(format!("cannot wait for gdb at {address}: {error}"));
        if address.contains('/') {
            let listener = UnixListener::bind(address).map_err(told)?;
            return Ok(Listener::Unix(listener, Path::new(address).to_owned()));
        }
        let listener = match address.parse::<u16>() {
            Ok(port) => TcpListener::bind(("127.0.0.1", port)),
            Err(_) => TcpListener::bind(address),
        };
        Ok(Listener::Tcp(listener.map_err(told)?))
    }

    fn name(&self) -> io::Result<String> {
        match self {
            Listener::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Listener::Unix(_, path) => Ok(path.display().to_string()),
        }
    }

    fn accept(&self) -> io::Result<Connection> {
        match self {
            Listener::Tcp(listener) => Ok(Connection::Tcp(listener.accept()?.0)),
            Listener::Unix(listener, path) => {
                let connection = listener.accept()?.0;
                // Nobody else is waited for.
                let _ = std::fs::remove_file(path);
                Ok(Connection::Unix(connection))
            }
        }
    }
}

//! Replay has no effects: no file is made, changed or removed, no packet sent, no process signalled.
//!
//! `guests/effects.c` does all that while it is recorded. Then the world is put into another state, and the replay may
//! neither change it nor depend on it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::place::{Place, guest, text, told};
use crate::support::compare::{Named, difference};
use crate::support::execute::{Ending, Outcome};

/// Only a process that is stopped takes as long as this for one line.
const PATIENCE: Duration = Duration::from_secs(20);

/// What can be sent to.
struct Net {
    datagrams: UdpSocket,
    streams: TcpListener,
}

impl Net {
    fn new() -> Net {
        Net { datagrams: UdpSocket::bind("127.0.0.1:0").unwrap(), streams: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn ports(&self) -> [String; 2] {
        [self.datagrams.local_addr().unwrap().port(), self.streams.local_addr().unwrap().port()]
            .map(|port| port.to_string())
    }

    /// What has come so far, on both. Packets do not overtake each other on the loopback, so what is sent here comes
    /// behind all that was sent before.
    fn arrived(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(LAST, self.datagrams.local_addr().unwrap()).unwrap();
        TcpStream::connect(self.streams.local_addr().unwrap()).unwrap().write_all(LAST).unwrap();
        (before_last(|| self.datagram()), before_last(|| self.stream()))
    }

    fn datagram(&self) -> Vec<u8> {
        let mut bytes = [0; 64];
        let length = self.datagrams.recv(&mut bytes).unwrap();
        bytes[..length].to_vec()
    }

    fn stream(&self) -> Vec<u8> {
        let mut received = Vec::new();
        self.streams.accept().unwrap().0.read_to_end(&mut received).unwrap();
        received
    }
}

const LAST: &[u8] = b"last";

/// The one message before the last, if there is one.
fn before_last(mut next: impl FnMut() -> Vec<u8>) -> Option<Vec<u8>> {
    let message = Some(next()).filter(|message| message != LAST);
    if message.is_some() {
        assert_eq!(next(), LAST);
    }
    message
}

/// A process that says what it is told, unless it is stopped.
struct Other {
    process: Child,
    input: ChildStdin,
    output: Option<BufReader<ChildStdout>>,
}

impl Other {
    fn new() -> Other {
        let mut process =
            Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat can be started");
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Other { process, input, output: Some(BufReader::new(output)) }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits until the third field of its line in `/proc` says that it is stopped.
    fn wait_until_stopped(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
            if line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
                return;
            }
            assert!(Instant::now() < deadline, "the other process was not stopped: {line}");
            std::thread::yield_now();
        }
    }

    /// Whether a line comes back. A signal sent before is acted upon first, so a stopped process does not answer.
    fn answers(&mut self) -> bool {
        self.input.write_all(b"are you there?\n").unwrap();
        let mut output = self.output.take().expect("the reader came back");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let is_right = output.read_line(&mut line).is_ok() && line == "are you there?\n";
            let _ = sender.send((is_right, output));
        });
        match receiver.recv_timeout(PATIENCE) {
            Ok((is_right, output)) => {
                self.output = Some(output);
                is_right
            }
            Err(_) => false,
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The world in which the program was recorded, and what was seen then.
struct Recorded {
    place: Place,
    net: Net,
    other: Other,
    outcome: Outcome,
}

const FILES: [(&str, &str); 4] = [
    ("input.txt", "a line of input\n"),
    ("grown.txt", "some\n"),
    ("old.txt", "to be renamed\n"),
    ("doomed.txt", "to be removed\n"),
];

impl Recorded {
    fn new() -> Recorded {
        let place = Place::new("effects");
        let (net, other) = (Net::new(), Other::new());
        let world = place.path("world");
        fs::create_dir(&world).unwrap();
        for (name, content) in FILES {
            fs::write(world.join(name), content).unwrap();
        }
        fs::write(place.path("input"), "what was typed\n").unwrap();
        let mut command = place.whodunit(["record", "--"]);
        command.arg(guest("effects").program).args(net.ports()).arg(other.process.id().to_string());
        command.current_dir(&world).stdin(File::open(place.path("input")).unwrap());
        let outcome = place.finish(&mut command);
        Recorded { place, net, other, outcome }
    }

    fn world(&self) -> PathBuf {
        self.place.path("world")
    }

    /// The recording did what it says: else the absence of effects means nothing.
    fn check_effects(&mut self) {
        assert_eq!(self.outcome.ending, Ending::Exited(5), "{}", told(&self.outcome));
        let hello = Some(b"hello".to_vec());
        assert_eq!(self.net.arrived(), (hello.clone(), hello));
        assert_eq!(names_in(&self.world()), ["folder", "grown.txt", "input.txt", "made.txt"]);
        assert_eq!(fs::read_to_string(self.world().join("grown.txt")).unwrap(), "some\nmore\n");
        self.other.wait_until_stopped();
        self.other.signal("CONT");
        assert!(self.other.answers());
    }

    /// Another state: nothing that the program needs is there, and what it would remove is.
    fn change_world(&self) {
        fs::remove_dir_all(self.world()).unwrap();
        fs::create_dir(self.world()).unwrap();
        for (name, content) in [("grown.txt", "short\n"), ("doomed.txt", "alive\n")] {
            fs::write(self.world().join(name), content).unwrap();
        }
        fs::remove_file(self.place.path("input")).unwrap();
    }

    /// Replays by `command` and finds the world as it was left.
    fn check_replay(&mut self, command: &mut Command) {
        let replayed = self.place.finish(command);
        if let Some(difference) = difference(Named("recorded", &self.outcome), Named("replayed", &replayed)) {
            panic!("{difference}{}", told(&replayed));
        }
        assert_eq!(names_in(&self.world()), ["doomed.txt", "grown.txt"]);
        assert_eq!(fs::read_to_string(self.world().join("grown.txt")).unwrap(), "short\n");
        assert_eq!(names_in(&self.place.path("elsewhere")), Vec::<String>::new());
        assert_eq!(self.net.arrived(), (None, None));
        assert!(self.other.answers(), "the other process is stopped");
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A shell that closes standard input before it goes on.
fn without_input(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command("/bin/sh");
    command.args(["-c", r#"exec "$@" <&-"#, "sh"]).args(words);
    command
}

#[test]
fn nothing_but_output_comes_of_a_replay() {
    let mut recorded = Recorded::new();
    recorded.check_effects();
    recorded.change_world();
    let whodunit = text(crate::support::whodunit_binary().as_encoded_bytes());
    let elsewhere = without_input(&recorded.place, &[&whodunit, "replay", "latest"]);
    // Where the program was is no place to be careless either.
    let mut in_place = without_input(&recorded.place, &[&whodunit, "replay", "latest"]);
    in_place.current_dir(recorded.world());
    for mut command in [elsewhere, in_place] {
        recorded.check_replay(&mut command);
    }
    let mut verify = recorded.place.whodunit(["verify", "latest"]);
    verify.current_dir(recorded.world());
    let outcome = recorded.place.finish(&mut verify);
    assert_eq!(outcome.ending, Ending::Exited(0), "{}", told(&outcome));
    assert_eq!(names_in(&recorded.world()), ["doomed.txt", "grown.txt"]);
    assert_eq!(recorded.net.arrived(), (None, None));
    assert!(recorded.other.answers(), "the other process is stopped");
}

/// Without a network, no user and with nobody else's processes to be seen, if the machine lets us make such a place; else
/// with nothing listening any more.
#[test]
fn a_replay_needs_no_network() {
    let mut recorded = Recorded::new();
    recorded.check_effects();
    recorded.change_world();
    let can_unshare =
        Command::new("unshare").args(["-rn", "true"]).output().is_ok_and(|output| output.status.success());
    let whodunit = text(crate::support::whodunit_binary().as_encoded_bytes());
    let words = ["unshare", "-rn", &whodunit, "replay", "latest"];
    let mut command = without_input(&recorded.place, if can_unshare { &words } else { &words[2..] });
    recorded.net = Net::new();
    recorded.check_replay(&mut command);
}

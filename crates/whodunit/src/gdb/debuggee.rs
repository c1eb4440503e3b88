//! A process that replays: it does what the server asks while it stands still, and runs the server's errands.

use super::errand::{Job, Progress};
use super::wire::{self, Command, Mark, Reason, Reply, Stops, Thread};
use engine::{Debugger, Guest, Orders, Why};
use std::io;
use std::os::unix::net::UnixStream;

pub struct Debuggee {
    server: UnixStream,
    job: Option<Job>,
}

impl Debuggee {
    pub fn new(server: UnixStream) -> Debuggee {
        Debuggee { server, job: None }
    }

    /// Answers the server until there is something to run.
    fn serve(&mut self, guest: &mut Guest<'_>) -> io::Result<Job> {
        loop {
            let reply = match wire::receive(&self.server)? {
                Command::Run(errand) => return Ok(Job::new(errand)),
                Command::Threads => Reply::Threads(guest.threads().into_iter().map(Thread::from).collect()),
                Command::Read { address, length } => Reply::Bytes(read_up_to(guest, address, length)),
                Command::Passed { stops, since } => Reply::Passed(may_have_passed(guest, &stops, since)),
                Command::Fork => match self.fork(guest)? {
                    Some(reply) => reply,
                    None => continue,
                },
                Command::Interrupt => continue,
            };
            wire::send(&self.server, &reply)?;
        }
    }

    /// Makes a copy, which goes on with a socket of its own and has nothing to say.
    fn fork(&mut self, guest: &mut Guest<'_>) -> io::Result<Option<Reply>> {
        let socket = wire::receive_socket(&self.server)?;
        match guest.fork() {
            Ok(true) => {
                self.server = socket;
                Ok(None)
            }
            Ok(false) => Ok(Some(Reply::Forked(Ok(())))),
            Err(error) => Ok(Some(Reply::Forked(Err(error.to_string())))),
        }
    }

    fn go_on(&mut self, why: &Why, guest: &mut Guest<'_>) -> io::Result<Orders> {
        let mut progress = match &mut self.job {
            Some(job) => job.next(why, guest, &self.server),
            None => Progress::Done(Job::report(why, Reason::Began, guest)),
        };
        loop {
            match progress {
                Progress::On(orders) => return Ok(orders),
                Progress::Done(stop) => wire::send(&self.server, &Reply::Stopped(Box::new(stop)))?,
            }
            let next = self.serve(guest)?;
            let job = self.job.insert(next);
            progress = job.start(guest, &self.server);
        }
    }
}

impl Debugger for Debuggee {
    fn stopped(&mut self, why: &Why, guest: &mut Guest<'_>) -> Orders {
        match self.go_on(why, guest) {
            Ok(orders) => orders,
            // The server is gone, or does not need this copy any more.
            Err(_) => std::process::exit(0),
        }
    }
}

fn may_have_passed(guest: &Guest<'_>, stops: &Stops, since: Mark) -> bool {
    let since = (since.event, since.clock, since.pc);
    guest.may_have_run(&stops.breakpoints, since) || guest.may_have_accessed(&stops.watches(), since)
}

/// As much as can be read, page by page.
fn read_up_to(guest: &Guest<'_>, address: u64, length: usize) -> Vec<u8> {
    const PAGE: u64 = 4096;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let Some(at) = address.checked_add(bytes.len() as u64) else { break };
        let part = ((PAGE - at % PAGE) as usize).min(length - bytes.len());
        let mut buffer = vec![0; part];
        if !guest.read(at, &mut buffer) {
            break;
        }
        bytes.extend_from_slice(&buffer);
    }
    bytes
}

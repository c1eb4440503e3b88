//! Reads the rest of a recording for what comes through sockets: which descriptor is which, call by call.

use super::super::answers::{Answer, subject};
use super::inputs::{Alert, Connection, Inputs, Recorded, Sent};
use super::is_about_descriptor;
use crate::kernel;
use crate::replay::descriptors::is_made_up;
use std::collections::{BTreeMap, BTreeSet};

/// Who answers calls on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What was recorded of it, as a source of input.
    Socket(usize),
    /// The run: both ends are the program's own.
    Own,
    /// The thread's recorded answers, or a file.
    Other,
}

#[derive(Default)]
pub struct Tail {
    kinds: BTreeMap<u64, Kind>,
    /// How much was sent through each socket.
    sent: BTreeMap<usize, Sent>,
    /// When a wait for events last reported something to a thread.
    reported: BTreeMap<u32, u64>,
    last_report: Option<u64>,
    /// The process itself, which sends signals too.
    pid: u32,
    /// Files of the system's own that are being read, by descriptor.
    opened: BTreeMap<u64, Vec<u8>>,
    /// What they hold, by path.
    pub contents: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Tail {
    /// `kinds` of descriptors as they are now, and threads that have been waiting for events so far.
    pub fn new(kinds: BTreeMap<u64, Kind>, waiters: &BTreeSet<u32>, pid: u32) -> Tail {
        let reported: BTreeMap<u32, u64> = waiters.iter().map(|thread| (*thread, 0)).collect();
        let last_report = reported.values().next().copied();
        Tail { kinds, reported, last_report, pid, ..Tail::default() }
    }

    fn kind(&self, descriptor: u64) -> Kind {
        self.kinds.get(&(descriptor & 0xffff_ffff)).copied().unwrap_or(Kind::Other)
    }

    /// Takes a call at an event; false if it is for the thread's own answers.
    pub fn hear(&mut self, inputs: &mut Inputs, position: u64, thread: u32, answer: &Answer) -> bool {
        if waits_for_events(answer.number) && answer.result > 0 {
            self.reported.insert(thread, position);
            self.last_report = Some(position);
        }
        let kind = if is_about_descriptor(answer.number) { self.kind(answer.arguments[0]) } else { Kind::Other };
        let is_fact = subject(answer.number, answer.arguments).is_some() && !is_sending(answer.number);
        if let Kind::Socket(source) = kind
            && !is_fact
        {
            self.hear_socket(inputs, source, position, thread, answer);
        }
        self.note_content(answer);
        self.note_descriptors(inputs, kind, answer);
        kind != Kind::Other && !is_fact
    }

    fn hear_socket(&mut self, inputs: &mut Inputs, source: usize, position: u64, thread: u32, answer: &Answer) {
        let after = self.sent.get(&source).copied().unwrap_or_default();
        let recorded = Recorded { position, arrival: self.arrival(thread, position), after };
        let Answer { number, arguments, result, .. } = *answer;
        match number as i64 {
            _ if is_sending(number) => {
                self.sent.entry(source).or_default().add(u64::try_from(result).unwrap_or(0));
            }
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
                let peeks = is_peek(number, arguments);
                let waits = [libc::EAGAIN, libc::EINTR].iter().any(|reason| result == -i64::from(*reason));
                match result {
                    _ if peeks || waits => {}
                    1.. => inputs.keep_bytes(source, &recorded, received(answer).into()),
                    _ => inputs.keep_end(source, &recorded, result),
                }
            }
            libc::SYS_accept | libc::SYS_accept4 => {
                if let Ok(descriptor) = u64::try_from(result) {
                    let address = answer.memory.iter().find(|(at, _)| *at == arguments[1] && *at != 0);
                    let address = address.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
                    let connected = inputs.add();
                    let connection = Connection { source: connected, descriptor, address };
                    inputs.keep_connection(source, &recorded, connection);
                    self.kinds.insert(descriptor, Kind::Socket(connected));
                }
            }
            libc::SYS_close => {}
            _ => inputs.keep_told(source, answer.clone()),
        }
    }

    /// When input must have been there that a thread took at an event: when something was last reported to it. One that never waits is
    /// told by others.
    fn arrival(&self, thread: u32, position: u64) -> u64 {
        self.reported.get(&thread).copied().or(self.last_report).unwrap_or(position)
    }

    /// What files tell that the system makes up: another thread may ask, too. Their names are constants, mostly, and there already.
    fn note_content(&mut self, answer: &Answer) {
        let [first, second, ..] = answer.arguments;
        let Ok(result) = u64::try_from(answer.result) else { return };
        match answer.number as i64 {
            libc::SYS_open | libc::SYS_openat => {
                let name = if answer.number as i64 == libc::SYS_open { first } else { second };
                let path = kernel::read_string(name, 4096).ok().filter(|path| is_made_up(path));
                self.opened.remove(&result);
                self.opened.extend(path.map(|path| (result, path)));
            }
            libc::SYS_read => {
                if let Some(path) = self.opened.remove(&first) {
                    self.contents.entry(path).or_insert_with(|| received(answer));
                }
            }
            _ => {}
        }
    }

    /// What descriptors lead to afterwards.
    fn note_descriptors(&mut self, inputs: &mut Inputs, kind: Kind, answer: &Answer) {
        let Ok(result) = u64::try_from(answer.result) else { return };
        let [first, second, _, fourth, ..] = answer.arguments;
        match answer.number as i64 {
            libc::SYS_close => {
                self.kinds.remove(&first);
            }
            libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => {
                self.kinds.insert(result, kind);
            }
            libc::SYS_fcntl if matches!(second as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                self.kinds.insert(result, kind);
            }
            libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create => {
                self.kinds.insert(result, Kind::Own);
            }
            libc::SYS_socket if is_stream(second) => {
                let source = inputs.expect(result);
                self.kinds.insert(result, Kind::Socket(source));
            }
            libc::SYS_pipe | libc::SYS_pipe2 => self.note_pair(first, answer),
            libc::SYS_socketpair => self.note_pair(fourth, answer),
            libc::SYS_open | libc::SYS_openat | libc::SYS_creat | libc::SYS_socket | libc::SYS_memfd_create => {
                self.kinds.remove(&result);
            }
            _ => {}
        }
    }

    fn note_pair(&mut self, room: u64, answer: &Answer) {
        let both = answer.memory.iter().find(|(address, _)| *address == room);
        for descriptor in both.iter().flat_map(|(_, bytes)| bytes.chunks_exact(4)) {
            let number = u32::from_le_bytes([descriptor[0], descriptor[1], descriptor[2], descriptor[3]]);
            self.kinds.insert(u64::from(number), Kind::Own);
        }
    }

    /// A signal that came; those that the program has sent itself, it sends again.
    pub fn hear_signal(&self, inputs: &mut Inputs, thread: u32, info: &[u8; 128]) {
        let word = |at: usize| i32::from_le_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        let (signal, code, sender) = (word(0), word(8), word(16));
        if code > 0 || sender.cast_unsigned() != self.pid {
            inputs.keep_alert(Alert { thread, signal });
        }
    }
}

/// The type of a socket that bytes come through in order.
pub fn is_stream(kind: u64) -> bool {
    const FLAGS: i32 = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    matches!(kind as i32 & !FLAGS, libc::SOCK_STREAM | libc::SOCK_SEQPACKET)
}

/// Calls that send through a socket, and give how many bytes.
pub fn is_sending(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendfile
    )
}

pub fn is_peek(number: u64, arguments: [u64; 6]) -> bool {
    flags_of(number, arguments) & libc::MSG_PEEK != 0
}

/// The flags of a call that receives.
pub fn flags_of(number: u64, arguments: [u64; 6]) -> i32 {
    match number as i64 {
        libc::SYS_recvfrom | libc::SYS_sendto => arguments[3] as i32,
        libc::SYS_recvmsg | libc::SYS_sendmsg => arguments[2] as i32,
        _ => 0,
    }
}

/// Calls that tell which descriptors are ready.
pub fn waits_for_events(number: u64) -> bool {
    super::is_poll(number)
        || matches!(number as i64, libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2)
}

/// The bytes that a call has received: what it wrote first, or to the room that it names.
fn received(answer: &Answer) -> Vec<u8> {
    let Answer { number, arguments: [_, room, ..], result, ref memory, .. } = *answer;
    let count = result as usize;
    let has_room = matches!(number as i64, libc::SYS_read | libc::SYS_recvfrom);
    let end = room.saturating_add(result as u64);
    let data = memory.iter().filter(|(address, _)| !has_room || (room..end).contains(address));
    data.flat_map(|(_, bytes)| bytes).copied().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::channels::inputs::Taken;

    fn answer(number: i64, arguments: [u64; 3], result: i64, memory: &[(u64, &[u8])]) -> Answer {
        let [first, second, third] = arguments;
        let memory = memory.iter().map(|(address, bytes)| (*address, bytes.to_vec())).collect();
        let arguments = [first, second, third, 0, 0, 0];
        Answer { number: number as u64, arguments, result, memory, maps: Vec::new() }
    }

    /// Descriptor 3 is a socket, 4 a set of events.
    fn tail() -> (Tail, Inputs) {
        let kinds = BTreeMap::from([(3, Kind::Socket(0)), (4, Kind::Own)]);
        (Tail::new(kinds, &BTreeSet::new(), 77), Inputs::with_sources(1))
    }

    #[test]
    fn what_an_accepted_connection_receives_is_its_own() {
        let (mut tail, mut inputs) = tail();
        let calls = [
            answer(libc::SYS_accept4, [3, 0x100, 0x200], 7, &[(0x100, &[2, 0])]),
            answer(libc::SYS_read, [7, 0x1000, 100], 5, &[(0x1000, b"hello")]),
            answer(libc::SYS_write, [7, 0x1000, 5], 5, &[]),
            answer(libc::SYS_read, [7, 0x1000, 100], -i64::from(libc::EAGAIN), &[]),
            answer(libc::SYS_read, [7, 0x1000, 100], 0, &[]),
            answer(libc::SYS_close, [7, 0, 0], 0, &[]),
        ];
        for (position, call) in (1..).zip(&calls) {
            assert!(tail.hear(&mut inputs, position, 1, call));
        }
        let read = answer(libc::SYS_read, [7, 0x1000, 100], 5, &[(0x1000, b"other")]);
        assert!(!tail.hear(&mut inputs, 9, 1, &read), "after the close, 7 is something else");
        let connection = inputs.accept(0).expect("somebody connects");
        assert_eq!((connection.descriptor, connection.address.as_slice()), (7, [2, 0].as_slice()));
        let source = connection.source;
        assert_eq!(inputs.take(source, 100, false), Some(Taken::Bytes(b"hello".to_vec())));
        assert_eq!(inputs.take(source, 100, false), None, "the end comes after the answer");
        inputs.sent(source, 5);
        assert_eq!(inputs.take(source, 100, false), Some(Taken::End(0)));
    }

    #[test]
    fn other_calls_stay_with_their_threads() {
        let (mut tail, mut inputs) = tail();
        let name = c"/tmp/log";
        let cases = [
            (answer(libc::SYS_read, [0, 0x1000, 100], 5, &[]), false),
            (answer(libc::SYS_fstat, [3, 0x1000, 0], 0, &[]), false),
            (answer(libc::SYS_epoll_wait, [4, 0x1000, 8], 1, &[]), true),
            (answer(libc::SYS_setsockopt, [3, 1, 2], 0, &[]), true),
            (answer(libc::SYS_eventfd2, [0, 0, 0], 9, &[]), false),
            (answer(libc::SYS_read, [9, 0x1000, 8], 8, &[]), true),
            (answer(libc::SYS_dup, [9, 0, 0], 10, &[]), true),
            (answer(libc::SYS_write, [10, 0x1000, 8], 8, &[]), true),
            (answer(libc::SYS_openat, [0, name.as_ptr() as u64, 0], 10, &[]), false),
            (answer(libc::SYS_write, [10, 0x1000, 8], 8, &[]), false),
        ];
        for (position, (call, is_taken)) in (1..).zip(&cases) {
            assert_eq!(tail.hear(&mut inputs, position, 1, call), *is_taken, "{call:?}");
        }
        assert!(inputs.told(0, libc::SYS_setsockopt as u64).is_some());
    }

    #[test]
    fn what_the_system_told_one_thread_it_tells_all() {
        let (mut tail, mut inputs) = tail();
        let name = c"/proc/sys/vm/overcommit_memory";
        let calls = [
            answer(libc::SYS_openat, [0, name.as_ptr() as u64, 0], 9, &[]),
            answer(libc::SYS_read, [9, 0x1000, 1], 1, &[(0x1000, b"1")]),
            answer(libc::SYS_read, [9, 0x1000, 1], 1, &[(0x1000, b"?")]),
        ];
        for (position, call) in (1..).zip(&calls) {
            assert!(!tail.hear(&mut inputs, position, 1, call));
        }
        assert_eq!(tail.contents, BTreeMap::from([(name.to_bytes().to_vec(), b"1".to_vec())]));
    }

    #[test]
    fn signals_of_the_program_itself_are_not_from_outside() {
        let (tail, mut inputs) = tail();
        let mut info = [0; 128];
        info[0] = libc::SIGTERM as u8;
        info[16] = 77;
        tail.hear_signal(&mut inputs, 1, &info);
        assert_eq!(inputs.alert(), None);
        info[16] = 78;
        tail.hear_signal(&mut inputs, 1, &info);
        assert_eq!(inputs.alert(), Some(Alert { thread: 1, signal: libc::SIGTERM }));
    }
}

//! What the tests share: seeded random events, and recordings in memory.
#![allow(dead_code, reason = "each test file uses a part of this")]

use trace::event::*;
use trace::format::LogId;
use trace::{Cursor, Digest, Ending, Event, List, Log, LogParts, Sink, Unopened, Writer};

pub const ID: LogId = LogId { recording: 0x7e57, log: 1 };

/// splitmix64: small, and the same everywhere.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Small more often than large, and every size of varint.
    pub fn number(&mut self) -> u64 {
        self.next() >> self.below(64)
    }

    pub fn small(&mut self) -> u32 {
        self.number() as u32 >> self.below(32)
    }

    pub fn signed(&mut self) -> i64 {
        self.number() as i64
    }

    pub fn digest(&mut self) -> Digest {
        Digest(self.next())
    }

    /// Bytes that live as long as the test: events borrow.
    pub fn bytes(&mut self, limit: usize) -> &'static [u8] {
        let length = self.below(limit);
        (0..length).map(|_| self.next() as u8).collect::<Vec<u8>>().leak()
    }

    pub fn text(&mut self) -> &'static str {
        let length = self.below(20);
        (0..length).map(|_| char::from(b' ' + self.below(90) as u8)).chain(['é']).collect::<String>().leak()
    }

    pub fn list<T>(&mut self, limit: usize, mut item: impl FnMut(&mut Rng) -> T) -> List<'static, T> {
        let length = self.below(limit);
        List::of((0..length).map(|_| item(self)).collect::<Vec<T>>().leak())
    }

    pub fn maybe<T>(&mut self, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        let there = self.below(2) == 1;
        there.then(|| value(self))
    }
}

/// How many kinds [`event`] knows.
pub const KINDS: usize = 21;

pub fn any_event(rng: &mut Rng) -> Event<'static> {
    let kind = rng.below(KINDS);
    event(rng, kind)
}

/// A random event of the kind of this index.
pub fn event(rng: &mut Rng, kind: usize) -> Event<'static> {
    let thread = rng.small();
    let clock = rng.number();
    match kind {
        0 => Event::Start(start(rng)),
        1 => Event::File(file(rng)),
        2 => Event::Map(map(rng)),
        3 => Event::Memory(Memory { thread, address: rng.number(), bytes: rng.bytes(300) }),
        4 => Event::Call(call(rng)),
        5 => {
            let (to, reason, registers, memory) = (rng.small(), reason(rng), rng.digest(), rng.maybe(glimpse));
            Event::Switch(Switch { from: thread, to, clock, reason, registers, memory })
        }
        6 => Event::Signal(signal(rng)),
        7 => {
            let values = rng.list(7, Rng::number);
            Event::Instruction(Instruction { thread, what: instruction(rng), values })
        }
        8 => Event::Thread(Thread { parent: thread, clock, child: rng.small(), tid: rng.small() }),
        9 => Event::ThreadEnd(ThreadEnd { thread, clock, status: rng.signed() as i32 }),
        10 => Event::Fork(Fork { thread, clock, child_pid: rng.small(), child_log: rng.small() }),
        11 => Event::Exec(Exec { thread, clock, next_log: rng.small() }),
        12 => Event::Output(Written { thread, descriptor: rng.signed() as i32, bytes: rng.bytes(200) }),
        13 => Event::Hash(hash(rng, thread, clock)),
        14 => Event::Note(Note { thread: rng.maybe(Rng::small), text: rng.text() }),
        15 => Event::End(end(rng)),
        16 => Event::Registers(Registers { thread, values: rng.list(21, Rng::number) }),
        17 => Event::Stream(Stream { thread, descriptor: rng.signed() as i32, stream: rng.next() as u8 }),
        18 => {
            let (file, size, offset) = (rng.small(), rng.number(), rng.number());
            Event::Change(Change { thread, file, size, offset, bytes: rng.bytes(200) })
        }
        19 => Event::Points(Points { addresses: rng.list(30, Rng::number) }),
        20 => Event::Time(Time { thread, nanoseconds: rng.number() }),
        _ => Event::Unknown { kind: 100 + rng.below(100) as u8, bytes: rng.bytes(50) },
    }
}

fn glimpse(rng: &mut Rng) -> Glimpse {
    let page = rng.maybe(|rng| Page { address: rng.number(), digest: rng.digest() });
    Glimpse { stack: rng.maybe(Rng::digest), page }
}

fn hash(rng: &mut Rng, thread: u32, clock: u64) -> Hash<'static> {
    let part = |rng: &mut Rng| MemoryPart { address: rng.number(), length: rng.number(), digest: rng.digest() };
    let (registers, memory, parts) = (rng.digest(), rng.digest(), rng.list(9, part));
    Hash { thread, clock, registers, memory, place: Some(SignalPlace::InsideCall), parts }
}

fn start(rng: &mut Rng) -> Start<'static> {
    Start {
        program: rng.bytes(30),
        arguments: rng.list(5, |rng| rng.bytes(20)),
        environment: rng.list(20, |rng| rng.bytes(40)),
        directory: rng.bytes(30),
        auxiliary: rng.list(20, |rng| Auxiliary { key: rng.number(), value: rng.number() }),
        random: rng.bytes(17),
        layout: rng.bytes(100),
        identity: Identity {
            pid: rng.small(),
            tid: rng.small(),
            parent_pid: rng.small(),
            uid: rng.small(),
            effective_uid: rng.small(),
            gid: rng.small(),
            effective_gid: rng.small(),
        },
        seed: rng.next(),
        policy: rng.text(),
        quantum: rng.number(),
        machine: Machine { kernel: rng.text(), processor: rng.text(), features: rng.list(30, Rng::text) },
        parent: rng.maybe(|rng| Parent { log: rng.small(), event: rng.number() }),
        wall_time: rng.number(),
        shown: Shown { level: shown_level(rng), components: rng.number() },
    }
}

fn file(rng: &mut Rng) -> File<'static> {
    File {
        id: rng.small(),
        path: rng.bytes(60),
        device: rng.number(),
        inode: rng.number(),
        size: rng.number(),
        modified: rng.signed(),
        build_id: rng.bytes(21),
        checksum: rng.maybe(Rng::digest),
    }
}

fn map(rng: &mut Rng) -> Map<'static> {
    Map {
        thread: rng.small(),
        address: rng.number(),
        length: rng.number(),
        protection: rng.small(),
        flags: rng.small(),
        file: rng.maybe(|rng| FilePart { id: rng.small(), offset: rng.number() }),
        content: rng.maybe(|rng| rng.bytes(300)),
    }
}

pub fn call(rng: &mut Rng) -> Call<'static> {
    Call {
        thread: rng.small(),
        clock: rng.number(),
        number: rng.small(),
        result: rng.signed(),
        arguments: rng.maybe(|rng| [(); 6].map(|()| rng.number())),
        effects: rng.list(4, |rng| Effect { address: rng.number(), bytes: rng.bytes(100) }),
    }
}

fn signal(rng: &mut Rng) -> Signal<'static> {
    let info: [u8; 128] = std::array::from_fn(|_| rng.next() as u8);
    let places = [
        SignalPlace::AtClock,
        SignalPlace::AtInstruction,
        SignalPlace::InsideCall,
        SignalPlace::AfterCall,
        SignalPlace::Other(77),
    ];
    Signal {
        thread: rng.small(),
        clock: rng.number(),
        place: places[rng.below(places.len())],
        pc: rng.number(),
        info: Box::leak(Box::new(info)),
    }
}

fn reason(rng: &mut Rng) -> SwitchReason {
    use SwitchReason::*;
    [QuantumOver, Yielded, Waiting, Ended, Signal, Asked, Other(200)][rng.below(7)]
}

fn instruction(rng: &mut Rng) -> InstructionKind {
    use InstructionKind::*;
    [Rdtsc, Rdtscp, Cpuid, Rdrand, Rdseed, Xgetbv, Other(9)][rng.below(7)]
}

fn shown_level(rng: &mut Rng) -> ShownLevel {
    use ShownLevel::*;
    [Native, V2, V3, V4, Other(0), Other(9)][rng.below(6)]
}

pub fn end(rng: &mut Rng) -> End<'static> {
    let aborts = [Abort::SizeLimit, Abort::TimeLimit, Abort::DiskFull, Abort::Asked, Abort::Other(40)];
    let kind = match rng.below(3) {
        0 => EndKind::Exited(rng.signed() as i32),
        1 => EndKind::Killed(Death { signal: rng.small(), code: rng.signed() as i32, address: rng.number() }),
        _ => EndKind::Aborted(aborts[rng.below(aborts.len())]),
    };
    End {
        kind,
        thread: rng.small(),
        clock: rng.number(),
        registers: rng.bytes(200),
        backtrace: rng.list(20, Rng::number),
        details: rng.bytes(50),
    }
}

/// The last event of a process that has exited.
pub fn exited(status: i32) -> Event<'static> {
    Event::End(End {
        kind: EndKind::Exited(status),
        thread: 1,
        clock: 0,
        registers: &[],
        backtrace: List::EMPTY,
        details: &[],
    })
}

/// A small event whose content tells its number.
pub fn marked(number: u64) -> Event<'static> {
    Event::Call(Call {
        thread: 1 + number as u32 % 3,
        clock: number * 10,
        number: 39,
        result: number as i64,
        arguments: None,
        effects: List::EMPTY,
    })
}

/// A log and a tail as they are at a moment.
#[derive(Clone)]
pub struct Image {
    pub log: Vec<u8>,
    pub tail: Vec<u8>,
}

impl Image {
    pub fn of(writer: &Writer<Vec<u8>, Vec<u8>>) -> Image {
        Image { log: writer.sink().clone(), tail: writer.memory().clone() }
    }

    pub fn open(&self) -> Result<Log, Unopened> {
        Log::from_parts(LogParts { log: Box::new(self.log.clone()), tail: self.tail.clone() })
    }

    /// How many of `events` come back; none may be different, or out of order.
    pub fn prefix_of(&self, events: &[Event<'_>]) -> (usize, Ending) {
        prefix(self.open().unwrap().cursor(), events)
    }
}

pub fn prefix(mut cursor: Cursor, events: &[Event<'_>]) -> (usize, Ending) {
    let mut count = 0;
    while let Some(record) = cursor.next() {
        assert_eq!(record.number, count as u64);
        assert_eq!(Some(&record.event), events.get(count), "event {count} was never written");
        count += 1;
    }
    (count, cursor.ending())
}

pub fn writer(tail: usize) -> Writer<Vec<u8>, Vec<u8>> {
    Writer::create(ID, vec![0; tail], Vec::new()).unwrap()
}

pub fn write_all<S: Sink>(writer: &mut Writer<Vec<u8>, S>, events: &[Event<'_>]) {
    for event in events {
        let expected = writer.next_event();
        assert_eq!(writer.append(event).unwrap(), expected);
    }
}

/// Events of all kinds but those that close a log.
pub fn random_events(seed: u64, count: usize) -> Vec<Event<'static>> {
    let mut rng = Rng(seed);
    std::iter::repeat_with(|| any_event(&mut rng)).filter(|event| !event.closes()).take(count).collect()
}

//! What the passes of the race detector take for an access.
//!
//! Run with `cargo bench -p analysis`, or `cargo bench -p analysis -- array` for the streams with that in their names.
//! Each line is a kind of stream: nanoseconds for each access, of the sieve, of a detector that looks at everything, of one
//! that has no suspects, and of the survey, the best of a few runs; and the memory of histories for each byte of the
//! guest's where the detector looks at everything.

use analysis::races::{Classify, Detector, Sieve, SiteClass, Survey, Surveyed, Suspects, SyncMemory};
use std::fs;
use trace::stream::{Access, AccessKind, Event, Listener, LockMode, Site, Thread};

const RUNS: usize = 5;
/// As many accesses as a replay hands over at once.
const BATCH: usize = 4096;
const HEAP: u64 = 0x5510_0000_0000;

/// One piece of a stream.
enum Piece {
    Accesses(Thread, Vec<Access>),
    Event(Thread, Event),
}

fn main() {
    println!(
        "{:28} {:>10} {:>10} {:>10} {:>10} {:>16}",
        "stream", "sieve", "detector", "filtered", "survey", "memory per byte"
    );
    measure("one thread so far", 1 << 16, lone());
    measure("same epoch, 64 places", 64 * 8, same_epoch());
    measure("array written, 32 MB", 32 << 20, array(8, AccessKind::Write));
    measure("array of ints read, 32 MB", 32 << 20, array(4, AccessKind::Read));
    measure("array in new epochs, 32 MB", 32 << 20, array_again());
    measure("read by four, 256 KB", 256 << 10, read_shared());
    measure("lock ping-pong", 64, ping_pong());
    measure("atomic counter", 8, atomic_counter());
    measure("copies of 64 KB", 64 << 10, copies());
}

fn access(address: u64, size: u32, site: u32, kind: AccessKind) -> Access {
    Access { address, size, site: Site(site), kind }
}

fn created() -> Vec<Piece> {
    (2..6).map(|child| Piece::Event(1, Event::Created { child })).collect()
}

/// Cuts one thread's accesses as a replay would.
fn batches(thread: Thread, accesses: Vec<Access>) -> Vec<Piece> {
    accesses.chunks(BATCH).map(|batch| Piece::Accesses(thread, batch.to_vec())).collect()
}

fn lone() -> Vec<Piece> {
    batches(1, (0..4_000_000).map(|i| access(HEAP + i % 8192 * 8, 8, i as u32 % 50, AccessKind::Write)).collect())
}

fn same_epoch() -> Vec<Piece> {
    let kinds = [AccessKind::Write, AccessKind::Read];
    let accesses = (0..4_000_000).map(|i| access(HEAP + i % 64 * 8, 8, i as u32 % 50, kinds[(i / 64) as usize % 2]));
    created().into_iter().chain(batches(1, accesses.collect())).collect()
}

fn array(size: u64, kind: AccessKind) -> Vec<Piece> {
    let accesses = (0..(32 << 20) / size).map(|i| access(HEAP + i * size, size as u32, 7, kind));
    created().into_iter().chain(batches(1, accesses.collect())).collect()
}

/// Another thread goes over the same array after the first.
fn array_again() -> Vec<Piece> {
    let mut pieces = array(8, AccessKind::Write);
    pieces.push(Piece::Event(1, Event::Released { object: 1, site: 0 }));
    pieces.push(Piece::Event(2, Event::Acquired { object: 1, site: 0 }));
    let walk = |kind| (0..4 << 20).map(move |i| access(HEAP + i * 8, 8, 8, kind));
    pieces.extend(batches(2, walk(AccessKind::Read).chain(walk(AccessKind::Write)).collect()));
    pieces
}

fn read_shared() -> Vec<Piece> {
    let mut pieces = created();
    for round in 0..100_u64 {
        let thread = 2 + round as u32 % 4;
        let reads = (0..32 << 10).map(|i| access(HEAP + i * 8, 8, 9, AccessKind::Read));
        pieces.extend(batches(thread, reads.collect()));
        pieces.push(Piece::Event(thread, Event::Released { object: u64::from(thread), site: 0 }));
    }
    pieces
}

fn ping_pong() -> Vec<Piece> {
    let mut pieces = created();
    for round in 0..200_000_u64 {
        let thread = 2 + round as u32 % 2;
        pieces.push(Piece::Event(thread, Event::Locked { object: 64, mode: LockMode::Exclusive, site: 0 }));
        let inside = (0..8).map(|i| access(HEAP + i * 8, 8, 10 + i as u32, AccessKind::Update)).collect();
        pieces.push(Piece::Accesses(thread, inside));
        pieces.push(Piece::Event(thread, Event::Unlocked { object: 64, site: 0 }));
    }
    pieces
}

fn atomic_counter() -> Vec<Piece> {
    let mut pieces = created();
    for round in 0..20_000_u32 {
        let adds = (0..64).map(|_| access(HEAP, 8, 20, AccessKind::Atomic)).collect();
        pieces.push(Piece::Accesses(2 + round % 4, adds));
    }
    pieces
}

/// Counted by words of eight bytes.
fn copies() -> Vec<Piece> {
    let mut pieces = created();
    for round in 0..500_u64 {
        let object = 5;
        pieces.push(Piece::Accesses(2, vec![access(HEAP, 64 << 10, 30 + round as u32 % 2, AccessKind::Write)]));
        pieces.push(Piece::Event(2, Event::Released { object, site: 0 }));
    }
    pieces
}

fn measure(name: &str, touched: u64, pieces: Vec<Piece>) {
    let mut wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    if wanted.peek().is_some() && !wanted.any(|part| name.contains(&part)) {
        return;
    }
    let mut best = [f64::MAX; 4];
    let mut memory = 0;
    for _ in 0..RUNS {
        let mut sieve = Sieve::new(all_plain());
        let mut detector = Detector::new(Surveyed::default(), all_plain());
        let mut filtered = Detector::among(Some(Suspects::default()), Surveyed::default(), all_plain());
        let mut survey = Survey::new(SyncMemory::default(), all_plain());
        let listeners: [&mut dyn Listener; 4] = [&mut sieve, &mut detector, &mut filtered, &mut survey];
        for (best, listener) in best.iter_mut().zip(listeners) {
            *best = best.min(time(listener, &pieces));
        }
        memory = detector.shadow_size();
        assert!(detector.into_found().races.is_empty(), "{name} has no races");
        assert_eq!(sieve.into_sieved().suspects, Some(Suspects::default()), "{name} has no suspects");
    }
    let times: String = best.iter().map(|time| format!(" {time:>7.2} ns")).collect();
    println!("{name:28}{times} {:>14.1} B", memory as f64 / touched as f64);
}

fn all_plain() -> Classify {
    Box::new(|_| SiteClass::Plain)
}

/// Nanoseconds for each access.
fn time(listener: &mut dyn Listener, pieces: &[Piece]) -> f64 {
    let start = nanoseconds_run();
    for piece in pieces {
        match piece {
            Piece::Accesses(thread, accesses) => listener.accesses(*thread, accesses),
            Piece::Event(thread, event) => listener.event(*thread, event),
        }
    }
    (nanoseconds_run() - start) as f64 / count(pieces) as f64
}

/// How long this thread has been on a processor: a busy machine hardly disturbs it.
fn nanoseconds_run() -> u64 {
    let figures = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells how long a thread has run");
    figures.split_whitespace().next().and_then(|figure| figure.parse().ok()).expect("the first figure is a time")
}

/// How many accesses, long ones counted by words.
fn count(pieces: &[Piece]) -> u64 {
    let words = |accesses: &[Access]| accesses.iter().map(|access| u64::from(access.size).div_ceil(8)).sum::<u64>();
    pieces.iter().map(|piece| if let Piece::Accesses(_, accesses) = piece { words(accesses) } else { 0 }).sum()
}

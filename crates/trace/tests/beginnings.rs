//! Logs that begin alike are known by what they hold before the process has a second thread.

mod support;

use support::*;
use trace::event::{Identity, Memory, Start, Thread};
use trace::{Beginning, Event, List};

fn start(pid: u32, seed: u64) -> Event<'static> {
    let identity = Identity { pid, tid: pid, parent_pid: 1, ..Identity::default() };
    Event::Start(Start { program: b"/bin/guest", identity, seed, policy: "walk", wall_time: seed, ..Start::default() })
}

fn thread() -> Event<'static> {
    Event::Thread(Thread { parent: 1, clock: 50, child: 2, tid: 7 })
}

/// How many calls come first, so that a small tail overflows.
const MANY: u64 = 200;

/// Of a log that begins with many calls, in chunks of two sizes: clocks are stored in different ways.
#[track_caller]
fn beginning(events: &[Event<'_>]) -> Option<Beginning> {
    let [one, other] = [1024, 64 << 10].map(|tail| {
        let mut writer = writer(tail);
        write_all(&mut writer, &events[..1]);
        write_all(&mut writer, &(0..MANY).map(|number| marked(3 * number)).collect::<Vec<_>>());
        write_all(&mut writer, &events[1..]);
        Beginning::of(&Image::of(&writer).open().unwrap())
    });
    assert_eq!(one, other, "chunks are of no concern");
    one
}

#[test]
fn runs_of_one_process_begin_alike_whoever_they_are() {
    let number = |byte: &'static [u8]| Event::Memory(Memory { thread: 1, address: 0x1000, bytes: byte });
    let one = beginning(&[start(1, 1), marked(0), marked(3), marked(6), number(b"1"), thread(), marked(1)]);
    let other = beginning(&[start(2, 2), marked(0), marked(3), marked(6), number(b"2"), thread(), marked(2)]);
    assert_eq!(
        one.map(|beginning| beginning.events),
        Some(MANY + 4),
        "the last call, and not what belongs to the next"
    );
    assert_eq!(one, other);
}

#[test]
fn other_calls_and_other_memory_are_another_beginning() {
    let number = |byte: &'static [u8]| Event::Memory(Memory { thread: 1, address: 0x1000, bytes: byte });
    let with = |bytes, call| beginning(&[start(1, 1), number(bytes), marked(0), marked(call), thread()]);
    assert_eq!(with(b"1", 3), with(b"1", 3));
    assert_ne!(with(b"1", 3), with(b"2", 3));
    assert_ne!(with(b"1", 3), with(b"1", 6));
}

#[test]
fn lone_threads_and_forked_processes_have_none() {
    assert_eq!(beginning(&[start(1, 1), marked(0), marked(3), exited(0)]), None);
    let Event::Start(start) = start(1, 1) else { unreachable!() };
    let parent = Some(trace::event::Parent { log: 1, event: 9 });
    let forked = Event::Start(Start { parent, arguments: List::EMPTY, ..start });
    assert_eq!(beginning(&[forked, marked(0), thread()]), None);
}

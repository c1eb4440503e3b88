use super::*;
use std::collections::BTreeSet;
use std::ops::Range;
use trace::stream::{AccessKind, LockMode};

const ALL: [Kind; 6] = [Kind::Accesses, Kind::Sync, Kind::Memory, Kind::Threads, Kind::Calls, Kind::Syscalls];

fn access(address: u64, site: u32) -> stream::Access {
    stream::Access { address, size: 4, site: Site(site), kind: AccessKind::Write }
}

/// A small stream of two threads.
fn play(lines: &mut Lines) {
    lines.site(Site(0), 0x1000);
    lines.site(Site(1), 0x2000);
    lines.coming(Moment { event: 5, inherited: false });
    lines.accesses(1, &[access(0x10, 0), access(0x20, 1)]);
    lines.event(1, &Event::Called { site: 0x1010, target: 0x2000, return_address: 0x1015, stack: 0x9000 });
    lines.event(1, &Event::Locked { object: 0x30, mode: LockMode::Exclusive, site: 0x2005 });
    lines.coming(Moment { event: 6, inherited: false });
    lines.event(1, &Event::Allocated { address: 0x100, size: 64, site: 0x2010 });
    lines.event(1, &Event::Returned { target: 0x1015 });
    lines.accesses(2, &[access(0x108, 1)]);
    lines.event(2, &Event::Ended);
}

fn told(selection: Selection) -> Vec<Line> {
    let mut lines = Lines::new(selection);
    play(&mut lines);
    let text = std::str::from_utf8(&lines.text).expect("lines are text").to_owned();
    let parsed = text.lines().map(|line| serde_json::from_str(line).expect("a line that can be read"));
    parsed.filter_map(|told| if let Told::Line(line) = told { Some(line) } else { None }).collect()
}

fn everything() -> Selection {
    Selection { kinds: BTreeSet::from(ALL), ..Selection::default() }
}

fn only(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

fn ordinals(selection: Selection) -> Vec<(u64, Kind)> {
    told(selection).iter().map(|line| (line.ordinal, line.what.kind())).collect()
}

#[test]
fn everything_in_order() {
    use Kind::{Accesses, Calls, Memory, Sync, Threads};
    let expected =
        [(1, Accesses), (2, Accesses), (3, Calls), (3, Sync), (4, Memory), (5, Calls), (5, Accesses), (6, Threads)];
    assert_eq!(ordinals(everything()), expected);
}

#[test]
fn each_kind_has_the_ordinals_that_it_has_among_all() {
    let all = ordinals(everything());
    for kind in ALL {
        let expected: Vec<(u64, Kind)> = all.iter().copied().filter(|(_, told)| *told == kind).collect();
        assert_eq!(ordinals(Selection { kinds: BTreeSet::from([kind]), ..everything() }), expected, "{kind:?}");
    }
}

#[test]
fn by_thread_code_memory_and_time() {
    let numbers = |selection| ordinals(selection).into_iter().map(|(ordinal, _)| ordinal).collect::<Vec<_>>();
    assert_eq!(numbers(Selection { threads: BTreeSet::from([2]), ..everything() }), [5, 6]);
    assert_eq!(numbers(Selection { code: only(0x2000..0x2008), ..everything() }), [2, 3, 3, 5, 5]);
    assert_eq!(numbers(Selection { memory: only(0x22..0x31), ..everything() }), [2, 3]);
    assert_eq!(numbers(Selection { from: Some(6), ..everything() }), [4, 5, 5, 6]);
    assert_eq!(numbers(Selection { to: Some(5), ..everything() }), [1, 2, 3, 3]);
}

#[test]
fn accesses_know_their_block() {
    let lines = told(Selection { kinds: BTreeSet::from([Kind::Accesses]), ..Selection::default() });
    let blocks: Vec<Option<u64>> = lines.iter().map(|line| line.block.map(|block| block.site)).collect();
    assert_eq!(blocks, [None, None, Some(0x2010)]);
}

//! Bytes, ranges, blocks and mappings.

use super::streams::{Done, Stream, races_of, rows_of};
use analysis::races::{Action, Detector, Instance, SiteClass, Surveyed};
use trace::stream::{Access, AccessKind, Event, Listener, Site, Thread};

#[test]
fn neighbouring_bytes_do_not_race() {
    let races = races_of(
        "T1          | T2
         write x:4   |
         write x+4:1 |
                     | write x+5:1
                     | write x+6:2
         write x:4   |
         write x+4:1 |",
    );
    assert_eq!(races, []);
}

#[test]
fn the_byte_that_is_shared_is_told() {
    let found = Stream::of(
        "T1          | T2
         write x:4   |
         write x+4:4 |
                     | write x+2:4",
    )
    .found();
    assert_eq!(rows_of(&found.races), [(1, 3), (2, 3)]);
    let bytes: Vec<u64> = found.races.iter().map(|race| race.instances[0].address % 8).collect();
    assert_eq!(bytes, [2, 4]);
}

#[test]
fn a_byte_by_byte_walk_keeps_its_place() {
    let found = Stream::of(
        "T1             | T2
         write x:1 @9   |
         write x+1:1 @9 |
         write x+2:1 @9 |
                        | read x+2:1",
    )
    .found();
    assert_eq!(rows_of(&found.races), [(9, 4)]);
    let instance = &found.races[0].instances[0];
    let write = |address| Access { address, size: 1, site: Site(9), kind: AccessKind::Write };
    let matching: Vec<u64> = (1..=3)
        .filter(|ordinal| instance.first.is(instance.address, *ordinal, &write(instance.address + ordinal - 3)))
        .collect();
    assert_eq!(matching, [3], "the accesses from its ordinal on tell which it was");
}

#[test]
fn readers_are_all_remembered() {
    let races = races_of(
        "T1      | T2     | T3     | T4
                 | read x |        |
                 |        | read x |
                 |        |        | read x
         write x |        |        |",
    );
    assert_eq!(races, [(1, 4), (2, 4), (3, 4)]);
}

#[test]
fn a_read_after_ones_own_write_is_remembered_in_its_own_right() {
    let races = races_of(
        "T1        | T2
         write x   |
         release s |
         read x    |
                   | acquire s
                   | write x",
    );
    assert_eq!(races, [(3, 5)]);
}

#[test]
fn ranges_race_where_they_overlap() {
    let found = Stream::of(
        "T1             | T2
         write x:100000 |
                        | read x+99999:1
                        | read x+100000:1",
    )
    .found();
    assert_eq!(rows_of(&found.races), [(1, 2)]);
    assert_eq!(found.races[0].instances[0].first.size, 65_535, "larger sizes are not kept");
    let races = races_of(
        "T1             | T2
         write x+4090:1 |
         write x+4100:1 |
                        | write x+4091:9
                        | write x+4089:12",
    );
    assert_eq!(races, [(1, 4), (2, 4)]);
}

#[test]
fn addresses_of_the_kernel_are_not_looked_at() {
    let mut stream = Stream::of("T1 | T2\n write x |");
    for (thread, address) in [(1, u64::MAX - 3), (2, u64::MAX - 3), (1, 1 << 47), (2, 1 << 47)] {
        let access = Access { address, size: 8, site: Site(2), kind: AccessKind::Write };
        stream.steps.push((thread, Done::Access(access)));
        stream.steps.push((thread, Done::Event(Event::Mapped { address, size: u64::MAX })));
    }
    assert_eq!(stream.found().races, []);
}

#[test]
fn giving_back_a_block_races_with_its_use() {
    let found = Stream::of(
        "T1          | T2
         malloc p:64 |
         release s   |
                     | acquire s
                     | read p+8
         free p      |",
    )
    .found();
    assert_eq!(rows_of(&found.races), [(4, 5)]);
    let second = &found.races[0].instances[0].second;
    assert_eq!((second.action, second.size, second.site, second.ordinal), (Action::Freed, 64, None, 1));
}

#[test]
fn huge_blocks_and_mappings_cost_only_what_was_touched() {
    let races = races_of(
        "T1                      | T2
         malloc p:70000000000000 |
         write p+60000000000000  |
         free p                  |
                                 | read p+60000000000000
         map p:70000000000000    |
                                 | read p+60000000000000",
    );
    assert_eq!(races, [(3, 4)]);
}

#[test]
fn use_after_giving_back_races_too() {
    let races = races_of(
        "T1          | T2
         malloc p:64 |
         write p+8   |
         free p      |
                     | write p+8",
    );
    assert_eq!(races, [(3, 4)]);
    let races = races_of(
        "T1           | T2
         malloc p:64  |
         atomic p+8   |
                      | atomic p+8
         free p       |
                      | atomic p+8",
    );
    assert_eq!(races, [(4, 5)], "a lock in a block that is gone");
}

#[test]
fn a_new_block_has_no_past() {
    let races = races_of(
        "T1          | T2
         malloc p:64 |
         write p     |
         free p      |
                     | malloc p:64
                     | write p
                     | write p+56",
    );
    assert_eq!(races, []);
}

#[test]
fn a_new_mapping_has_no_past() {
    let table = "T1             | T2
         write p+8      |
         write p+5000   |
         write p+8190:4 |
         map p:8192     |
                        | write p+8
                        | write p+5000
                        | write p+8190:4";
    assert_eq!(races_of(table), [(3, 7)], "its last two bytes lie behind the mapping");
}

#[test]
fn a_stack_is_used_again_by_a_new_thread() {
    let races = races_of(
        "T1          | T2             | T3
         map p:65536 |                |
         create 2    |                |
                     | write p+60000  |
                     | read p+60000   |
                     | end            |
         map p:65536 |                |
         create 3    |                |
                     |                | write p+60000",
    );
    assert_eq!(races, []);
}

#[test]
fn sites_of_no_concern_are_left_out_but_counted() {
    let table = "T1      | T2
         write x |
         write y |
                 | write x
                 | write y";
    let stream = Stream::of(table).with_class(1, SiteClass::Ignored).with_class(3, SiteClass::Ignored);
    let found = stream.found();
    assert_eq!(rows_of(&found.races), [(2, 4)]);
    assert_eq!(found.races[0].instances[0].first.ordinal, 2);
}

/// Walks over 4 MB by four bytes.
fn walk(site: u32, kind: AccessKind) -> Vec<Access> {
    (0..1 << 20).map(|i| Access { address: 0x10_0000 + i * 4, size: 4, site: Site(site), kind }).collect()
}

fn pass_the_baton(detector: &mut Detector, from: Thread, to: Thread) {
    detector.event(from, &Event::Released { object: 1, site: 0 });
    detector.event(to, &Event::Acquired { object: 1, site: 0 });
}

/// Four times the guest's memory, and the table in which pages are found.
const MOST_MEMORY: usize = (4 << 22) + (1 << 20);

#[test]
fn histories_take_at_most_four_times_the_memory() {
    let mut detector = Detector::new(Surveyed::default(), Box::new(|_| SiteClass::Plain));
    detector.event(1, &Event::Created { child: 2 });
    for (thread, kind) in [(1, AccessKind::Write), (1, AccessKind::Read), (2, AccessKind::Read)] {
        detector.accesses(thread, &walk(thread, kind));
        pass_the_baton(&mut detector, thread, 3 - thread);
    }
    assert!(detector.shadow_size() <= MOST_MEMORY, "{}", detector.shadow_size());
    assert_eq!(detector.into_found().races, []);
}

#[test]
fn what_many_have_read_is_remembered_together() {
    let mut detector = Detector::new(Surveyed::default(), Box::new(|_| SiteClass::Plain));
    (2..7).for_each(|child| detector.event(1, &Event::Created { child }));
    (2..7).for_each(|reader| detector.accesses(reader, &walk(reader, AccessKind::Read)));
    assert!(detector.shadow_size() <= MOST_MEMORY, "{}", detector.shadow_size());
    let place = 123_456;
    detector.accesses(1, &walk(1, AccessKind::Write)[place..=place]);
    let found = detector.into_found();
    assert_eq!(found.races.len(), 5, "the write races with every reader");
    for race in &found.races {
        let Instance { address, first, .. } = &race.instances[0];
        let reads = walk(first.thread, AccessKind::Read);
        let ordinal = (1..).zip(&reads).find(|(ordinal, read)| first.is(*address, *ordinal, read));
        assert_eq!(ordinal.map(|(ordinal, _)| ordinal), Some(place as u64 + 1), "{first:?}");
    }
}

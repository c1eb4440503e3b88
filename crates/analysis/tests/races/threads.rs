//! Threads that begin, end and are waited for; and what is told of races.

use super::streams::{Done, Stream, races_of, rows_of};
use analysis::races::Action;
use trace::stream::{Access, AccessKind, Event, Site};

#[test]
fn a_child_sees_what_came_before_it() {
    let races = races_of(
        "T1       | T2
         write x  |
         create 2 |
         write y  |
                  | write x
                  | write y",
    );
    assert_eq!(races, [(3, 5)]);
}

#[test]
fn joining_orders() {
    let races = races_of(
        "T1       | T2
         create 2 |
                  | write x
                  | end
         join 2   |
         write x  |",
    );
    assert_eq!(races, []);
}

#[test]
fn an_end_that_nobody_waits_for_does_not() {
    let races = races_of(
        "T1       | T2
         create 2 |
                  | write x
                  | end
         write x  |",
    );
    assert_eq!(races, [(2, 4)]);
}

#[test]
fn siblings_race_also_after_one_has_ended() {
    let races = races_of(
        "T1       | T2      | T3
         create 2 |         |
         create 3 |         |
                  | write x |
                  | end     |
         join 2   |         |
                  |         | write x",
    );
    assert_eq!(races, [(3, 6)]);
}

#[test]
fn a_slot_is_used_again_only_by_who_comes_after() {
    let races = races_of(
        "T1       | T2      | T3       | T4      | T5
         create 2 |         |          |         |
         create 3 |         |          |         |
                  | write x |          |         |
                  | end     |          |         |
         join 2   |         |          |         |
                  |         | create 4 |         |
                  |         |          | write x |
         create 5 |         |          |         |
                  |         |          |         | write y
                  |         |          |         | read x",
    );
    assert_eq!(races, [(3, 7), (7, 10)], "thread 5 may have thread 2's slot, thread 4 may not");
    let found = Stream::of(
        "T1       | T2      | T3
         create 2 |         |
                  | write x |
                  | write x |
                  | end     |
         join 2   |         |
         create 3 |         |
                  |         | read x
                  |         | write y
         write y  |         |",
    )
    .found();
    let side = &found.races[0].instances[0].first;
    assert_eq!((side.thread, side.ordinal, side.pc), (3, 2, 8), "ordinals are the thread's, not the slot's");
}

#[test]
fn the_end_of_a_thread_stays_what_it_was_when_its_slot_is_used_again() {
    let races = races_of(
        "T1       | T2  | T3       | T4
         create 2 |     |          |
         create 3 |     |          |
                  | end |          |
         join 2   |     |          |
         create 4 |     |          |
                  |     |          | write x
                  |     | join 2   |
                  |     | write x  |",
    );
    assert_eq!(races, [(6, 8)]);
}

#[test]
fn a_thread_that_has_accessed_nothing_passes_on_what_it_has_seen() {
    let races = races_of(
        "T1       | T2        | T3
         create 3 |           |
         write x  |           |
         create 2 |           |
                  | release s |
                  |           | acquire s
                  |           | write x",
    );
    assert_eq!(races, []);
}

#[test]
fn who_is_alone_again_races_with_nobody() {
    let races = races_of(
        "T1       | T2      | T3
         create 2 |         |
                  | write x |
                  | end     |
         join 2   |         |
         write x  |         |
         create 3 |         |
                  |         | write x
         write x  |         |",
    );
    assert_eq!(races, [(7, 8)]);
}

#[test]
fn a_thousand_threads() {
    let threads = 1000;
    let access = |site, kind| Done::Access(Access { address: 0x8000, size: 8, site: Site(site), kind });
    let mut stream = Stream::default();
    (2..=threads).for_each(|child| stream.steps.push((1, Done::Event(Event::Created { child }))));
    (2..=threads).for_each(|thread| stream.steps.push((thread, access(1, AccessKind::Read))));
    stream.steps.push((1, access(2, AccessKind::Write)));
    let found = stream.found();
    assert_eq!(rows_of(&found.races), [(1, 2)]);
    assert_eq!(found.races[0].count, 999, "the write races with every reader");

    for thread in 2..=threads {
        stream.steps.insert(stream.steps.len() - 1, (thread, Done::Event(Event::Ended)));
        stream.steps.insert(stream.steps.len() - 1, (1, Done::Event(Event::Joined { other: thread })));
    }
    assert_eq!(stream.found().races, []);
}

#[test]
fn a_race_is_told_once_with_its_first_occurrence() {
    let found = Stream::of(
        "T1         | T2
         write x @7 |
         write y @7 |
                    | read x @8
                    | read y @8",
    )
    .found();
    assert_eq!(rows_of(&found.races), [(7, 8)]);
    let race = &found.races[0];
    assert_eq!((race.count, race.both_orders, race.instances.len()), (2, false, 2));
    let (first, second) = (&race.instances[0].first, &race.instances[0].second);
    assert_eq!((first.thread, first.action, first.size, first.ordinal), (1, Action::Write, 8, 1));
    assert_eq!((second.thread, second.action, second.size, second.ordinal), (2, Action::Read, 8, 1));
}

#[test]
fn both_orders_are_noticed() {
    let found = Stream::of(
        "T1         | T2
         write x @7 |
                    | read x @8
         write x @7 |",
    )
    .found();
    assert_eq!(rows_of(&found.races), [(7, 8)]);
    assert!(found.races[0].both_orders);
    let reversed = &found.races[0].instances[1];
    assert_eq!((reversed.first.pc, reversed.second.pc), (8, 7));
}

#[test]
fn the_same_instruction_races_with_itself_in_both_orders() {
    let once = Stream::of("T1 | T2\n update x @7 |\n | update x @7").found();
    assert_eq!((once.races.len(), once.races[0].both_orders), (1, false));
    let twice = Stream::of("T1 | T2\n update x @7 |\n | update x @7\n update x @7 |").found();
    assert_eq!((twice.races.len(), twice.races[0].both_orders), (1, true));
}

#[test]
fn races_beyond_the_limit_are_counted() {
    let mut table = "T1 | T2\n".to_owned();
    for number in 0..1500 {
        table.push_str(&format!("write x{number} |\n | write x{number}\n"));
    }
    let found = Stream::of(&table).found();
    assert_eq!((found.races.len(), found.further_races), (1000, 500));
}

#[test]
fn threads_beyond_the_limit_are_counted() {
    let mut stream = Stream::default();
    (2..=70_000).for_each(|child| stream.steps.push((1, Done::Event(Event::Created { child }))));
    assert_eq!(stream.found().unwatched_threads, 70_000 - 65_534);
}

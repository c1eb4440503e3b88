//! Locks, and other objects that order threads.

use super::streams::{Stream, address, races_of};
use analysis::races::HeldLock;
use trace::stream::LockMode;

#[test]
fn nothing_protects() {
    let races = races_of(
        "T1      | T2
         write x |
                 | write x",
    );
    assert_eq!(races, [(1, 2)]);
}

#[test]
fn reads_do_not_race() {
    let races = races_of(
        "T1     | T2
         read x |
                | read x",
    );
    assert_eq!(races, []);
}

#[test]
fn a_lock_protects() {
    let races = races_of(
        "T1       | T2
         lock m   |
         update x |
         unlock m |
                  | lock m
                  | update x
                  | unlock m",
    );
    assert_eq!(races, []);
}

#[test]
fn different_locks_do_not() {
    let races = races_of(
        "T1       | T2
         lock m   |
         update x |
         unlock m |
                  | lock n
                  | update x
                  | unlock n",
    );
    assert_eq!(races, [(2, 5)]);
}

#[test]
fn only_what_came_before_the_unlock_is_ordered() {
    let races = races_of(
        "T1       | T2
         lock m   |
         write x  |
         unlock m |
         write y  |
                  | lock m
                  | write x
                  | write y
                  | unlock m",
    );
    assert_eq!(races, [(4, 7)]);
}

#[test]
fn a_lock_taken_twice_is_given_up_once() {
    let races = races_of(
        "T1       | T2
         lock m   |
         lock m   |
         unlock m |
         write x  |
                  | acquire m
                  | write x
         unlock m |",
    );
    assert_eq!(races, [(4, 6)], "the inner unlock releases nothing");
    let races = races_of(
        "T1       | T2
         lock m   |
         lock m   |
         unlock m |
         write x  |
         unlock m |
                  | lock m
                  | write x",
    );
    assert_eq!(races, []);
}

#[test]
fn readers_share_and_writers_do_not() {
    let races = races_of(
        "T1       | T2       | T3
         lock m   |          |
         write x  |          |
         unlock m |          |
                  | share m  |
                  | read x   |
                  |          | share m
                  |          | read x
                  | unlock m |
                  |          | unlock m
         lock m   |          |
         write x  |          |
         unlock m |          |",
    );
    assert_eq!(races, []);
}

#[test]
fn sharing_a_lock_does_not_order_writes() {
    let races = races_of(
        "T1       | T2
         share m  |
         write x  |
         unlock m |
                  | share m
                  | write x
                  | unlock m",
    );
    assert_eq!(races, [(2, 5)]);
}

#[test]
fn a_semaphore_hands_over() {
    let races = races_of(
        "T1        | T2
         write x   |
         release s |
         write y   |
                   | acquire s
                   | write x
                   | write y",
    );
    assert_eq!(races, [(3, 6)]);
}

#[test]
fn a_condition_wakes_under_its_lock() {
    let races = races_of(
        "T1        | T2
                   | lock m
                   | read x
                   | unlock m
         lock m    |
         write x   |
         release c |
         unlock m  |
                   | acquire c
                   | lock m
                   | read x
                   | unlock m",
    );
    assert_eq!(races, []);
}

#[test]
fn a_barrier_orders_all_before_with_all_after() {
    let races = races_of(
        "T1        | T2        | T3
         write x   |           |
         release b |           |
                   | write y   |
                   | release b |
                   |           | release b
                   |           | acquire b
                   |           | read x
                   |           | read y
         acquire b |           |
         write y   |           |
                   | acquire b |
                   | write x   |",
    );
    assert_eq!(races, [(8, 10), (7, 12)], "only what comes after the barrier on both sides");
}

#[test]
fn what_two_released_is_acquired_at_once() {
    let races = races_of(
        "T1        | T2        | T3
         write x   |           |
                   | write y   |
         release s |           |
                   | release s |
                   |           | acquire s
                   |           | write x
                   |           | write y",
    );
    assert_eq!(races, []);
}

#[test]
fn a_second_release_without_an_access_between_passes_on_more() {
    let races = races_of(
        "T1        | T2        | T3
                   |           | write y
                   |           | release t
         write x   |           |
         release s |           |
                   | acquire s |
         acquire t |           |
         release s |           |
                   | acquire s |
                   | write y   |",
    );
    assert_eq!(races, []);
}

#[test]
fn a_forgotten_object_orders_nothing() {
    let races = races_of(
        "T1        | T2
         write x   |
         release s |
         forget s  |
                   | acquire s
                   | write x",
    );
    assert_eq!(races, [(1, 5)]);
}

#[test]
fn an_unlock_by_another_thread_releases() {
    let races = races_of(
        "T1     | T2
         lock m |
         write x |
         release s |
                | acquire s
                | write y
                | unlock m
         lock m |
         write y |",
    );
    assert_eq!(races, []);
}

#[test]
fn sides_tell_the_locks_that_were_held() {
    let found = Stream::of(
        "T1       | T2
         lock m   |
         share n  |
         write x  |
         unlock n |
         unlock m |
         write y  |
                  | lock k
                  | write x",
    )
    .found();
    let instance = &found.races[0].instances[0];
    assert_eq!((instance.first.thread, instance.first.ordinal), (1, 1));
    let held = |object, mode| HeldLock { object, mode };
    let expected = vec![held(address(1), LockMode::Exclusive), held(address(2), LockMode::Shared)];
    assert_eq!(instance.first.locks, Some(expected));
    assert_eq!(instance.second.locks, Some(vec![held(address(5), LockMode::Exclusive)]));
}

#[test]
fn locks_of_long_ago_are_not_known() {
    let mut table = "T1 | T2\n lock m |\n write x |\n unlock m |\n".to_owned();
    (0..5000).for_each(|_| table.push_str("lock n |\n unlock n |\n"));
    table.push_str("| write x\n");
    let found = Stream::of(&table).found();
    assert_eq!(found.races[0].instances[0].first.locks, None);
    assert_eq!(found.races[0].instances[0].second.locks, Some(Vec::new()));
}

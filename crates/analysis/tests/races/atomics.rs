//! Memory that is synchronisation.

use super::streams::{Stream, races_of, rows_of};
use analysis::races::{SiteClass, Surveyed};

#[test]
fn locked_instructions_order() {
    let races = races_of(
        "T1       | T2
         write x  |
         atomic f |
                  | atomic f
                  | write x",
    );
    assert_eq!(races, []);
}

#[test]
fn only_what_came_before_is_ordered() {
    let races = races_of(
        "T1       | T2
         atomic f |
         write x  |
                  | atomic f
                  | write x",
    );
    assert_eq!(races, [(2, 4)]);
}

#[test]
fn plain_loads_of_an_atomic_acquire_and_plain_stores_release() {
    let table = "T1         | T2
         write x    |
         write f:4  |
                    | read f:4
                    | write x
                    | atomic f:4";
    assert_eq!(races_of(table), [], "known from the first pass");
    let found = Stream::of(table).found_with(Surveyed::default());
    assert_eq!(rows_of(&found.races), [(2, 3), (1, 4)], "without it, nobody could know");
}

#[test]
fn reading_an_atomic_releases_nothing() {
    let races = races_of(
        "T1        | T2
         atomic f  |
         write x   |
         read f    |
                   | atomic f
                   | write x",
    );
    assert_eq!(races, [(2, 5)]);
}

#[test]
fn writing_an_atomic_acquires_nothing() {
    let races = races_of(
        "T1        | T2
         atomic f  |
         write x   |
         write f   |
                   | write f
                   | write x",
    );
    assert_eq!(races, [(2, 5)]);
}

#[test]
fn atomics_side_by_side_are_not_one() {
    let races = races_of(
        "T1           | T2
         write x      |
         atomic f:4   |
                      | atomic f+4:4
                      | write x",
    );
    assert_eq!(races, [(1, 4)]);
}

#[test]
fn a_wide_atomic_is_seen_by_loads_of_its_parts() {
    let races = races_of(
        "T1           | T2
         write x      |
         atomic f:16  |
                      | read f+12:4
                      | write x",
    );
    assert_eq!(races, []);
}

#[test]
fn neighbours_of_atomics_still_race() {
    let races = races_of(
        "T1           | T2
         atomic f:4   |
         write f+4:4  |
                      | write f+4:4",
    );
    assert_eq!(races, [(2, 3)]);
}

#[test]
fn what_the_source_calls_atomic_is() {
    let table = "T1       | T2
         write x  |
         write f  |
                  | read f
                  | write x";
    assert_eq!(races_of(table), [(2, 3), (1, 4)]);
    let stream = Stream::of(table).with_class(2, SiteClass::Atomic).with_class(3, SiteClass::Atomic);
    assert_eq!(stream.found().races, []);
    assert_eq!(stream.found_with(Surveyed::default()).races, []);
}

#[test]
fn a_store_that_the_source_calls_atomic_releases_even_after_a_plain_one() {
    let table = "T1       | T2
         write f  |
         write x  |
         write f  |
                  | read f
                  | write x";
    let stream = Stream::of(table).with_class(3, SiteClass::Atomic).with_class(4, SiteClass::Atomic);
    assert_eq!(stream.found_with(Surveyed::default()).races, []);
}

#[test]
fn words_that_the_kernel_waits_at_are_atomic() {
    let races = races_of(
        "T1         | T2
         write x    |
         write f:4  |
         futex f    |
                    | read f:4
                    | write x",
    );
    assert_eq!(races, []);
}

#[test]
fn a_block_is_not_atomic_because_its_predecessor_was() {
    let races = races_of(
        "T1           | T2
         malloc p:8   |
         atomic p     |
         free p       |
         malloc p:8   |
         write p      |
         release s    |
                      | acquire s
                      | read p
         write p      |",
    );
    assert_eq!(races, [(8, 9)]);
}

#[test]
fn a_block_is_atomic_from_its_beginning() {
    let races = races_of(
        "T1           | T2
         malloc p:16  |
         write p+8    |
         free p       |
         malloc p:16  |
         write x      |
         write p+8    |
                      | read p+8
                      | write x
                      | atomic p+8",
    );
    assert_eq!(races, []);
}

#[test]
fn a_mapping_keeps_what_is_atomic_in_it() {
    let races = races_of(
        "T1         | T2
         map p:4096 |
         write x    |
         write p+8  |
                    | read p+8
                    | write x
                    | atomic p+8",
    );
    assert_eq!(races, []);
}

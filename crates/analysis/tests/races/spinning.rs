//! Threads that wait in loops for plain memory.

use super::streams::{Stream, address};
use analysis::races::Surveyed;

const SPIN: &str = "T1          | T2
                     | 9* read f @50
         write x     |
         write f @40 |
                     | read f @50
                     | read x
                     | write x
                     | 2* read g @60";

#[test]
fn a_loop_that_waits_is_synchronisation() {
    let stream = Stream::of(SPIN);
    let surveyed = stream.survey();
    let [ad_hoc] = surveyed.ad_hoc.as_slice() else { panic!("{:?}", surveyed.ad_hoc) };
    assert_eq!(ad_hoc.address, address(1));
    assert_eq!((ad_hoc.reader.thread, ad_hoc.reader.site.0), (2, 50));
    assert_eq!((ad_hoc.writer.thread, ad_hoc.writer.site.0, ad_hoc.writer.ordinal), (1, 40, 2));
    assert_eq!(ad_hoc.count, 1);
    assert_eq!(stream.found().races, []);
    let unaided = stream.found_with(Surveyed::default());
    assert!(!unaided.races.is_empty(), "it is the survey that tells");
}

#[test]
fn waiting_may_yield_and_keep_its_books_on_the_stack() {
    let mut table = "T1 | T2\n".to_owned();
    let round = "| read f @50\n | write stack @51\n | yield\n | read stack @52\n | update turns @53\n";
    (0..4).for_each(|_| table.push_str(round));
    table.push_str("write x |\n write f @40 |\n");
    table.push_str(round);
    table.push_str("| read f @50\n | write x\n");
    let stream = Stream::of(&table);
    let sites: Vec<_> = stream.survey().ad_hoc.iter().map(|found| (found.reader.site.0, found.writer.site.0)).collect();
    assert_eq!(sites, [(50, 40)]);
    assert_eq!(stream.found().races, []);
}

#[test]
fn the_same_loop_elsewhere_is_told_once() {
    let twice = format!("{SPIN}\n | 9* read h @50\n write h @40 |\n | read h @50\n | read x");
    let surveyed = Stream::of(&twice).survey();
    assert_eq!(surveyed.ad_hoc.iter().map(|found| found.count).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_loop_that_goes_on_after_the_write_does_not_wait_for_it() {
    let table = "T1      | T2
                 | 9* read x @50
         write x |
                 | 9* read x @50
                 | write y";
    let stream = Stream::of(table);
    assert_eq!(stream.survey().ad_hoc, []);
    assert!(!stream.found().races.is_empty());
}

#[test]
fn a_loop_that_walks_does_not_wait() {
    let mut table = "T1 | T2\n".to_owned();
    (0..9).for_each(|index| table.push_str(&format!("| read x+{} @50\n | read n @51\n", index * 8)));
    table.push_str("write n |\n | read n @52\n");
    assert_eq!(Stream::of(&table).survey().ad_hoc, []);
}

#[test]
fn a_loop_that_asks_under_a_lock_does_not_spin() {
    let mut table = "T1 | T2\n".to_owned();
    let round = "| lock m @1\n | read f @50\n | unlock m @2\n";
    (0..9).for_each(|_| table.push_str(round));
    table.push_str("lock m |\n write f |\n unlock m |\n");
    table.push_str(round);
    table.push_str("| read y @51\n");
    assert_eq!(Stream::of(&table).survey().ad_hoc, []);
}

#[test]
fn a_lock_may_be_made_of_locked_instructions() {
    for give_up in ["atomic m @2", "write m @2"] {
        let mut table = "T1 | T2\n".to_owned();
        let round = format!("| atomic m @1\n | read f @50\n | {give_up}\n");
        (0..9).for_each(|_| table.push_str(&round));
        table.push_str("atomic m |\n write f |\n atomic m |\n");
        table.push_str(&round);
        table.push_str("| read y @51\n");
        assert_eq!(Stream::of(&table).survey().ad_hoc, []);
    }
    // One that counts its rounds takes no lock.
    let mut table = "T1 | T2\n".to_owned();
    (0..9).for_each(|_| table.push_str("| atomic turns @1\n | read f @50\n"));
    table.push_str("write f |\n | atomic turns @1\n | read f @50\n | read y @51\n");
    assert_eq!(Stream::of(&table).survey().ad_hoc.len(), 1);
}

#[test]
fn waiting_for_an_atomic_is_nothing_to_tell() {
    let table = format!("{SPIN}\n atomic f |");
    let stream = Stream::of(&table);
    assert_eq!(stream.survey().ad_hoc, []);
    assert_eq!(stream.found().races, []);
}

#[test]
fn races_of_waiting_threads_that_have_nothing_to_do_with_it_are_told() {
    let table = "T1          | T2
                     | write y
                     | 9* read f @50
         write y     |
         write f @40 |
                     | read f @50
                     | read x @51";
    let found = Stream::of(table).found();
    assert_eq!(super::streams::rows_of(&found.races), [(1, 3)]);
}

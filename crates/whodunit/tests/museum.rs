//! The museum of concurrent bugs (`museum/` at the root of the tree): every exhibit is what it claims to be.
//!
//! A bug, with its guilty order forced, fails as stated, natively and under the engine; repaired, it passes in spite of that;
//! left to the round-robin schedule, it passes. A look-alike passes whatever the schedule, and ThreadSanitizer sees no race.

mod support;

mod museum {
    mod claims;
    mod exhibit;
    mod table;

    pub use claims::check;
    pub use exhibit::{Exhibit, all};
}

use museum::Exhibit;

fn claims_hold(_group: &str, name: &str) {
    if let Err(problem) = museum::check(name) {
        panic!("museum/{name}: {problem}");
    }
}

#[test]
fn every_exhibit_is_listed() {
    let exhibits = museum::all().expect("the exhibits' descriptions are readable");
    let present: Vec<(&str, &str)> = exhibits.iter().map(|exhibit| (group_of(exhibit), &*exhibit.name)).collect();
    let mut listed = LISTED.to_vec();
    listed.sort_unstable_by_key(|&(_, name)| name);
    assert_eq!(present, listed, "the exhibits in museum/ and the list in tests/museum.rs differ");
}

fn group_of(exhibit: &Exhibit) -> &'static str {
    if exhibit.failure.is_some() { "bugs" } else { "calm" }
}

guest_programs! {
    super::claims_hold;
    bugs {
        apache_log_buffer b_account c_list l_proc_sweep mysql_new_log mysql_proc_info
        mysql_table_log pbzip2_queue s_buffer s_counter transfer_deadlock transmission_bandwidth
    }
    calm {
    }
}

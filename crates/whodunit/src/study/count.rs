//! Counts what a stream tells.

use super::Student;
use crate::inquiry::Reply;
use serde_json::json;
use trace::stream::records::Records;
use trace::stream::{Access, Event, Listener, Site, Thread};

#[derive(Default)]
pub struct Count {
    accesses: u64,
    events: u64,
    sites: u64,
}

impl Listener for Count {
    fn accesses(&mut self, _thread: Thread, accesses: &[Access]) {
        self.accesses += accesses.len() as u64;
    }

    fn records(&mut self, _thread: Thread, records: &Records<'_>) -> usize {
        let mut length = 0;
        for record in records.plain() {
            self.accesses += u64::from(record.accesses);
            length += record.words.len();
        }
        length
    }

    fn reads_records(&self) -> bool {
        true
    }

    fn event(&mut self, _thread: Thread, _event: &Event) {
        self.events += 1;
    }

    fn site(&mut self, _site: Site, _pc: u64) {
        self.sites += 1;
    }
}

impl Student for Count {
    fn report(&mut self) -> Reply {
        Reply::of(&json!({ "accesses": self.accesses, "events": self.events, "sites": self.sites }))
    }
}

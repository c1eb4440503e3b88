//! Predictions in words.

use analysis::predict::{Deed, Kind, Prediction};
use std::collections::BTreeMap;

/// What the early and the late one do.
pub fn deeds(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Null => ("clears", "dereferences"),
        Kind::Dangling => ("gives back", "accesses"),
        Kind::Left => ("leaves the frame of", "accesses"),
        Kind::Closed => ("closes", "uses"),
        Kind::Overflow => ("changes", "computes an address from"),
        Kind::Inconsistent => ("changes", "relies on"),
        Kind::Uninitialised => ("reads", "initialises"),
        Kind::DoubleFree => ("reads", "clears, after the block is given back,"),
        Kind::Race => ("accesses", "accesses"),
        Kind::Atomicity => ("accesses", "accesses again"),
    }
}

/// Said of what is proved: whatever orders the two would have kept it from being tried, and from coming about.
pub const NOTHING_ORDERS: &str = "Nothing else orders them: neither thread is made or joined by the other in between, and no barrier, semaphore, \
     condition, atomic, flag or queue makes one wait for the other.";

/// Said of what is only suspected.
pub const NOTHING_SEEN_ORDERS: &str =
    "No other synchronisation of the two was seen; a flag or a queue of the program's own may still order them.";

/// The order that the run had them in.
pub fn order_seen(prediction: &Prediction) -> String {
    let Prediction { early, late, kind, .. } = prediction;
    let (first, next) = deeds(*kind);
    let (early, late) = (early.thread, late.thread);
    match prediction.was_renewed {
        true => {
            format!("In the recorded run, thread {early} came first, and made it good again before thread {late} came.")
        }
        false => format!(
            "In the recorded run, it was the other way round: thread {late} {next} it before thread {early} {first} it."
        ),
    }
}

/// Which values of an index lead beyond `what`, and what it was when the run went well.
pub fn range(what: &str, step: u64, first_beyond: u64, prediction: &Prediction) -> String {
    let bytes = if step == 1 { "byte" } else { "bytes" };
    let seen = prediction.early.value.map_or(String::new(), |value| {
        format!("; thread {} made it {value} in the recorded run", prediction.early.thread)
    });
    format!(
        "It is an index into {what}, whose elements are {step} {bytes} apart: values from {first_beyond} on lead beyond \
         the end{seen}."
    )
}

/// What locks do about it. The names of the locks of both are by their addresses.
pub fn locks(
    prediction: &Prediction,
    early: &BTreeMap<u64, Option<String>>,
    late: &BTreeMap<u64, Option<String>>,
) -> String {
    let Prediction { early: one, late: other, .. } = prediction;
    let shared: Vec<String> = early.iter().filter(|(object, _)| late.contains_key(object)).map(name).collect();
    if !shared.is_empty() {
        return format!(
            "Both hold {}, which keeps them from doing it at the same time, but not from this order.",
            shared.join(" and ")
        );
    }
    let held = |deed: &Deed, locks: &BTreeMap<u64, Option<String>>| match locks.is_empty() {
        true => format!("thread {} holds no lock", deed.thread),
        false => {
            let names: Vec<String> = locks.iter().map(name).collect();
            format!("thread {} holds {}", deed.thread, names.join(" and "))
        }
    };
    format!("No lock keeps them apart: {}, and {}.", held(one, early), held(other, late))
}

fn name((object, name): (&u64, &Option<String>)) -> String {
    name.as_ref().map_or_else(|| format!("the lock at {object:#x}"), |name| format!("`{name}`"))
}

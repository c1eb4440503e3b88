//! From what was typed to the numbers that a replay selects by.

use super::Arguments;
use crate::last_write::{self, Sought};
use crate::naming::Naming;
use crate::recordings::Trouble;
use crate::show::Recorded;
use crate::study::lines::{Kind, Selection};
use clap::ValueEnum;
use program::space::GuestAddress;
use program::whereabouts::Where;
use std::collections::BTreeSet;
use std::ops::Range;
use trace::Recording;

/// `places` are the variables that were asked for.
pub fn selection(
    arguments: &Arguments,
    places: &[Where],
    recording: &Recording,
    recorded: &Recorded,
    naming: &Naming,
) -> Result<Selection, Trouble> {
    let kinds = if arguments.only.is_empty() { Kind::value_variants() } else { &arguments.only };
    let sought = Sought { recording, process: arguments.process, at: arguments.to };
    let memory = places.iter().zip(&arguments.variables).map(|(place, typed)| range(&sought, place, typed));
    let memory: Vec<Range<u64>> = memory.collect::<Result<_, _>>()?;
    let is_of_module = |range: &Range<u64>| recorded.space.locate(GuestAddress(range.start)).is_some();
    Ok(Selection {
        kinds: kinds.iter().copied().collect(),
        threads: threads(&arguments.threads, &recorded.threads)?,
        code: code(&arguments.functions, recorded, naming)?,
        // Globals are in no frame.
        frames: memory.is_empty() || !memory.iter().all(is_of_module),
        memory,
        from: arguments.from,
        to: arguments.to,
        values: arguments.values,
        limit: arguments.limit,
    })
}

fn threads(asked: &[u32], known: &BTreeSet<u32>) -> Result<BTreeSet<u32>, Trouble> {
    match asked.iter().find(|thread| !known.contains(thread)) {
        None => Ok(asked.iter().copied().collect()),
        Some(unknown) => {
            let known: Vec<String> = known.iter().take(20).map(u32::to_string).collect();
            let which = if known.len() == 1 { "the only one is" } else { "there are" };
            Err(Trouble::Refused(format!("there is no thread {unknown}; {which} {}", known.join(", "))))
        }
    }
}

fn code(functions: &[String], recorded: &Recorded, naming: &Naming) -> Result<Vec<Range<u64>>, Trouble> {
    let mut code = Vec::new();
    for name in functions {
        let ranges = naming.variables().code_of_function(name).map_err(|error| {
            let gap = recorded.gaps.first().map_or(String::new(), |gap| format!(" ({gap})"));
            Trouble::Refused(format!("{error}{gap}"))
        })?;
        code.extend(ranges.into_iter().map(|range| range.start.0..range.end.0));
    }
    Ok(code)
}

fn range(sought: &Sought<'_>, place: &Where, typed: &str) -> Result<Range<u64>, Trouble> {
    let (address, length) = last_write::locate(sought, place, typed)?;
    let end = address.checked_add(length);
    end.map(|end| address..end)
        .ok_or_else(|| Trouble::Refused(format!("{length} bytes at {address:#x} go beyond all memory")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_there_are() {
        let known = BTreeSet::from([1, 2, 5]);
        assert!(threads(&[5, 2], &known).is_ok_and(|threads| threads == BTreeSet::from([2, 5])));
        let complaint = |asked: &[u32], known: &BTreeSet<u32>| match threads(asked, known) {
            Err(Trouble::Refused(sentence)) => sentence,
            _ => String::new(),
        };
        assert_eq!(complaint(&[3], &known), "there is no thread 3; there are 1, 2, 5");
        assert_eq!(complaint(&[3], &BTreeSet::from([1])), "there is no thread 3; the only one is 1");
    }
}

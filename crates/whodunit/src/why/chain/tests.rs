//! Ways back over definitions that are written by hand.

use super::*;
use program::space::AddressSpace;
use session::rerun::Accessed;

pub fn step(number: u32, copies: bool, values: &[u32], addresses: &[u32]) -> Definition {
    Definition {
        number,
        thread: 1,
        clock: 1,
        pc: format!("{:#x}", 0x1000 + number),
        time: 1,
        memory: None,
        copies,
        system_call: false,
        decided: None,
        value: "0x41414141".to_owned(),
        values: values.to_vec(),
        addresses: addresses.to_vec(),
    }
}

fn at(address: u64, size: u32, writes: bool, step: Definition) -> Definition {
    Definition {
        memory: Some(Accessed {
            address: format!("{address:#x}"),
            size,
            writes,
            from: None,
            overwrites: None,
            return_below: None,
        }),
        ..step
    }
}

/// The origins of a crash on the value of the latest definition, and why they are.
fn origins(definitions: Vec<Definition>, is_whole: bool) -> Vec<(u32, End, bool)> {
    let failure = step(99, true, &[], &[definitions[0].number]);
    let origins = Origins { steps: 0, suppressed: 0, failure: Some(failure), branches: Vec::new(), definitions };
    let sites = Sites::new(&AddressSpace::new(Vec::new()));
    let trails = Chain::new(&origins, is_whole, &sites).expect("it failed").trails(Fault::Access);
    trails.iter().map(|trail| (trail.origin().map_or(0, |origin| origin.number), trail.end, trail.is_open)).collect()
}

#[test]
fn copies_lead_to_what_was_computed() {
    let load = at(0x100, 8, false, step(4, true, &[3], &[]));
    let store = at(0x100, 8, true, step(3, true, &[2], &[]));
    let sum = step(2, false, &[1], &[]);
    assert_eq!(origins(vec![load, store, sum, step(1, false, &[], &[])], true), [(2, End::Computed, false)]);
}

#[test]
fn a_constant_counts_where_it_is_stored() {
    let load = at(0x100, 8, false, step(4, true, &[3], &[]));
    let store = at(0x100, 8, true, step(3, true, &[2], &[]));
    assert_eq!(origins(vec![load, store, step(2, false, &[], &[])], true), [(3, End::Computed, false)]);
}

#[test]
fn whoever_stored_a_part_is_to_blame() {
    let load = at(0x100, 8, false, step(9, true, &[2, 3, 4], &[]));
    let whole = at(0x100, 8, true, step(2, true, &[1], &[]));
    let parts = [3, 4].map(|number| at(0x100 + u64::from(number), 1, true, step(number, true, &[0], &[])));
    let [one, other] = parts;
    let expected = [(3, End::Moved, false), (4, End::Moved, false)];
    assert_eq!(origins(vec![load, other, one, whole, step(1, false, &[], &[])], true), expected);
}

#[test]
fn bytes_of_wide_copies_are_told_apart() {
    let load = at(0x108, 8, false, step(9, true, &[8], &[]));
    let store = at(0x100, 16, true, step(8, true, &[7], &[]));
    let wide = at(0x200, 16, false, step(7, true, &[3, 4], &[]));
    let halves = [3, 4]
        .map(|number: u32| at(0x200 + 8 * u64::from(number - 3), 8, true, step(number, true, &[number - 2], &[])));
    let [low, high] = halves;
    let made = [1, 2].map(|number| step(number, false, &[5], &[]));
    let [first, second] = made;
    let all = vec![load, store, wide, high, low, second, first];
    assert_eq!(origins(all, true), [(2, End::Computed, false)]);
}

#[test]
fn what_nobody_stored_is_suspect_for_its_address() {
    let load = at(0x100, 8, false, step(4, true, &[0], &[3]));
    let index = step(3, false, &[2], &[]);
    assert_eq!(origins(vec![load.clone(), index.clone()], true), [(3, End::Computed, false)]);
    assert_eq!(origins(vec![load, index], false), [(4, End::Older, true)], "more may be known");
}

//! Modules out of memory maps.

use crate::common::{build, load_at, symbol};
use program::space::{AddressSpace, FileVma, GuestAddress, Mapping};

fn anonymous(start: u64, end: u64) -> Mapping {
    Mapping { start, end, offset: 0, executable: false, path: None }
}

/// Name, bias and start of every module.
fn modules(space: &AddressSpace) -> Vec<(String, u64, u64)> {
    space.modules().map(|(_, module)| (module.name(), module.bias, module.start)).collect()
}

#[test]
fn bias_of_each_kind_of_file() {
    let base = 0x7000_0000_0000;
    let movable = build("space-movable", "crash.c", &["-w"]);
    assert_eq!(modules(&load_at(&movable, base)), [("program".to_owned(), base, base)]);
    let fixed = build("space-fixed", "crash.c", &["-w", "-no-pie"]);
    assert_eq!(modules(&load_at(&fixed, 0)), [("program".to_owned(), 0, 0x400000)]);
    let library = build("space-shared", "crash.c", &["-w", "-shared", "-fPIC"]);
    assert_eq!(modules(&load_at(&library, base)), [("program".to_owned(), base, base)]);
    // Linkers that pack segments make code and data share pages of the file.
    let packed = build("space-packed", "crash.c", &["-w", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"]);
    assert_eq!(modules(&load_at(&packed, base)), [("program".to_owned(), base, base)]);
}

#[test]
fn one_file_loaded_twice_is_two_modules() {
    let library = build("space-twice", "crash.c", &["-w", "-shared", "-fPIC"]);
    let (low, high) = (0x10_0000_0000, 0x20_0000_0000);
    let mappings = [load_at(&library, low), load_at(&library, high)];
    let space = AddressSpace::new(mappings.iter().flat_map(|space| space.mappings().to_vec()).collect());
    let biases: Vec<_> = modules(&space).iter().map(|(_, bias, _)| *bias).collect();
    assert_eq!(biases, [low, high]);
}

#[test]
fn a_file_mapped_for_reading_is_no_module() {
    let library = build("space-read", "crash.c", &["-w", "-shared", "-fPIC"]);
    let mut mappings = load_at(&library, 0x10_0000_0000).mappings().to_vec();
    let whole =
        Mapping { start: 0x30_0000_0000, end: 0x30_0001_0000, offset: 0, executable: false, path: Some(library) };
    mappings.push(whole);
    assert_eq!(modules(&AddressSpace::new(mappings)).len(), 1);
}

#[test]
fn zeroed_data_belongs_to_the_module_and_the_next_thing_does_not() {
    let program = build("space-zeroed", "crash.c", &["-w"]);
    let base = 0x7000_0000_0000;
    let mut mappings = load_at(&program, base).mappings().to_vec();
    let end = mappings.last().unwrap().end;
    mappings.push(anonymous(end, end + 0x10_0000));
    let space = AddressSpace::new(mappings);
    let (zeroed, size) = symbol(&program, "zeroed");
    let last = GuestAddress(base + zeroed + size - 1);
    let (module_idx, file_vma) = space.locate(last).unwrap();
    assert_eq!(file_vma, FileVma(zeroed + size - 1));
    assert_eq!(space.module(module_idx).guest_address(file_vma), last);
    assert_eq!(space.locate(GuestAddress(end + 0xf_0000)), None);
}

#[test]
fn missing_file_still_has_a_name_and_offsets() {
    let path = Some("/nowhere/libgone.so (deleted)".into());
    let code = Mapping { start: 0x10_1000, end: 0x10_3000, offset: 0x1000, executable: true, path };
    let space = AddressSpace::new(vec![code, anonymous(0x20_0000, 0x20_1000)]);
    assert_eq!(modules(&space), [("libgone.so (deleted)".to_owned(), 0x10_0000, 0x10_1000)]);
    let (_, file_vma) = space.locate(GuestAddress(0x10_1234)).unwrap();
    assert_eq!(file_vma, FileVma(0x1234));
    assert_eq!(space.locate(GuestAddress(0x20_0000)), None);
    assert!(space.is_executable(GuestAddress(0x10_2fff)) && !space.is_executable(GuestAddress(0x10_3000)));
}

#[test]
fn the_empty_space_knows_nothing() {
    let space = AddressSpace::new(Vec::new());
    assert_eq!(space.locate(GuestAddress(0)), None);
    assert_eq!(space.mapping_at(GuestAddress(u64::MAX)), None);
}

//! Names and lines of programs that are only loaded, never run, against marks in their sources.

use std::path::{Path, PathBuf};

use crate::common::{build, folder, load_at, marked_line, run, symbol};
use program::space::GuestAddress;
use program::symbols::{SourceFrame, Symbolizer};
use program::unwind::{CodeAddress, CodeAddressKind};

const BASE: u64 = 0x5555_5555_4000;

fn exact(pc: u64) -> CodeAddress {
    CodeAddress { pc, kind: CodeAddressKind::Exact }
}

/// Resolves every byte of a function.
fn frames_of(path: &Path, base: u64, part: &str) -> Vec<Vec<SourceFrame>> {
    let (start, size) = symbol(path, part);
    let mut symbolizer = Symbolizer::new(&load_at(path, base));
    (start..start + size).map(|address| symbolizer.resolve(exact(base + address))).collect()
}

/// Some byte of the function must resolve to the marked line, and every byte to the name.
fn check(path: &Path, base: u64, part: &str, name: &str, marked: Option<(&str, &str)>) {
    let all = frames_of(path, base, part);
    for frames in &all {
        assert_eq!(frames.last().unwrap().function.as_deref(), Some(name));
    }
    let lines: Vec<_> = all.iter().filter_map(|frames| frames[0].line).collect();
    match marked {
        Some((source, mark)) => assert!(lines.contains(&marked_line(source, mark)), "{lines:?}"),
        None => assert_eq!(lines, []),
    }
}

const BETA: Option<(&str, &str)> = Some(("crash.c", "beta"));

#[test]
fn position_independent_and_fixed() {
    let movable = build("symbols-movable", "crash.c", &["-g", "-O2", "-w"]);
    check(&movable, BASE, "beta", "beta", BETA);
    let fixed = build("symbols-fixed", "crash.c", &["-g", "-O2", "-w", "-no-pie"]);
    check(&fixed, 0, "beta", "beta", BETA);
    let offsets: Vec<_> = frames_of(&fixed, 0, "beta").iter().map(|frames| frames[0].module_offset).collect();
    assert_eq!(offsets[0], symbol(&fixed, "beta").0);
}

#[test]
fn shared_library() {
    let library = build("symbols-shared", "crash.c", &["-g", "-O2", "-w", "-shared", "-fPIC"]);
    check(&library, BASE, "beta", "beta", BETA);
}

#[test]
fn every_version_and_compression_of_debug_information() {
    for flag in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gz=zlib", "-gz=zlib-gnu"] {
        let program = build(&format!("symbols{flag}"), "crash.c", &["-g", flag, "-O2", "-w"]);
        check(&program, BASE, "beta", "beta", BETA);
    }
}

#[test]
fn symbol_table_without_debug_information() {
    let program = build("symbols-plain", "crash.c", &["-O2", "-w"]);
    check(&program, BASE, "beta", "beta", None);
}

#[test]
fn exported_names_of_a_stripped_library() {
    let library = build("symbols-exports", "crash.c", &["-O2", "-w", "-shared", "-fPIC"]);
    let (exported, hidden) = (symbol(&library, "beta").0, symbol(&library, "on_fault").0);
    run("strip", &[library.to_str().unwrap()]);
    let mut symbolizer = Symbolizer::new(&load_at(&library, BASE));
    assert_eq!(symbolizer.resolve(exact(BASE + exported))[0].function.as_deref(), Some("beta"));
    // The nearest exported function before it is another one, and must not lend its name.
    let frame = &symbolizer.resolve(exact(BASE + hidden))[0];
    assert_eq!((frame.function.as_deref(), frame.module.as_str(), frame.module_offset), (None, "program", hidden));
}

/// Splits debug information off, as distributions do.
fn split_debug_information(test: &str, debug_name: &str) -> (PathBuf, PathBuf) {
    let program = build(test, "crash.c", &["-g", "-O2", "-w", "-Wl,--build-id=none"]);
    let debug = folder(test).join(debug_name);
    std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
    let (program_name, debug_path) = (program.to_str().unwrap(), debug.to_str().unwrap());
    run("objcopy", &["--only-keep-debug", program_name, debug_path]);
    run("strip", &[program_name]);
    run("objcopy", &[&format!("--add-gnu-debuglink={debug_path}"), program_name]);
    (program, debug)
}

fn resolve_beta(program: &Path, debug: &Path) -> SourceFrame {
    let (start, _) = symbol(debug, "beta");
    Symbolizer::new(&load_at(program, BASE)).resolve(exact(BASE + start)).remove(0)
}

#[test]
fn separate_debug_file() {
    for (test, debug_name) in [("split-beside", "program.debug"), ("split-below", ".debug/program.debug")] {
        let (program, debug) = split_debug_information(test, debug_name);
        let frame = resolve_beta(&program, &debug);
        assert_eq!(frame.function.as_deref(), Some("beta"), "{debug_name}");
        assert!(frame.line.is_some(), "{debug_name}");
    }
}

/// The checksum in the link tells debug files of other builds apart.
#[test]
fn separate_debug_file_of_another_build_is_refused() {
    let (program, debug) = split_debug_information("split-wrong", "program.debug");
    let copy = debug.with_extension("kept");
    std::fs::rename(&debug, &copy).unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    bytes.push(0);
    std::fs::write(&debug, bytes).unwrap();
    assert_eq!(resolve_beta(&program, &copy).function, None);
}

#[test]
fn names_of_other_languages() {
    let cpp = build("symbols-cpp", "shapes.cpp", &["-g", "-O1"]);
    let mark = |mark| Some(("shapes.cpp", mark));
    check(&cpp, BASE, "doubled", "shapes::Box<int>::doubled(int) const", mark("doubled"));
    check(&cpp, BASE, "4area", "shapes::area(shapes::Box<int> const&, char const*)", mark("area"));
    run("strip", &["--strip-debug", cpp.to_str().unwrap()]);
    check(&cpp, BASE, "doubled", "shapes::Box<int>::doubled(int) const", None);

    let schemes = [("default", &["-g"][..]), ("v0", &["-g", "-Csymbol-mangling-version=v0"])];
    for (scheme, flags) in schemes {
        let program = build(&format!("symbols-rust-{scheme}"), "crate_names.rs", flags);
        let marked = Some(("crate_names.rs", "advance"));
        let name = frames_of(&program, BASE, "advance")[0].last().unwrap().function.clone().unwrap();
        assert!(name.ends_with("Counter>::advance") || name.ends_with("Counter::advance"), "{name}");
        check(&program, BASE, "advance", &name, marked);
    }
}

#[test]
fn variables() {
    let program = build("symbols-data", "crash.c", &["-g", "-O2", "-w"]);
    let mut symbolizer = Symbolizer::new(&load_at(&program, BASE));
    let (table, size) = symbol(&program, "table");
    assert_eq!(size, 40);
    let mut describe = |address| symbolizer.data_symbol(GuestAddress(BASE + address)).unwrap().to_string();
    assert_eq!(describe(table), "at the global `table`");
    assert_eq!(describe(table + 4), "4 bytes into the global `table`");
    assert_eq!(describe(table + 1), "1 byte into the global `table`");
    // Zeroed data has no bytes in the file, and belongs to the module all the same.
    let (zeroed, _) = symbol(&program, "zeroed");
    assert_eq!(describe(zeroed + 999), "999 bytes into the global `zeroed`");
}

/// Between constants and variables lies a gap that belongs to nobody; only its start is told by what precedes it.
#[test]
fn past_a_variable() {
    let program = build("symbols-past", "crash.c", &["-g", "-O2", "-w"]);
    let (end, gap) = widest_gap(&std::fs::read(&program).unwrap());
    assert!(gap > 4200, "{gap}");
    let mut symbolizer = Symbolizer::new(&load_at(&program, BASE));
    let mut near = |distance| symbolizer.data_symbol(GuestAddress(BASE + end + distance));
    let (touching, close, far) = (near(0).unwrap(), near(12).unwrap(), near(4100));
    assert!(touching.to_string().starts_with("just past the global `"), "{touching}");
    assert!(close.to_string().starts_with("12 bytes past the global `"), "{close}");
    assert_eq!(far, None);
}

/// Start and size of the widest space between two variables.
fn widest_gap(bytes: &[u8]) -> (u64, u64) {
    use object::{Object, ObjectSymbol, SymbolKind};
    let file = object::File::parse(bytes).unwrap();
    let objects = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition());
    let mut ranges: Vec<_> = objects.map(|symbol| (symbol.address(), symbol.address() + symbol.size())).collect();
    ranges.sort();
    let gaps = ranges.windows(2).map(|pair| (pair[0].1, pair[1].0.saturating_sub(pair[0].1)));
    gaps.max_by_key(|(_, size)| *size).unwrap()
}

#[test]
fn addresses_outside_modules() {
    let program = build("symbols-outside", "crash.c", &["-w"]);
    let mut symbolizer = Symbolizer::new(&load_at(&program, BASE));
    let frames = symbolizer.resolve(exact(0x10));
    assert_eq!((frames.len(), frames[0].module.as_str(), frames[0].module_offset), (1, "[unmapped]", 0x10));
    assert_eq!(symbolizer.data_symbol(GuestAddress(0x10)), None);
}

/// Damaged files give fewer answers, never a panic.
#[test]
fn damaged_files() {
    let program = build("symbols-damaged", "crash.c", &["-g", "-O2", "-w"]);
    let whole = std::fs::read(&program).unwrap();
    let space = load_at(&program, BASE);
    let (start, _) = symbol(&program, "beta");
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for round in 0..200 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes.truncate(next() % whole.len()),
            1 => (0..8).for_each(|_| bytes[next() % 1024] = next() as u8),
            _ => (0..400).for_each(|_| bytes[next() % whole.len()] = next() as u8),
        }
        std::fs::write(&program, bytes).unwrap();
        let space = program::space::AddressSpace::new(space.mappings().to_vec());
        let mut symbolizer = Symbolizer::new(&space);
        for distance in 0..16 {
            assert!(!symbolizer.resolve(exact(BASE + start + distance)).is_empty());
        }
        symbolizer.data_symbol(GuestAddress(BASE + symbol_offset_in_data(&space)));
        walk_from(&space, BASE + start);
    }
}

fn symbol_offset_in_data(space: &program::space::AddressSpace) -> u64 {
    space.mappings().last().unwrap().start - BASE
}

/// Follows whatever rules the damaged file holds, over a stack of ascending numbers.
fn walk_from(space: &program::space::AddressSpace, pc: u64) {
    struct Ascending;
    impl program::unwind::Memory for Ascending {
        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            (address..).zip(buffer).for_each(|(address, byte)| *byte = address as u8);
            true
        }
    }
    let registers = program::unwind::Registers::new(pc, 0x1000, 0x2000);
    let walked = program::unwind::backtrace(space, &Ascending, registers, 100);
    assert!(!walked.frames.is_empty());
}

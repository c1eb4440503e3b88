//! Variables of C programs, against what the programs themselves state.

use std::path::{Path, PathBuf};

use crate::common::{build, folder, load_at, marked_line, run, source, symbol};
use crate::facts::{Witness, complaint, value};
use program::space::{FileVma, GuestAddress};
use program::types::TypeKind;
use program::variables::{GlobalPlace, Local, Place, Scope, Variables};

const BASE: u64 = 0x5555_5555_4000;

/// The program of two units.
pub fn build_variables(test: &str, flags: &[&str]) -> PathBuf {
    let other = source("variables_other.c");
    build(test, "variables.c", &[&["-w", other.to_str().unwrap()], flags].concat())
}

#[test]
fn facts_hold_for_every_build() {
    for level in ["-O0", "-O1", "-O2"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            for kind in ["-pie", "-no-pie"] {
                let test = format!("variables{level}{version}{kind}");
                let pic = if kind == "-pie" { "-fpie" } else { "-fno-pie" };
                Witness::new(&build_variables(&test, &["-g", level, version, kind, pic]), "plain").check();
            }
        }
    }
}

#[test]
fn facts_hold_for_unusual_debug_information() {
    let kinds: [&[&str]; 5] = [
        &["-gdwarf-2", "-gstrict-dwarf"],
        &["-gdwarf-3", "-gstrict-dwarf"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-fdebug-types-section"],
        &["-gz=zlib", "-static"],
    ];
    for (position, flags) in kinds.into_iter().enumerate() {
        let program = build_variables(&format!("variables-unusual-{position}"), &[&["-g", "-O0"], flags].concat());
        Witness::new(&program, "plain").check();
    }
    let program = build_variables("variables-lto", &["-g", "-O2", "-flto", "-ffat-lto-objects"]);
    Witness::new(&program, "plain").check();
}

#[test]
fn inlined_functions_have_their_own_locals() {
    for level in ["-O0", "-O2"] {
        let witness = Witness::new(&build_variables(&format!("variables-inlined{level}"), &["-g", level]), "inlined");
        witness.check();
        let (variables, scope) = (witness.variables(), witness.scope());
        assert_eq!(value(&variables, &scope, "twice"), "8");
        assert_eq!(value(&variables, &scope, "inner_value"), "4");
        let locals = variables.locals(witness.code());
        let find = |name: &str| locals.iter().position(|local| local.name == name).unwrap();
        let twice = &locals[find("twice")];
        assert_eq!((twice.function.as_str(), twice.inlined, twice.parameter), ("doubled", true, false));
        assert!(locals[find("inner_value")].parameter && find("twice") < find("total"));
        let total = &locals[find("total")];
        assert_eq!((total.function.as_str(), total.inlined), ("work", false));
        let declared = twice.declared.as_ref().unwrap();
        assert_eq!(declared.file, source("variables.c"));
    }
}

#[test]
fn optimised_locals_live_in_registers() {
    let witness = Witness::new(&build_variables("variables-registers", &["-g", "-O2"]), "plain");
    let (variables, scope) = (witness.variables(), witness.scope());
    let locals = variables.locals(witness.code());
    let place = |local: &Local| variables.place(local, &scope).unwrap();
    let in_register =
        locals.iter().find(|local| local.name != "shadow" && matches!(place(local), Place::Register(_))).unwrap();
    // Without registers neither the frame nor what lies in it is known.
    let nothing = Scope { registers: None, memory: None, ..scope };
    let numbers = locals.iter().find(|local| local.name == "numbers").unwrap();
    assert!(matches!(place(numbers), Place::Address(_)));
    assert_eq!(variables.place(numbers, &nothing), None);
    let message = complaint(&variables, &nothing, "numbers[0]");
    assert!(message.starts_with("`numbers` is a local variable"), "{message}");
    let name = &in_register.name;
    let message = format!("`{name}` is not in memory and has no address");
    assert_eq!(complaint(&variables, &scope, &format!("&{name}")), message);
}

/// What only the entry of the function knew is not invented.
#[test]
fn consumed_parameters_are_optimised_out() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = build_variables(&format!("variables-consumed{version}"), &["-g", "-O2", version]);
        let witness = Witness::new(&program, "consumed");
        witness.check();
        let message = complaint(&witness.variables(), &witness.scope(), "gone");
        assert_eq!(message, "`gone` is optimised out here");
    }
}

#[test]
fn pointers_are_shown_with_what_they_point_at() {
    let witness = Witness::new(&build_variables("variables-pointers", &["-g", "-O0"]), "plain");
    let (variables, scope) = (witness.variables(), witness.scope());
    for (text, end) in [
        ("table[1].next", " <table[0]>"),
        ("&table[2].next", " <table[2].next>"),
        ("given", " <session>"),
        ("greeting", " \"hello\""),
        ("other", " <other_counter>"),
    ] {
        let shown = value(&variables, &scope, text);
        assert!(shown.starts_with("0x") && shown.ends_with(end), "{text}: {shown}");
    }
    let whole = value(&variables, &scope, "session");
    assert!(
        whole.starts_with("{id = 42, refs = 5, state = 300, debt = -3, {…}, pair = {…}, name = \"first\", "),
        "{whole}"
    );
}

/// Addresses lead back to the words that were used for them.
#[test]
fn addresses_are_described_as_the_source_writes_them() {
    let witness = Witness::new(&build_variables("variables-described", &["-g", "-O0"]), "plain");
    let (variables, scope) = (witness.variables(), witness.scope());
    let mut globals = 0;
    for (text, address, size) in witness.places().filter(|(text, ..)| !text.contains(['>', '*'])) {
        let wanted = text.replace("[index]", "[2]");
        let local = || variables.describe_local(address, size, &scope);
        // A thread's own variables have an address like any other, but no module has it.
        if text.starts_with("per_thread") {
            continue;
        }
        let described = variables.describe(address, size).or_else(local).expect(text);
        globals += u32::from(described.function.is_none());
        let path = described.path.strip_prefix("work::").unwrap_or(&described.path);
        assert_eq!((path, described.offset, described.size), (wanted.as_str(), 0, size));
    }
    assert!(globals > 8);
    let address = |text: &str| witness.places().find(|(name, ..)| *name == text).unwrap().1.0;
    let describe = |address, size| variables.describe(GuestAddress(address), size).unwrap().to_string();
    assert_eq!(describe(address("table[2]"), 16), "`table[2]`");
    assert_eq!(describe(address("table[2]"), 4), "`table[2].value`");
    assert_eq!(describe(address("table[2]") + 4, 4), "byte 4 of `table[2]`");
    assert_eq!(describe(address("counter") + 2, 1), "byte 2 of `counter`");
    assert_eq!(describe(address("session.whole") + 3, 1), "`session.bytes[3]`");
    assert_eq!(describe(address("flexible.items[2]"), 4), "`flexible.items[2]`");
    let numbers = variables.describe_local(GuestAddress(address("numbers[index]")), 4, &scope).unwrap();
    assert_eq!(numbers.to_string(), "`numbers[2]` of `work`");
    let inside_thread = Place::ThreadLocal { module: variables.space().modules().next().unwrap().0, offset: 0 };
    assert!(variables.describe_thread_local(&inside_thread, 4).is_some());
}

#[test]
fn blocks_get_their_type_from_pointers() {
    let witness = Witness::new(&build_variables("variables-blocks", &["-g", "-O2"]), "plain");
    let (variables, scope) = (witness.variables(), witness.scope());
    let (_, list, _) = witness.places().find(|(text, ..)| *text == "table[2]").unwrap();
    let pointers = variables.pointers_to(list, &scope);
    let [(local, type_id)] = pointers.as_slice() else { panic!("{pointers:?}") };
    assert_eq!((local.name.as_str(), variables.type_of(*type_id).name.as_str()), ("list", "node_t"));
    assert_eq!(variables.path_in_block(*type_id, 16, 8, 8).text, ".next");
    assert_eq!(variables.path_in_block(*type_id, 64, 40, 8).text, "[2].next");
}

#[test]
fn globals_by_name() {
    let program = build_variables("variables-named", &["-g", "-O2"]);
    let space = load_at(&program, BASE);
    let variables = Variables::new(&space);
    let [table] = variables.globals_named("table").try_into().unwrap();
    assert_eq!(table.place, GlobalPlace::Address(FileVma(symbol(&program, "table").0)));
    assert_eq!((table.name.as_str(), table.size), ("table", 64));
    assert_eq!(variables.type_of(table.type_id.unwrap()).name, "node_t[4]");
    let place = variables.global_place(&table, &Scope::default());
    assert_eq!(place, Place::Address(GuestAddress(BASE + symbol(&program, "table").0)));
    let mut lines: Vec<_> =
        variables.globals_named("counter").into_iter().map(|global| global.declared.unwrap().line).collect();
    lines.sort();
    let marks = [marked_line("variables_other.c", "other counter"), marked_line("variables.c", "counter")];
    assert_eq!(lines, marks);
    let [calls] = variables.globals_named("work::calls").try_into().unwrap();
    assert_eq!(calls.declared.unwrap().line, marked_line("variables.c", "calls"));
    assert_eq!(variables.globals_named("calls").len(), 1);
    assert_eq!(variables.globals_named("elsewhere::calls").len(), 0);
    let [per_thread] = variables.globals_named("per_thread").try_into().unwrap();
    assert_eq!(per_thread.place, GlobalPlace::ThreadLocal(symbol(&program, "per_thread").0));
    assert!(matches!(variables.global_place(&per_thread, &Scope::default()), Place::ThreadLocal { .. }));
}

#[test]
fn types_are_told() {
    let program = build_variables("variables-types", &["-g"]);
    let variables = Variables::new(&load_at(&program, BASE));
    let [session] = variables.types_named("session").try_into().unwrap();
    let found = variables.type_of(session);
    assert_eq!((found.name.as_str(), found.size), ("struct session", Some(64)));
    let field = |name: &str| found.fields().iter().find(|field| field.name.as_deref() == Some(name)).unwrap();
    let type_name = |name: &str| variables.type_of(field(name).type_id).name.clone();
    assert_eq!(type_name("ports"), "volatile const uint16_t[3]");
    assert_eq!(type_name("peer"), "struct session *");
    assert_eq!(type_name("pair"), "struct {…}");
    assert_eq!(type_name("colour"), "enum colour");
    let bits = |name: &str| (field(name).offset, field(name).bits.map(|bits| (bits.start, bits.count)));
    assert_eq!((bits("refs"), bits("state"), bits("debt")), ((4, Some((0, 3))), (4, Some((3, 9))), (5, Some((4, 6)))));
    let of = |name: &str| variables.type_of(variables.globals_named(name)[0].type_id.unwrap());
    assert_eq!((of("hook").name.as_str(), of("grid").name.as_str()), ("void (*)(…)", "int[3][4]"));
    // Only another unit defines it.
    let TypeKind::Pointer { target, .. } = of("shared_hidden").kind else { panic!() };
    assert_eq!(variables.type_of(target).fields().len(), 2);
}

#[test]
fn complaints_name_what_is_wrong() {
    let program = build_variables("variables-complaints", &["-g"]);
    let variables = Variables::new(&load_at(&program, BASE));
    let complain = |text: &str| complaint(&variables, &Scope::default(), text);
    assert_eq!(complain("tabel"), "there is no variable `tabel`; did you mean `table`?");
    assert_eq!(complain("nothing_like_it"), "there is no variable `nothing_like_it`");
    assert_eq!(
        complain("session.ref"),
        "`session` has type `struct session`, without a field `ref`; did you mean `refs`?"
    );
    assert_eq!(complain("*nothing_like_it"), "there is no variable `nothing_like_it`");
    assert_eq!(complain("*grid[0][0]"), "`grid[0][0]` has type `int`, where a pointer is needed");
    assert_eq!(complain("greeting[0]"), "the value of `greeting` cannot be read");
    assert_eq!(complain("&per_thread"), "`per_thread` is thread-local: every thread has its own");
    let ambiguous = complain("counter");
    assert!(ambiguous.starts_with("`counter` can be any of `counter` ("), "{ambiguous}");
}

/// Without debug information there are names and sizes; with some of it split off, all.
#[test]
fn stripped_and_split_programs() {
    let program = build_variables("variables-split", &["-g", "-O2"]);
    let expected = variables_of(&program);
    let debug = folder("variables-split").join("program.debug");
    let (name, debug_name) = (program.to_str().unwrap(), debug.to_str().unwrap());
    run("objcopy", &["--only-keep-debug", name, debug_name]);
    run("objcopy", &["--strip-debug", name]);
    assert_eq!(variables_of(&program), (symbol(&program, "session").0, 64, None));
    run("strip", &[name]);
    run("objcopy", &[&format!("--add-gnu-debuglink={debug_name}"), name]);
    assert_eq!(variables_of(&program), expected);
    assert_eq!(expected.2.as_deref(), Some("struct session"));
    let bare = build_variables("variables-bare", &["-O2"]);
    let (address, size) = symbol(&bare, "table");
    let variables = Variables::new(&load_at(&bare, BASE));
    let described = variables.describe(GuestAddress(BASE + address + 20), 4).unwrap();
    assert_eq!((described.to_string().as_str(), described.size, size), ("byte 20 of `table`", 64, 64));
}

fn variables_of(program: &Path) -> (u64, u64, Option<String>) {
    let variables = Variables::new(&load_at(program, BASE));
    let session = variables.globals_named("session").remove(0);
    let GlobalPlace::Address(FileVma(address)) = session.place else { panic!("{session:?}") };
    (address, session.size, session.type_id.map(|type_id| variables.type_of(type_id).name.clone()))
}

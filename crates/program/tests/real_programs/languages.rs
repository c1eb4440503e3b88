//! Variables of C++ and Rust programs, against what the programs themselves state.

use crate::common::{build, folder, load_at, marked_line, run, source};
use crate::facts::{Witness, value};
use program::types::TypeKind;
use program::variables::Variables;

#[test]
fn facts_of_cpp_hold() {
    for level in ["-O0", "-O2"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let test = format!("classes{level}{version}");
            let program = build(&test, "classes.cpp", &["-g", level, version, "-w", "-std=c++17"]);
            Witness::new(&program, "plain").check();
        }
    }
    let flags = ["-g", "-O0", "-w", "-std=c++17", "-fdebug-types-section", "-no-pie"];
    Witness::new(&build("classes-type-units", "classes.cpp", &flags), "plain").check();
}

#[test]
fn names_of_cpp_are_qualified() {
    let program = build("classes-names", "classes.cpp", &["-g", "-w", "-std=c++17"]);
    let variables = Variables::new(&load_at(&program, 0x5555_5555_4000));
    let names = |name: &str| -> Vec<String> {
        let mut names: Vec<_> = variables.globals_named(name).into_iter().map(|global| global.name).collect();
        names.sort();
        names
    };
    assert_eq!(names("stock"), ["shop::stock", "stock"]);
    assert_eq!(names("shop::stock"), ["shop::stock"]);
    assert_eq!(names("secret"), ["shop::(anonymous namespace)::secret"]);
    assert_eq!(names("made"), ["shop::Item::made"]);
    assert_eq!(names("capacity"), ["shop::Shelf<long int>::capacity"]);
    assert_eq!(names("asked"), ["shop::Item::price::asked"]);
    let made = variables.globals_named("Item::made").remove(0);
    assert_eq!(made.declared.unwrap().line, marked_line("classes.cpp", "made"));
    assert_eq!(names("Shelf<long>::capacity"), names("capacity"));
    let item = variables.type_of(variables.types_named("shop::Item")[0]);
    assert_eq!((item.name.as_str(), item.fields()[0].base), ("shop::Item", true));
}

fn build_statics(test: &str, flags: &[&str]) -> std::path::PathBuf {
    let object = folder(test).join("facts.o");
    let facts = source("statics_facts.c");
    run("gcc", &["-c", "-w", "-fPIC", facts.to_str().unwrap(), "-o", object.to_str().unwrap()]);
    let link = format!("-Clink-arg={}", object.display());
    build(test, "statics.rs", &[&["-g", "--edition=2024", "-Ccodegen-units=1", &link], flags].concat())
}

#[test]
fn facts_of_rust_hold() {
    for version in ["4", "5"] {
        for level in ["0", "2"] {
            let flags = [format!("-Cdwarf-version={version}"), format!("-Copt-level={level}")];
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            Witness::new(&build_statics(&format!("statics-{version}-{level}"), &flags), "plain").check();
        }
    }
}

#[test]
fn rust_enums_are_described_as_far_as_they_are_certain() {
    let witness = Witness::new(&build_statics("statics-enums", &[]), "plain");
    let (variables, scope) = (witness.variables(), witness.scope());
    let locals = variables.locals(witness.code());
    let shape = locals.iter().find(|local| local.name == "square").unwrap();
    let TypeKind::Variants(variants) = &variables.type_of(shape.type_id).kind else { panic!("{shape:?}") };
    let names: Vec<_> = variants.variants.iter().filter_map(|variant| variant.field.name.as_deref()).collect();
    assert_eq!(names, ["Empty", "Circle", "Square"]);
    let path = |offset, size| variables.path_in(shape.type_id, offset, size);
    // Eight bytes from the eighth on can only be a circle's radius; four from the fourth only a square's side.
    assert_eq!((path(8, 8).text.as_str(), path(4, 4).text.as_str()), (".Circle.radius", ".Square.__0"));
    assert_eq!((path(0, 4).text.as_str(), path(0, 4).offset), ("", 0));
    assert_eq!(value(&variables, &scope, "shape.Circle.radius"), "3");
    let counters = variables.globals_named("statics::COUNTER");
    assert_eq!(counters.len(), 1);
    assert_eq!(variables.globals_named("statics::inner::COUNTER").len(), 1);
}

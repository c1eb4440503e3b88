//! Places as people type them, at lines and in functions.

use crate::common::{load_at, marked_line, source, symbol};
use crate::facts::Witness;
use crate::variables::build_variables;
use program::evaluate::EvaluationError;
use program::space::GuestAddress;
use program::symbols::Symbolizer;
use program::unwind::{CodeAddress, CodeAddressKind};
use program::variables::{Scope, Variables};
use program::whereabouts::{Site, Where, WhereError};

const BASE: u64 = 0x5555_5555_4000;

fn resolve(variables: &Variables, scope: &Scope<'_>, text: &str) -> Result<Vec<Site>, WhereError> {
    variables.resolve(&Where::parse(text).unwrap(), scope)
}

fn address(sites: &[Site]) -> GuestAddress {
    sites[0].target.as_ref().unwrap().address().unwrap()
}

#[test]
fn globals_symbols_and_addresses() {
    let program = build_variables("where-globals", &["-g", "-O2"]);
    let variables = Variables::new(&load_at(&program, BASE));
    let (table, _) = symbol(&program, "table");
    let resolve = |text: &str| resolve(&variables, &Scope::default(), text).unwrap();
    assert_eq!(address(&resolve("table")), GuestAddress(BASE + table));
    let inner = resolve("table+24")[0].target.clone().unwrap();
    assert_eq!((inner.address(), inner.size), (Some(GuestAddress(BASE + table + 24)), Some(8)));
    assert_eq!(variables.type_of(inner.type_id.unwrap()).name, "struct node *");
    let plain = resolve(&format!("{:#x}:2", BASE + table))[0].target.clone().unwrap();
    assert_eq!((plain.address(), plain.size), (Some(GuestAddress(BASE + table)), Some(2)));
    let typed = resolve(&format!("{:#x}", BASE + table))[0].target.clone().unwrap();
    assert_eq!((typed.size, variables.type_of(typed.type_id.unwrap()).name.as_str()), (Some(4), "int"));
    let function = resolve("other_counter");
    assert_eq!(address(&function), GuestAddress(BASE + symbol(&program, "other_counter").0));
}

/// The same name means another variable in another file, and code addresses are those of the line.
#[test]
fn lines_choose_among_variables_of_one_name() {
    for level in ["-O0", "-O2"] {
        let program = build_variables(&format!("where-lines{level}"), &["-g", level]);
        let space = load_at(&program, BASE);
        let variables = Variables::new(&space);
        let line = marked_line("variables_other.c", "other line");
        let sites = resolve(&variables, &Scope::default(), &format!("variables_other.c:{line}:counter")).unwrap();
        let at = variables.global_at(address(&sites)).unwrap().0.declared.unwrap();
        assert_eq!(at.line, marked_line("variables_other.c", "other counter"));
        let fault = marked_line("variables.c", "fault");
        let sites = resolve(&variables, &Scope::default(), &format!("programs/variables.c:{fault}:counter")).unwrap();
        let at = variables.global_at(address(&sites)).unwrap().0.declared.unwrap();
        assert_eq!(at.line, marked_line("variables.c", "counter"));
        let mut symbolizer = Symbolizer::new(&space);
        for site in &sites {
            let pc = site.code.as_ref().unwrap().start.0;
            let frames = symbolizer.resolve(CodeAddress { pc, kind: CodeAddressKind::Exact });
            assert_eq!(frames[0].line, Some(fault));
            assert_eq!(site.function.as_deref(), Some("work"));
        }
    }
}

#[test]
fn locals_wait_for_a_thread_to_be_there() {
    let program = build_variables("where-locals", &["-g", "-O0"]);
    let witness = Witness::new(&program, "plain");
    let (variables, scope) = (witness.variables(), witness.scope());
    let line = marked_line("variables.c", "fault");
    let text = format!("variables.c:{line}:numbers[1]");
    let needs_frame = |sites: &[Site]| matches!(sites[0].target, Err(EvaluationError::NeedsFrame { .. }));
    assert!(needs_frame(&resolve(&variables, &Scope::default(), &text).unwrap()));
    let numbers = witness.places().find(|(text, ..)| *text == "numbers[index]").unwrap().1.0;
    let sites = resolve(&variables, &scope, &text).unwrap();
    assert!(sites[0].code.as_ref().unwrap().contains(&GuestAddress(witness.evidence.registers.pc)));
    assert_eq!(address(&sites), GuestAddress(numbers - 4));
    // The same from outside the function, where registers of another frame must not be used.
    assert!(needs_frame(&resolve(&variables, &Scope { code: None, ..scope }, &text).unwrap()));
    assert_eq!(address(&resolve(&variables, &scope, "work:numbers").unwrap()), GuestAddress(numbers - 8));
    assert!(needs_frame(&resolve(&variables, &Scope::default(), "work:total").unwrap()));
    let calls = resolve(&variables, &Scope::default(), "work:calls").unwrap();
    assert!(witness.places().any(|(text, at, _)| text == "calls" && at == address(&calls)));
}

#[test]
fn functions_have_a_body_behind_their_prologue() {
    let program = build_variables("where-functions", &["-g", "-O0"]);
    let variables = Variables::new(&load_at(&program, BASE));
    let [work] = variables.functions_named("work").try_into().unwrap();
    let (start, size) = symbol(&program, "work");
    assert_eq!(work.code, [GuestAddress(BASE + start)..GuestAddress(BASE + start + size)]);
    assert!(work.body.0 > BASE + start && work.body.0 < BASE + start + size, "{work:?}");
    assert_eq!(work.declared.unwrap().file, source("variables.c"));
}

#[test]
fn complaints_say_what_is_near() {
    let program = build_variables("where-complaints", &["-g", "-O0"]);
    let variables = Variables::new(&load_at(&program, BASE));
    let complain = |text: &str| resolve(&variables, &Scope::default(), text).unwrap_err().to_string();
    assert_eq!(complain("missing.c:1:a"), "no debug information names the source file `missing.c`");
    let line = marked_line("variables.c", "forward");
    let message = complain(&format!("variables.c:{line}:counter"));
    assert!(
        message.starts_with(&format!("variables.c:{line} has no code; the nearest lines with code: ")),
        "{message}"
    );
    assert_eq!(complain("wrok:total"), "there is no function `wrok`; did you mean `work`?");
    assert_eq!(complain("tabel"), "there is no variable `tabel`; did you mean `table`?");
}

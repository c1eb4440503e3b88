//! Compares what programs state about their variables with what debug information says.

use std::path::Path;

use crate::common::{Evidence, fail};
use program::expression::Expression;
use program::space::GuestAddress;
use program::unwind::{CodeAddress, CodeAddressKind};
use program::variables::{Scope, Variables};

/// A statement of the program about an expression.
pub struct Fact {
    pub kind: String,
    pub expression: String,
    pub value: String,
    pub size: u64,
}

/// A program that has stated facts and failed.
pub struct Witness {
    pub evidence: Evidence,
    pub facts: Vec<Fact>,
}

impl Witness {
    pub fn new(program: &Path, way: &str) -> Witness {
        let evidence = fail(program, way);
        let text = std::fs::read_to_string(program.parent().unwrap().join(way).join("facts")).unwrap();
        let facts: Vec<Fact> = text.lines().map(read).collect();
        assert!(facts.len() > 3, "{text}");
        Witness { evidence, facts }
    }

    pub fn code(&self) -> CodeAddress {
        CodeAddress { pc: self.evidence.registers.pc, kind: CodeAddressKind::Exact }
    }

    /// Everything that is known at the failure.
    pub fn scope(&self) -> Scope<'_> {
        let thread = self.facts.iter().find(|fact| fact.kind == "thread");
        Scope {
            code: Some(self.code()),
            registers: Some(&self.evidence.registers),
            memory: Some(&self.evidence.memory),
            thread_pointer: thread.map(|fact| fact.value.parse().unwrap()),
            frame_address: None,
        }
    }

    pub fn variables(&self) -> Variables {
        Variables::new(&self.evidence.space)
    }

    pub fn places(&self) -> impl Iterator<Item = (&str, GuestAddress, u64)> {
        let places = self.facts.iter().filter(|fact| fact.kind == "place");
        places.map(|fact| (fact.expression.as_str(), GuestAddress(fact.value.parse().unwrap()), fact.size))
    }

    /// Every fact must be what evaluating its expression at the failure gives.
    pub fn check(&self) {
        let (variables, scope) = (self.variables(), self.scope());
        for (text, address, size) in self.places() {
            let target = variables.evaluate(&Expression::parse(text).unwrap(), &scope);
            let target = target.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((target.address(), target.size), (Some(address), Some(size)), "{text}");
        }
        for fact in self.facts.iter().filter(|fact| fact.kind == "value" && fact.value != "address") {
            assert_eq!(value(&variables, &scope, &fact.expression), fact.value, "{}", fact.expression);
        }
    }
}

fn read(line: &str) -> Fact {
    let mut words = line.split('|').map(str::to_owned);
    let mut next = || words.next().unwrap();
    Fact { kind: next(), expression: next(), value: next(), size: next().parse().unwrap_or(0) }
}

/// The text of an expression's value.
pub fn value(variables: &Variables, scope: &Scope<'_>, text: &str) -> String {
    let target = variables.evaluate(&Expression::parse(text).unwrap(), scope);
    let target = target.unwrap_or_else(|error| panic!("{text}: {error}"));
    variables.format_target(&target, scope).unwrap_or_else(|| panic!("{text} cannot be read: {target:?}"))
}

/// What is wrong with an expression.
pub fn complaint(variables: &Variables, scope: &Scope<'_>, text: &str) -> String {
    let target = variables.evaluate(&Expression::parse(text).unwrap(), scope);
    target.expect_err(text).to_string()
}

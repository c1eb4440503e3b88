//! The language of the table: what a row can say, and how a row that is a list of outputs is carried out.

use super::prepared::Before;
use super::survey::{Answer, Outcome, Survey};

/// What is known of one system call.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) number: u32,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test that it fits the number"))]
    pub(super) name: &'static str,
    pub(super) before: Before,
    pub(super) rule: Rule,
}

#[derive(Clone, Copy)]
pub(super) enum Rule {
    Outputs(&'static [Output]),
    /// The answer depends on more than a list can say.
    Function(fn(&mut Survey) -> Answer),
    Unknown,
}

/// Memory that an argument points to and the call writes.
#[derive(Clone, Copy)]
pub(super) struct Output {
    /// Which argument is the pointer, counted from 0.
    argument: u8,
    size: Size,
    when: When,
}

#[derive(Clone, Copy)]
enum When {
    /// If the call succeeds; as ever, EFAULT counts as perhaps.
    Success,
    Always,
}

#[derive(Clone, Copy)]
pub(super) enum Size {
    Fixed(u32),
    /// The result counts elements of `each` bytes; argument `capacity` says for how many there is room.
    Result {
        capacity: u8,
        each: u32,
    },
    /// A 64-bit argument counts elements of `each` bytes.
    Argument {
        argument: u8,
        each: u32,
    },
    /// An argument of type `int` counts elements of `each` bytes.
    Int {
        argument: u8,
        each: u32,
    },
    /// An argument of type `int` counts bits, kept in whole 64-bit words.
    Bits {
        argument: u8,
    },
    /// An argument points to a 32-bit length: of the room before the call, of the answer after it.
    LengthAt {
        argument: u8,
    },
    /// Such a length itself; left alone if the pointer to the room, in argument `room`, is null.
    LengthOf {
        room: u8,
    },
    /// The pointer leads to as many vectors as the argument says; the result is how much of their room was filled.
    Vectors {
        count: u8,
    },
}

/// The result is a number of bytes; argument `capacity` says for how many there is room.
pub(super) const fn bytes(capacity: u8) -> Size {
    Size::Result { capacity, each: 1 }
}

/// The result counts elements of `each` bytes; argument `capacity` says for how many there is room.
pub(super) const fn items(capacity: u8, each: u32) -> Size {
    Size::Result { capacity, each }
}

/// Written if the call succeeds.
pub(super) const fn to(argument: u8, size: Size) -> Output {
    Output { argument, size, when: When::Success }
}

/// A structure of `size` bytes, written if the call succeeds.
pub(super) const fn fixed(argument: u8, size: u32) -> Output {
    to(argument, Size::Fixed(size))
}

/// A structure of `size` bytes, perhaps written even if the call fails.
pub(super) const fn always(argument: u8, size: u32) -> Output {
    Output { argument, size: Size::Fixed(size), when: When::Always }
}

/// Perhaps written even if the call fails.
pub(super) const fn always_to(argument: u8, size: Size) -> Output {
    Output { argument, size, when: When::Always }
}

const fn row(number: u32, name: &'static str, rule: Rule) -> Row {
    Row { number, name, before: Before::Nothing, rule }
}

/// A call that writes no memory.
pub(super) const fn nothing(number: u32, name: &'static str) -> Row {
    row(number, name, Rule::Outputs(&[]))
}

pub(super) const fn writes(number: u32, name: &'static str, outputs: &'static [Output]) -> Row {
    row(number, name, Rule::Outputs(outputs))
}

pub(super) const fn decided(number: u32, name: &'static str, function: fn(&mut Survey) -> Answer) -> Row {
    row(number, name, Rule::Function(function))
}

pub(super) const fn unknown(number: u32, name: &'static str) -> Row {
    row(number, name, Rule::Unknown)
}

impl Row {
    pub(super) const fn noting(self, before: Before) -> Row {
        Row { before, ..self }
    }
}

pub(super) fn report(outputs: &[Output], survey: &mut Survey) -> Answer {
    for output in outputs {
        let address = survey.argument(output.argument);
        if address == 0 || matches!(output.when, When::Success) && !survey.may_have_written() {
            continue;
        }
        match output.size {
            Size::Vectors { count } => {
                let limit = survey.filled(u64::MAX);
                survey.report_vectors(address, survey.argument(count), limit)?;
            }
            size => survey.report(address, length(size, survey)),
        }
    }
    Ok(())
}

fn length(size: Size, survey: &Survey) -> u64 {
    match size {
        Size::Fixed(length) => u64::from(length),
        Size::Result { capacity, each } => survey.filled(survey.argument(capacity)).saturating_mul(u64::from(each)),
        Size::Argument { argument, each } => survey.argument(argument).saturating_mul(u64::from(each)),
        Size::Int { argument, each } => u64::from(survey.int(argument)) * u64::from(each),
        Size::Bits { argument } => u64::from(survey.int(argument)).div_ceil(64) * 8,
        Size::LengthAt { argument } => answered_length(argument, survey),
        Size::LengthOf { room } => {
            if survey.argument(room) == 0 {
                0
            } else {
                4
            }
        }
        Size::Vectors { .. } => unreachable!("vectors are no single span"),
    }
}

/// The kernel fills what there is room for, then says how long the answer would have been.
fn answered_length(argument: u8, survey: &Survey) -> u64 {
    let room = survey.prepared.length();
    let answer = survey.u32_at(survey.argument(argument)).ok();
    let shorter = match survey.outcome {
        Outcome::Done(_) => room.into_iter().chain(answer).min(),
        Outcome::Faulted | Outcome::Failed(_) => room,
    };
    u64::from(shorter.unwrap_or(0))
}

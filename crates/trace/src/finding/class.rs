//! What kinds of findings there are, by the words that stand for them in files.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Class {
    DataRace,
    AdHocSynchronisation,
    AtomicityViolation,
    OrderViolation,
    Deadlock,
    Hang,
    Crash,
    FailedAssertion,
    BadExit,
    WrongOutput,
    FailedCheck,
    NullDereference,
    UseAfterFree,
    UninitialisedRead,
    BufferOverflow,
    MemoryCorruption,
    ConcurrencyNull,
    ConcurrencyUninit,
    ConcurrencyDangling,
    ConcurrencyOverflow,
    ConcurrencyDoubleFree,
    HeapOverflow,
    StackOverflow,
    GlobalOverflow,
    DoubleFree,
    WrongPointer,
}

impl Class {
    /// All of them, in the order of their declaration.
    pub const ALL: [Class; 26] = [
        Class::DataRace,
        Class::AdHocSynchronisation,
        Class::AtomicityViolation,
        Class::OrderViolation,
        Class::Deadlock,
        Class::Hang,
        Class::Crash,
        Class::FailedAssertion,
        Class::BadExit,
        Class::WrongOutput,
        Class::FailedCheck,
        Class::NullDereference,
        Class::UseAfterFree,
        Class::UninitialisedRead,
        Class::BufferOverflow,
        Class::MemoryCorruption,
        Class::ConcurrencyNull,
        Class::ConcurrencyUninit,
        Class::ConcurrencyDangling,
        Class::ConcurrencyOverflow,
        Class::ConcurrencyDoubleFree,
        Class::HeapOverflow,
        Class::StackOverflow,
        Class::GlobalOverflow,
        Class::DoubleFree,
        Class::WrongPointer,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Class::DataRace => "data-race",
            Class::AdHocSynchronisation => "ad-hoc-synchronisation",
            Class::AtomicityViolation => "atomicity-violation",
            Class::OrderViolation => "order-violation",
            Class::Deadlock => "deadlock",
            Class::Hang => "hang",
            Class::Crash => "crash",
            Class::FailedAssertion => "failed-assertion",
            Class::BadExit => "bad-exit",
            Class::WrongOutput => "wrong-output",
            Class::FailedCheck => "failed-check",
            Class::NullDereference => "null-dereference",
            Class::UseAfterFree => "use-after-free",
            Class::UninitialisedRead => "uninitialised-read",
            Class::BufferOverflow => "buffer-overflow",
            Class::MemoryCorruption => "memory-corruption",
            Class::ConcurrencyNull => "concurrency-null",
            Class::ConcurrencyUninit => "concurrency-uninit",
            Class::ConcurrencyDangling => "concurrency-dangling",
            Class::ConcurrencyOverflow => "concurrency-overflow",
            Class::ConcurrencyDoubleFree => "concurrency-double-free",
            Class::HeapOverflow => "heap-overflow",
            Class::StackOverflow => "stack-overflow",
            Class::GlobalOverflow => "global-overflow",
            Class::DoubleFree => "double-free",
            Class::WrongPointer => "wrong-pointer",
        }
    }
}

impl From<Class> for &'static str {
    fn from(class: Class) -> &'static str {
        class.word()
    }
}

impl TryFrom<String> for Class {
    type Error = UnknownClass;

    fn try_from(word: String) -> Result<Class, UnknownClass> {
        Class::ALL.into_iter().find(|class| class.word() == word).ok_or(UnknownClass(word))
    }
}

/// A word that stands for no class that we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownClass(pub String);

impl fmt::Display for UnknownClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "there is no class `{}`; a newer whodunit may know it", self.0)
    }
}

impl std::error::Error for UnknownClass {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back_to_their_classes() {
        for class in Class::ALL {
            assert_eq!(Class::try_from(class.word().to_owned()), Ok(class));
        }
        assert!(Class::ALL.is_sorted_by(|earlier, later| earlier < later));
        assert_eq!(Class::try_from("race".to_owned()), Err(UnknownClass("race".to_owned())));
    }
}

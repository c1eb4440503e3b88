//! What the classes of findings are called, and what they mean.

use trace::finding::Class;

/// What is said of a class.
pub(super) struct About {
    /// In running text.
    pub name: &'static str,
    /// For readers who meet the class for the first time.
    pub meaning: &'static str,
}

pub(super) fn about(class: Class) -> About {
    let (name, meaning) = match class {
        Class::DataRace => (
            "data race",
            "Two threads access the same memory, at least one of them writes, and nothing orders the two accesses.",
        ),
        Class::AdHocSynchronisation => (
            "ad-hoc synchronisation",
            "A thread waits in a loop for a plain variable that another thread writes. Compilers and processors may \
             reorder around it: make the variable atomic.",
        ),
        Class::AtomicityViolation => (
            "atomicity violation",
            "A thread expects that nobody comes between two of its accesses, and another thread does.",
        ),
        Class::OrderViolation => (
            "order violation",
            "One thing must come before another in a different thread, and nothing makes sure of it.",
        ),
        Class::Deadlock => ("deadlock", "Threads wait for each other in a circle, so that none of them can go on."),
        Class::Hang => ("hang", "Threads run, but none of them makes progress."),
        Class::Crash => ("crash", "A signal ends the program."),
        Class::FailedAssertion => ("failed assertion", "The program finds itself in a state that it holds impossible."),
        Class::BadExit => ("bad exit", "The program ends by itself, with a status that says it failed."),
        Class::WrongOutput => ("wrong output", "The program writes something else than it should."),
        Class::FailedCheck => ("failed check", "The program ends well, but the check that was given says it failed."),
        Class::NullDereference => ("null dereference", "A pointer is used while it is null."),
        Class::UseAfterFree => ("use after free", "Memory is used after it has been given back."),
        Class::UninitialisedRead => ("uninitialised read", "Memory is read before anybody has written to it."),
        Class::BufferOverflow => ("buffer overflow", "An access goes beyond the end of a block of memory."),
        Class::MemoryCorruption => (
            "memory corruption",
            "A statement writes to memory that is not its own; the failure comes later, elsewhere.",
        ),
        Class::ConcurrencyNull => (
            "null dereference by order",
            "A pointer is dereferenced that another thread sets to null, and nothing keeps that from coming first.",
        ),
        Class::ConcurrencyUninit => (
            "uninitialised read by order",
            "What one thread reads only another initialises, and nothing makes the reader wait.",
        ),
        Class::ConcurrencyDangling => (
            "use after free by order",
            "A block that one thread accesses another gives back, and nothing keeps that from coming first.",
        ),
        Class::ConcurrencyOverflow => {
            ("buffer overflow by order", "An index is changed by another thread between its check and its use.")
        }
        Class::ConcurrencyDoubleFree => (
            "double free by order",
            "Two threads give the same block back, and only their order has kept one of them from it.",
        ),
        Class::HeapOverflow => ("heap overflow", "A block of the heap is written to beyond its end."),
        Class::StackOverflow => ("stack overflow", "A variable on the stack is written to beyond its end."),
        Class::GlobalOverflow => ("global overflow", "A global variable is written to beyond its end."),
        Class::DoubleFree => ("double free", "A block of memory is given back twice."),
        Class::WrongPointer => ("wrong pointer", "A pointer leads to valid memory that is not meant."),
    };
    About { name, meaning }
}

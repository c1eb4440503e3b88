//! The command line as its users meet it: the real binary, its words and its exit status.

mod cli {
    mod bad_input;
    mod harness;
    mod pass_through;
    mod reports;
    mod usage;
}

//! Real programs, run natively and under `whodunit run`, must not tell the difference.
//!
//! Every line of a family runs twice, each time in a fresh directory at the same path, and both
//! runs are compared byte for byte: standard output, standard error, exit status or signal, and the tree
//! of files left behind. Nothing is normalised; what a line leaves out is stated on the line.
//!
//! `WHODUNIT_BIN` names another binary to put in the place of the one just built. A script that drops
//! `run` and `--` and executes the rest checks that the lines themselves are repeatable.

mod programs {
    mod archivers;
    mod builders;
    mod compare;
    mod debian;
    mod harness;
    mod languages;
    mod line;
    mod prebuilt;
    mod running;
    mod servers;
    mod shells;
    mod text_tools;
    mod tree;
}

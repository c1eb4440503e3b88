//! What is known about a program without running it: modules, functions, source lines, unwinding rules.
//!
//! This crate must not know runs, the engine, or presentation. It reads the program's files and is handed everything
//! else: the memory map as a list, the stack through [`unwind::Memory`].
//!
//! Damaged, stripped and missing files are normal input. Whatever cannot be read becomes "nothing known" and never an
//! error, because every caller is already busy with a failure that matters more.
#![forbid(unsafe_code)]

mod call_frames;
mod debug_file;
mod elf;
mod line_tables;
mod maps;
mod registers;
pub mod source;
pub mod space;
mod symbol_table;
pub mod symbols;
pub mod unwind;

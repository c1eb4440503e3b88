//! What is known about a program without running it: modules, functions, source lines, unwinding rules, variables and
//! their types, control flow.
//!
//! This crate must not know runs, the engine, or presentation. It reads the program's files and is handed everything
//! else: the memory map as a list, the stack through [`unwind::Memory`].
//!
//! Damaged, stripped and missing files are normal input. Whatever cannot be read becomes "nothing known" and never an
//! error, because every caller is already busy with a failure that matters more.
#![forbid(unsafe_code)]

mod call_frames;
pub mod copies;
mod debug_file;
mod debug_info;
mod declarations;
pub mod describe;
mod elf;
pub mod evaluate;
pub mod expression;
pub mod flow;
pub mod functions;
mod line_code;
mod line_tables;
mod linkage;
mod locations;
mod maps;
pub mod material;
mod module_variables;
pub mod movable;
mod nearest;
mod object_symbols;
mod places;
mod qualified_names;
mod registers;
mod scopes;
pub mod sites;
pub mod source;
pub mod space;
mod symbol_table;
pub mod symbols;
mod type_entries;
pub mod types;
pub mod unwind;
mod values;
pub mod variables;
pub mod whereabouts;

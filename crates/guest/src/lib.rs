//! Facts about the guest: instructions' effects, ELF files, the system-call and signal ABI.
//!
//! Bytes in, facts out. This crate must not know processes, files or the engine, and has no `unsafe`.
#![forbid(unsafe_code)]

pub mod bpf;
pub mod effects;
pub mod elf;
pub mod flow;
pub mod instruction;
pub mod script;
pub mod syscall;

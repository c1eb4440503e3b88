//! From guest instructions to code in the cache, and back from a place in the cache to the guest's state.

pub mod assembler;
pub mod cache;
pub mod events;
pub mod hot;
pub mod memory;
pub mod observe;
pub mod path;
pub mod points;
pub mod stubs;
pub mod translate;

#[cfg(test)]
mod tests;

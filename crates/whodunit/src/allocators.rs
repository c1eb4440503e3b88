//! The option `--alloc`: functions of the program that hand out memory and take it back, as its users name them.

use crate::recordings::Trouble;
use crate::recordings::text::escaped;
use clap::Args;
use program::space::AddressSpace;
use serde::{Deserialize, Serialize};
use session::stream::{BlockSize, Role};

/// Arguments of functions that are known, of those that there may be.
const MOST_ARGUMENTS: usize = 3;
/// No block is larger.
const LARGEST: u64 = 1 << 40;

/// A pair of functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocator {
    allocates: String,
    size: BlockSize,
    frees: String,
    /// Which argument is the block that comes back, from 0.
    freed: usize,
}

#[derive(Args, Clone, Debug, Default)]
#[group(id = "allocating")]
pub struct Arguments {
    /// NAME is a function that returns memory, and FREE takes it back (FREE@2: by its second argument). SIZE is which argument
    /// of NAME says how many bytes, from 1, or =BYTES; 1 if it is left out. May be given several times
    #[arg(long = "alloc", value_name = "NAME:FREE[:SIZE]", value_parser = parse)]
    pub allocators: Vec<Allocator>,
}

impl Arguments {
    /// Refuses names that the recorded program does not have.
    pub fn check(&self, space: &AddressSpace) -> Result<(), Trouble> {
        for name in self.allocators.iter().flat_map(|allocator| [&allocator.allocates, &allocator.frees]) {
            if space.functions_meaning(|symbol| (symbol == name).then_some(())).is_empty() {
                let name = escaped(name);
                let problem = format!("--alloc: the program has no function with the symbol {name} (see `nm`)");
                return Err(Trouble::Refused(problem));
            }
        }
        Ok(())
    }

    /// The same again, as words of a command.
    pub fn words(&self) -> String {
        self.allocators.iter().map(|allocator| format!(" --alloc {}", allocator.word())).collect()
    }
}

impl Allocator {
    fn word(&self) -> String {
        let size = match self.size {
            BlockSize::Argument(position) => (position + 1).to_string(),
            BlockSize::Bytes(bytes) => format!("={bytes}"),
        };
        format!("{}:{}@{}:{size}", self.allocates, self.frees, self.freed + 1)
    }
}

/// What a function does, if its name was told.
pub fn role_of(allocators: &[Allocator], symbol: &str) -> Option<Role> {
    allocators.iter().find_map(|allocator| match symbol {
        _ if symbol == allocator.allocates => Some(Role::AllocateTold(allocator.size)),
        _ if symbol == allocator.frees => Some(Role::FreeTold(allocator.freed)),
        _ => None,
    })
}

fn parse(text: &str) -> Result<Allocator, String> {
    let usage = || "give NAME:FREE, NAME:FREE:2 (the second argument is the size) or NAME:FREE:=64".to_owned();
    // C++ names hold colons too, but symbols do not.
    let mut parts = text.split(':');
    let (allocates, frees) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(usage)?);
    let size = parts.next().map_or(Some(BlockSize::Argument(0)), size).ok_or_else(usage)?;
    let (frees, freed) = match frees.split_once('@') {
        Some((frees, number)) => (frees, argument(number).ok_or_else(usage)?),
        None => (frees, 0),
    };
    if allocates.is_empty() || frees.is_empty() || parts.next().is_some() {
        return Err(usage());
    }
    Ok(Allocator { allocates: allocates.to_owned(), size, frees: frees.to_owned(), freed })
}

fn size(text: &str) -> Option<BlockSize> {
    match text.strip_prefix('=') {
        Some(bytes) => bytes.parse().ok().filter(|bytes| (1..=LARGEST).contains(bytes)).map(BlockSize::Bytes),
        None => argument(text).map(BlockSize::Argument),
    }
}

/// The position of an argument, from its number.
fn argument(text: &str) -> Option<usize> {
    text.parse::<usize>().ok().filter(|number| (1..=MOST_ARGUMENTS).contains(number)).map(|number| number - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_in_pairs() {
        let parsed = parse("get:put").expect("a pair");
        let expected =
            Allocator { allocates: "get".to_owned(), size: BlockSize::Argument(0), frees: "put".to_owned(), freed: 0 };
        assert_eq!(parsed, expected);
        let other = parse("get:put@2:=64").expect("a pair");
        assert_eq!((other.size, other.freed), (BlockSize::Bytes(64), 1));
        assert_eq!(parse(&other.word()), Ok(other.clone()));
        assert_eq!(role_of(&[other], "put"), Some(Role::FreeTold(1)));
        assert_eq!(role_of(&[parsed], "malloc"), None);
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in
            ["", "get", "get:", ":put", "get:put:", "get:put:0", "get:put:4", "get:put:=0", "get:put@0", "a:b:1:c"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

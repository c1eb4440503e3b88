//! Names for the addresses of a recorded program: sites by function and line, memory by variable, field and block.
//!
//! May go wrong: memory is named by the address space as it was at the end of the process image, so code and variables of
//! what was unloaded before have no names; the stack of a thread that has ended may be named after the one that has it now.

mod blocks;
mod heap_types;
mod threads;

pub use blocks::{Block, Blocks};

use crate::pack;
use crate::show::Recorded;
use heap_types::HeapTypes;
use program::space::GuestAddress;
use program::symbols::{SourceFrame, Symbolizer};
use program::types::TypeId;
use program::unwind::{CodeAddress, CodeAddressKind};
use program::variables::{Scope, Variables};
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use threads::Threads;
use trace::Recording;

/// Names things of one process image.
pub struct Naming {
    symbolizer: Symbolizer,
    variables: Variables,
    /// To be read from the log when somebody asks.
    threads: LazyCell<Threads, Box<dyn FnOnce() -> Threads>>,
    heap_types: HeapTypes,
    sites: BTreeMap<CodeAddress, Rc<[SourceFrame]>>,
}

/// Memory that somebody accessed.
#[derive(Clone, Copy, Default)]
pub struct Memory<'a> {
    pub address: u64,
    pub size: u64,
    /// Who accessed it.
    pub thread: u32,
    /// The recording's event that came next; none if that is not known.
    pub event: Option<u64>,
    /// The block of the heap that the address is in.
    pub block: Option<&'a Block>,
    /// The call whose frame may hold the address.
    pub frame: Option<Frame>,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// What the stack pointer was before the call.
    pub address: u64,
    /// Where the function is: at an instruction, or at the return address of what it calls.
    pub pc: u64,
    pub is_calling: bool,
}

/// What somebody would call a piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// `table[3].next`, `field refs of struct session in a block of 64 bytes allocated at cache.c:41`, `stack of thread 2`.
    pub text: String,
    /// The type of what was accessed, if it was accessed as a whole.
    pub type_id: Option<TypeId>,
}

impl Named {
    fn only(text: String) -> Named {
        Named { text, type_id: None }
    }
}

impl Naming {
    /// `recorded` is what is known of that log.
    pub fn new(recording: &Recording, log: u32, recorded: &Recorded) -> Naming {
        let log = recording.log(log).ok();
        Naming {
            symbolizer: Symbolizer::new(&recorded.space),
            variables: Variables::new(&recorded.space),
            threads: LazyCell::new(Box::new(move || log.as_ref().map(Threads::read).unwrap_or_default())),
            heap_types: HeapTypes::new(pack::copies_of(recording)),
            sites: BTreeMap::new(),
        }
    }

    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The functions at an instruction, the innermost inlined one first. Never empty.
    pub fn site(&mut self, pc: u64) -> Rc<[SourceFrame]> {
        self.frames(CodeAddress { pc, kind: CodeAddressKind::Exact })
    }

    /// The same for the call that returns to an address.
    pub fn call_site(&mut self, return_address: u64) -> Rc<[SourceFrame]> {
        self.frames(CodeAddress { pc: return_address, kind: CodeAddressKind::ReturnAddress })
    }

    fn frames(&mut self, code: CodeAddress) -> Rc<[SourceFrame]> {
        let symbolizer = &mut self.symbolizer;
        Rc::clone(self.sites.entry(code).or_insert_with(|| symbolizer.resolve(code).into()))
    }

    /// What is at an address; none if nothing is known of it.
    pub fn address(&mut self, memory: &Memory<'_>) -> Option<Named> {
        if let Some(block) = memory.block {
            return Some(self.in_block(memory, block));
        }
        self.global(memory)
            .or_else(|| self.thread_local(memory))
            .or_else(|| self.local(memory))
            .or_else(|| self.stack(memory))
            .or_else(|| self.module(memory))
    }

    /// What a lock or the like at an address is called: the names that libraries give its inside are left out.
    pub fn object(&mut self, memory: &Memory<'_>) -> Option<String> {
        self.address(memory).map(|named| without_reserved(&named.text))
    }

    fn global(&self, memory: &Memory<'_>) -> Option<Named> {
        let described = self.variables.describe(GuestAddress(memory.address), memory.size)?;
        let is_whole = described.offset == 0 && described.size == memory.size;
        let is_beyond = described.size != 0 && described.offset.saturating_add(memory.size) > described.size;
        let name = with_offset(described.path, described.offset);
        let text = if is_beyond { format!("{} from {name} on", bytes(memory.size)) } else { name };
        Some(Named { text, type_id: described.type_id.filter(|_| is_whole) })
    }

    fn thread_local(&self, memory: &Memory<'_>) -> Option<Named> {
        self.threads.pointers(memory.thread).find_map(|(thread, pointer)| {
            let address = GuestAddress(memory.address);
            let described = self.variables.describe_thread_local_at(address, pointer, memory.size)?;
            let is_whole = described.offset == 0 && described.size == memory.size;
            let name = with_offset(described.path, described.offset);
            let text = format!("{name}, thread-local of thread {thread}");
            Some(Named { text, type_id: described.type_id.filter(|_| is_whole) })
        })
    }

    /// A local variable of a function that has not returned.
    fn local(&self, memory: &Memory<'_>) -> Option<Named> {
        let frame = memory.frame?;
        let kind = if frame.is_calling { CodeAddressKind::ReturnAddress } else { CodeAddressKind::Exact };
        let code = Some(CodeAddress { pc: frame.pc, kind });
        let scope = Scope { code, frame_address: Some(frame.address), ..Scope::default() };
        let described = self.variables.describe_local(GuestAddress(memory.address), memory.size, &scope)?;
        let is_whole = described.offset == 0 && described.size == memory.size;
        let mut text = with_offset(described.path, described.offset);
        if let Some(function) = described.function {
            text += &format!(" of {function}");
        }
        if let Some(owner) = self.threads.owner(memory).filter(|owner| *owner != memory.thread) {
            text += &format!(", stack of thread {owner}");
        }
        Some(Named { text, type_id: described.type_id.filter(|_| is_whole) })
    }

    fn stack(&self, memory: &Memory<'_>) -> Option<Named> {
        let thread = self.threads.owner(memory)?;
        let part = if self.threads.is_descriptor(memory, thread) { "thread-local storage" } else { "stack" };
        Some(Named::only(format!("{part} of thread {thread}")))
    }

    fn module(&self, memory: &Memory<'_>) -> Option<Named> {
        let space = self.variables.space();
        let (module, _) = space.locate(GuestAddress(memory.address))?;
        Some(Named::only(format!("data of {}", space.module(module).name())))
    }

    fn in_block(&mut self, memory: &Memory<'_>, block: &Block) -> Named {
        let frames = self.call_site(block.site);
        let whole = format!("a block of {}{}", bytes(block.size), allocated_at(&frames));
        let offset = memory.address - block.address.min(memory.address);
        let part = self.heap_types.part(&self.variables, block, &frames, offset, memory.size);
        match part {
            Some(part) => Named { text: format!("{} in {whole}", part.text), type_id: part.type_id },
            None if offset == 0 => Named::only(whole),
            None => Named::only(format!("{} into {whole}", bytes(offset))),
        }
    }
}

/// `queue.lock` for `queue.lock.__data.__lock`.
fn without_reserved(text: &str) -> String {
    let Some((name, inside)) = text.split_once(".__") else { return text.to_owned() };
    let rest = inside.find([' ', ',']).map_or("", |end| &inside[end..]);
    format!("{name}{rest}")
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

fn with_offset(name: String, offset: u64) -> String {
    if offset == 0 { name } else { format!("{name}+{offset}") }
}

/// ` allocated at cache.c:41`, or as much of it as is known.
fn allocated_at(frames: &[SourceFrame]) -> String {
    let Some(frame) = frames.first() else { return String::new() };
    match (&frame.file, frame.line, &frame.function) {
        (Some(file), Some(line), _) => {
            let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
            format!(" allocated at {name}:{line}")
        }
        (_, _, Some(function)) => format!(" allocated in {function}"),
        _ => format!(" allocated at {}+{:#x}", frame.module, frame.module_offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: Option<&str>, file: Option<&str>, line: Option<u32>) -> SourceFrame {
        SourceFrame {
            function: function.map(str::to_owned),
            file: file.map(Into::into),
            line,
            column: None,
            inlined: false,
            module: "prog".to_owned(),
            module_offset: 0x1234,
        }
    }

    #[test]
    fn names_of_objects() {
        assert_eq!(without_reserved("queue.lock.__data.__lock"), "queue.lock");
        assert_eq!(without_reserved("m.__size[0] of main, stack of thread 1"), "m of main, stack of thread 1");
        assert_eq!(without_reserved("table[3].next"), "table[3].next");
    }

    #[test]
    fn where_a_block_comes_from() {
        assert_eq!(allocated_at(&[frame(Some("fill"), Some("/src/cache.c"), Some(41))]), " allocated at cache.c:41");
        assert_eq!(allocated_at(&[frame(Some("fill"), None, None)]), " allocated in fill");
        assert_eq!(allocated_at(&[frame(None, None, None)]), " allocated at prog+0x1234");
    }
}

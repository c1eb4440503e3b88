//! What lies at an address that a program should not have touched, in a few words.

use report::crash::Access;

/// The null page: what a null pointer with a small offset leads to.
const NULL_PAGE_END: u64 = 4096;
/// Further away, a mapping has nothing to do with the address.
const MAX_DISTANCE: u64 = 64 << 10;
/// A single call can put that much on the stack before anything of it is touched.
const LARGEST_FRAME: u64 = 8 << 20;
/// Below the stack pointer only calls, pushes and the red zone reach.
const BELOW_POINTER: u64 = 64 << 10;

/// Whether the processor takes it for an address: the upper bits all equal the highest of the 48 that count.
pub fn is_canonical(address: u64) -> bool {
    const UNUSED: u32 = 16;
    ((address << UNUSED).cast_signed() >> UNUSED).cast_unsigned() == address
}

/// A line of the memory map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    /// The name of the file without its folder, or the kernel's name in brackets.
    pub name: Option<String>,
}

impl Region {
    fn is_accessible(&self) -> bool {
        self.readable || self.writable || self.executable
    }

    fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn describe(&self) -> String {
        match &self.name {
            Some(name) => format!("the mapping of {name}"),
            None => format!("the memory at {:#x} to {:#x}", self.start, self.end),
        }
    }
}

/// A thread and its stack pointer.
#[derive(Clone, Copy, Debug)]
pub struct StackPointer {
    pub thread: u32,
    pub address: u64,
}

/// The memory map with the stacks in it.
pub struct Places<'a> {
    /// Sorted by address.
    pub regions: &'a [Region],
    /// The thread that touched the address comes first.
    pub stacks: &'a [StackPointer],
}

impl Places<'_> {
    /// The middle of a sentence. `variable` tells what global variable an address belongs to.
    pub fn describe(
        &self,
        address: u64,
        access: Option<Access>,
        variable: impl FnOnce(u64) -> Option<String>,
    ) -> String {
        if address < NULL_PAGE_END {
            return "the null page".to_owned();
        }
        if !is_canonical(address) {
            return "not canonical: no memory can be there".to_owned();
        }
        if let Some(thread) = self.overflown_stack(address) {
            return format!("below the stack of thread {thread}: stack overflow");
        }
        match self.regions.iter().find(|region| region.contains(address)) {
            Some(region) if region.is_accessible() => {
                let owner = self.owner(region).or_else(|| variable(address));
                let what = owner.unwrap_or_else(|| format!("in {}", region.describe()));
                format!("{}{what}", obstacle(region, access))
            }
            Some(_) => "in memory that allows no access".to_owned(),
            None => variable(address).or_else(|| self.neighbour(address)).unwrap_or_else(|| "unmapped".to_owned()),
        }
    }

    /// The thread that touched the address, if it did so by leaving its stack at the lower end.
    fn overflown_stack(&self, address: u64) -> Option<u32> {
        let pointer = self.stacks.first()?;
        let mut accessible = self.regions.iter().filter(|region| region.is_accessible());
        let stack = accessible.find(|region| pointer.address < region.end)?;
        let is_near = pointer.address.saturating_add(LARGEST_FRAME) >= stack.start;
        let lowest = pointer.address.min(stack.start).saturating_sub(BELOW_POINTER);
        (is_near && (lowest..stack.start).contains(&address)).then_some(pointer.thread)
    }

    /// The thread whose stack the region is.
    fn owner(&self, region: &Region) -> Option<String> {
        let stack = self.stacks.iter().find(|stack| region.contains(stack.address))?;
        Some(format!("the stack of thread {}", stack.thread))
    }

    fn neighbour(&self, address: u64) -> Option<String> {
        let accessible = || self.regions.iter().filter(|region| region.is_accessible());
        let below =
            accessible().rfind(|region| region.end <= address).map(|region| (address - region.end, "past", region));
        let above = accessible().find(|region| region.start > address);
        let above = above.map(|region| (region.start - address, "before", region));
        let (distance, relation, region) = below.into_iter().chain(above).min_by_key(|(distance, ..)| *distance)?;
        let unit = if distance == 1 { "byte" } else { "bytes" };
        (distance < MAX_DISTANCE).then(|| format!("unmapped, {distance} {unit} {relation} {}", region.describe()))
    }
}

/// Why the access was refused although something is there.
fn obstacle(region: &Region, access: Option<Access>) -> &'static str {
    match access {
        Some(Access::Execute) if !region.executable => "not executable: ",
        Some(Access::Write) if !region.writable => "read-only: ",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, rights: &str, name: Option<&str>) -> Region {
        let has = |right| rights.contains(right);
        let (readable, writable, executable) = (has('r'), has('w'), has('x'));
        Region { start, end, readable, writable, executable, name: name.map(str::to_owned) }
    }

    fn check(address: u64, access: Access, stacks: [u64; 2], expected: &str) {
        let regions = [
            region(0x40_0000, 0x40_1000, "rx", Some("prog")),
            region(0x40_1000, 0x40_2000, "rw", Some("prog")),
            region(0x10_0000_0000, 0x10_0000_1000, "", None),
            region(0x10_0000_1000, 0x10_0010_0000, "rw", None),
            region(0x20_0000_0000, 0x20_0010_0000, "rw", None),
        ];
        let pointers = [1, 2].map(|thread| StackPointer { thread, address: stacks[thread as usize - 1] });
        let places = Places { regions: &regions, stacks: &pointers };
        let variable = |address| (0x40_1100..0x40_1108).contains(&address).then(|| "at the global `table`".to_owned());
        assert_eq!(places.describe(address, Some(access), variable), expected);
    }

    /// Somewhere inside both stacks.
    const STACKS: [u64; 2] = [0x20_0008_0000, 0x10_0008_0000];

    #[test]
    fn mapped_places() {
        check(0x10, Access::Write, STACKS, "the null page");
        check(0x20_0000_0010, Access::Execute, STACKS, "not executable: the stack of thread 1");
        check(0x10_0008_0000, Access::Read, STACKS, "the stack of thread 2");
        check(0x40_1100, Access::Execute, STACKS, "not executable: at the global `table`");
        check(0x40_0010, Access::Write, STACKS, "read-only: in the mapping of prog");
        check(0x10_0000_0010, Access::Read, STACKS, "in memory that allows no access");
    }

    #[test]
    fn unmapped_places() {
        check(0x40_2001, Access::Read, STACKS, "unmapped, 1 byte past the mapping of prog");
        check(0x3f_fff0, Access::Read, STACKS, "unmapped, 16 bytes before the mapping of prog");
        check(
            0x20_0010_0000,
            Access::Read,
            STACKS,
            "unmapped, 0 bytes past the memory at 0x2000000000 to 0x2000100000",
        );
        check(0x30_0000_0000, Access::Read, STACKS, "unmapped");
        check(1 << 47, Access::Read, STACKS, "not canonical: no memory can be there");
        check(!0 << 47, Access::Read, STACKS, "unmapped");
    }

    #[test]
    fn stack_overflow_without_and_with_a_guard() {
        let below = "below the stack of thread 1: stack overflow";
        check(0x1f_ffff_fff8, Access::Write, [0x20_0000_0000, 0], below);
        // A large frame: the pointer has left the stack already.
        check(0x1f_ffff_0000, Access::Write, [0x1f_fffe_f000, 0], below);
        check(0x10_0000_0ff8, Access::Write, [0x10_0000_1000, 0], below);
        // The stack pointer is far from where the access was.
        check(0x1f_fff0_0000, Access::Write, STACKS, "unmapped");
    }
}

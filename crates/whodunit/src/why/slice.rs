//! What the end of a run depends on: definitions, the ways between them, and the pointers that addresses were made of.

use super::chain::{number, stores};
use super::sites::{Area, Sites};
use crate::study::blocks::Spot;
use program::movable::NamedLocal;
use session::rerun::{Definition, Origins};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A pointer and what is made of it are not further apart.
const FARTHEST: u64 = 64 << 20;

pub struct Slice<'a> {
    by_number: BTreeMap<u32, &'a Definition>,
    failure: Option<&'a Definition>,
    sites: &'a Sites,
}

/// The pointer that an address was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub value: u64,
    /// The first store on its way.
    pub stored: Option<Spot>,
}

/// A variable of a frame, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub name: Option<String>,
    pub range: Range<u64>,
}

impl Local {
    /// That which an instruction means by a register's value, for an access to `address`.
    fn new(named: &NamedLocal, register: u64, address: u64) -> Local {
        let place = |offset: i64| register.wrapping_add_signed(offset);
        match named.ends {
            // A pointer to the end of the variable before looks like one to the next.
            Some(start) if address < place(named.displacement) => {
                Local { name: None, range: place(start)..place(named.displacement) }
            }
            _ => {
                let start = place(named.start);
                Local { name: Some(named.name.clone()), range: start..start + named.size }
            }
        }
    }
}

/// Definitions that some depend on, each with the one that led to it; zero is the failure.
pub type Reached = BTreeMap<u32, u32>;

impl<'a> Slice<'a> {
    pub fn new(origins: &'a Origins, sites: &'a Sites) -> Slice<'a> {
        let by_number = origins.definitions.iter().map(|definition| (definition.number, definition)).collect();
        Slice { by_number, failure: origins.failure.as_ref(), sites }
    }

    pub fn get(&self, number: u32) -> Option<&'a Definition> {
        self.by_number.get(&number).copied()
    }

    /// All that some definitions depend on, by the shortest ways; also what decided on constants, if wanted.
    pub fn reached(&self, roots: &[u32], with_decisions: bool) -> Reached {
        self.reach(roots, with_decisions, true)
    }

    /// The same without what system calls were asked: what they gave is the kernel's.
    pub fn reached_inside(&self, roots: &[u32], with_decisions: bool) -> Reached {
        self.reach(roots, with_decisions, false)
    }

    fn reach(&self, roots: &[u32], with_decisions: bool, through_calls: bool) -> Reached {
        let mut reached: Reached = roots.iter().map(|root| (*root, 0)).collect();
        let mut waiting: VecDeque<u32> = roots.iter().copied().collect();
        while let Some(number) = waiting.pop_front() {
            let known = self.get(number).filter(|definition| through_calls || !definition.system_call);
            let Some(definition) = known else { continue };
            let decided = definition.decided.iter().filter(|_| with_decisions);
            let sources = definition.values.iter().chain(&definition.addresses).chain(decided);
            for &source in sources.filter(|source| **source != 0) {
                if let std::collections::btree_map::Entry::Vacant(entry) = reached.entry(source) {
                    entry.insert(number);
                    waiting.push_back(source);
                }
            }
        }
        reached
    }

    /// The way from the failure to a definition that was reached.
    pub fn path(&self, reached: &Reached, to: u32) -> Vec<Definition> {
        let ways = std::iter::successors(Some(to), |number| reached.get(number).copied().filter(|from| *from != 0));
        let mut path: Vec<Definition> = ways.filter_map(|number| self.get(number).cloned()).collect();
        path.extend(self.failure.cloned());
        path.reverse();
        path
    }

    /// The definition that a store overwrote.
    pub fn overwritten(&self, store: &Definition) -> Option<&'a Definition> {
        self.get(store.memory.as_ref()?.overwrites?)
    }

    /// The pointer that the address of an access was made of: the earliest one known on the way back.
    pub fn base_of(&self, access: &Definition) -> Option<Base> {
        let way = self.pointers(access);
        let first = way.last()?;
        let stored = way.iter().rev().find(|step| stores(step));
        let spot = |step: &&Definition| {
            let address = number(&step.memory.as_ref()?.address);
            Some(Spot { pc: number(&step.pc), address })
        };
        Some(Base { value: number(&first.value), stored: stored.and_then(spot) })
    }

    /// The definitions of the pointer that an access uses, the latest first.
    pub fn pointers(&self, access: &Definition) -> Vec<&'a Definition> {
        match self.pointer_of(access) {
            Some(pointer) if self.is_given(access, pointer) => vec![pointer],
            Some(pointer) => self.values_behind(pointer),
            None => Vec::new(),
        }
    }

    fn pointer_of(&self, access: &Definition) -> Option<&'a Definition> {
        let address = access.memory.as_ref().map_or(0, |memory| number(&memory.address));
        self.pointer(&access.addresses, address)
    }

    /// A definition of a pointer, and those that it was made of, the latest first.
    pub fn values_behind(&self, pointer: &'a Definition) -> Vec<&'a Definition> {
        let mut way = vec![pointer];
        while let Some(&at) = way.last()
            && let Some(before) = self.pointer(&at.values, number(&at.value)).filter(|before| before.number < at.number)
            && !self.is_beginning(at, before)
        {
            way.push(before);
        }
        way
    }

    /// Whether a pointer begins with a definition: a variable's address is made of the pointer to the stack, which is made
    /// again and again.
    fn is_beginning(&self, at: &Definition, before: &Definition) -> bool {
        let is_made = at.value != before.value && self.sites.makes_stack_pointer(number(&before.pc));
        is_made || self.is_given(at, before)
    }

    /// Whether a definition got from a library or an allocator what it uses: how those came by it is their own affair.
    fn is_given(&self, at: &Definition, before: &Definition) -> bool {
        let is_library = |definition: &Definition| self.sites.is_in_c_library(number(&definition.pc));
        let is_allocator = |definition: &Definition| self.sites.is_in_allocator(number(&definition.pc));
        is_library(before) && (!is_library(at) || is_allocator(before) && !is_allocator(at))
    }

    /// The variable of a frame that an access was meant for, by the instruction that named it.
    pub fn local_of(&self, access: &Definition) -> Option<Local> {
        let address = access.memory.as_ref().map(|memory| number(&memory.address))?;
        if let Some(named) = self.sites.named_local(number(&access.pc)) {
            let register = self.register(&named, address, &access.addresses)?;
            return Some(Local::new(&named, register, address));
        }
        // A register that a library restored for its caller has been the caller's all the time.
        let restored = self.pointer_of(access).filter(|pointer| self.restores(pointer));
        let way = restored.map_or_else(|| self.pointers(access), |pointer| self.values_behind(pointer));
        // The earliest pointer is what was meant; loads of pointers only hand it on.
        way.iter().rev().filter(|step| step.memory.is_none()).find_map(|step| {
            let named = self.sites.named_local(number(&step.pc))?;
            let register = self.register(&named, number(&step.value), &step.values)?;
            Some(Local::new(&named, register, address))
        })
    }

    fn restores(&self, definition: &Definition) -> bool {
        definition.copies && self.sites.makes_stack_pointer(number(&definition.pc))
    }

    /// What the register holds that a variable is named by, in an instruction that makes `address` of the given definitions.
    fn register(&self, named: &NamedLocal, address: u64, from: &[u32]) -> Option<u64> {
        match named.is_indexed {
            true => self.pointer(from, address).map(|register| number(&register.value)),
            false => Some(address.wrapping_add_signed(-named.displacement)),
        }
    }

    fn pointer(&self, numbers: &[u32], near: u64) -> Option<&'a Definition> {
        let known = numbers.iter().filter_map(|number| self.get(*number));
        let area = self.sites.area(near);
        let is_pointer = |definition: &&Definition| {
            let value = number(&definition.value);
            value.abs_diff(near) < FARTHEST && self.sites.area(value) == area && area != Area::Nowhere
        };
        known
            .filter(is_pointer)
            .min_by_key(|definition| (number(&definition.value).abs_diff(near), std::cmp::Reverse(definition.number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::space::AddressSpace;
    use session::rerun::Accessed;

    /// Where the engine puts the program break.
    const HEAP: u64 = 0x5510_0000_0000;

    fn step(number: u32, value: u64, values: &[u32]) -> Definition {
        Definition { value: format!("{value:#x}"), ..crate::why::chain::tests::step(number, true, values, &[]) }
    }

    fn store(address: u64, overwrites: Option<u32>, step: Definition) -> Definition {
        let address = format!("{address:#x}");
        let memory = Accessed { address, size: 8, writes: true, from: None, overwrites, return_below: None };
        Definition { memory: Some(memory), ..step }
    }

    fn origins(definitions: Vec<Definition>) -> Origins {
        Origins { steps: 0, suppressed: 0, failure: Some(step(99, 0, &[])), branches: Vec::new(), definitions }
    }

    #[test]
    fn an_address_leads_back_to_the_pointer_that_it_was_made_of() {
        let kept = store(HEAP + 0x1000, None, step(2, HEAP + 0x20, &[1]));
        let moved = step(4, HEAP + 0x60, &[3, 2]);
        let through = Definition { addresses: vec![4], ..store(HEAP + 0x60, None, step(5, 7, &[])) };
        let all = origins(vec![through.clone(), moved, step(3, 8, &[]), kept, step(1, HEAP + 0x20, &[])]);
        let sites = Sites::new(&AddressSpace::new(Vec::new()));
        let stored = Some(Spot { pc: 0x1002, address: HEAP + 0x1000 });
        assert_eq!(Slice::new(&all, &sites).base_of(&through), Some(Base { value: HEAP + 0x20, stored }));
    }

    #[test]
    fn decisions_are_followed_on_request() {
        let constant = Definition { decided: Some(2), ..step(3, 0, &[]) };
        let all = origins(vec![step(4, 0, &[3]), constant, step(2, 0, &[1]), step(1, 0, &[])]);
        let sites = Sites::new(&AddressSpace::new(Vec::new()));
        let slice = Slice::new(&all, &sites);
        assert_eq!(slice.reached(&[4], false).into_keys().collect::<Vec<_>>(), [3, 4]);
        let reached = slice.reached(&[4], true);
        assert_eq!(reached.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        let path: Vec<u32> = slice.path(&reached, 1).iter().map(|step| step.number).collect();
        assert_eq!(path, [99, 4, 3, 2, 1]);
    }
}

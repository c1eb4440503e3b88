//! A heap of the run's own, which answers in the place of the guest's: every block lies apart, between guards, and what was
//! given back is left alone for as long as there is room.
//!
//! Blocks that the guest's own functions gave are left to them.

use super::guards::{Guarded, Guards};
use super::map;
use crate::context::{Context, RAX, RDI, RDX, RSI, RSP};
use crate::engine::Engine;
use crate::kernel;
use crate::replay::facts_of;
use std::collections::{BTreeMap, VecDeque};

/// What a function does about memory, by its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocating {
    /// A block of as many bytes as the first says.
    Allocate,
    /// Of the first times the second, all zero.
    AllocateArray,
    /// Of the second, at a multiple of the first.
    AllocateAligned,
    /// Of the third, at a multiple of the second, stored through the first.
    AllocateThrough,
    /// Moves the first into a block of as many bytes as the second says.
    Reallocate,
    /// Of the second times the third.
    ReallocateArray,
    Free,
    /// Tells how many bytes the first has.
    UsableSize,
}

/// Where the heap is: above all mappings, below the main thread's stack.
const START: u64 = 0x7ea0_4000_0000;
const END: u64 = 0x7eae_0000_0000;
/// Memory is made in pieces of this.
const PIECE: u64 = 16 << 20;
const ALIGNMENT: u64 = 16;
/// Guards before and behind a block.
const BEFORE: u64 = 32;
const BEHIND: u64 = 64;
/// Of a block that was given back, so much is a guard.
const MOST_COVERED: u64 = 1024;
/// What was given back is used again only when this much lies fallow.
const FALLOW: u64 = 256 << 20;
/// What a block that lies fallow costs besides.
const KNOWLEDGE: u64 = 256;
/// Larger blocks are left to the guest's own functions, which know when there is no room.
const LARGEST: u64 = 1 << 32;

struct Block {
    size: u64,
    guard: u32,
}

struct Fallow {
    address: u64,
    size: u64,
    guard: u32,
}

pub struct Heap {
    next: u64,
    mapped: u64,
    blocks: BTreeMap<u64, Block>,
    /// What was given back, the oldest first.
    fallow: VecDeque<Fallow>,
    /// Its bytes, and what it costs to know of it.
    n_fallow: u64,
    /// What can be used again, by its size.
    free: BTreeMap<u64, Vec<u64>>,
}

impl Default for Heap {
    fn default() -> Heap {
        let (blocks, fallow, free) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Heap { next: START, mapped: START, blocks, fallow, n_fallow: 0, free }
    }
}

/// A call of a function about memory.
struct Call<'a> {
    guards: &'a mut Guards,
    engine: &'a Engine,
    context: &'a Context,
    /// Where it returns to.
    site: u64,
}

impl Heap {
    /// Answers the function that the thread is about to run and returns from it; false if that is to run.
    pub fn answer(
        &mut self,
        function: Allocating,
        guards: &mut Guards,
        engine: &Engine,
        context: &mut Context,
    ) -> bool {
        let Ok(site) = kernel::read::<u64>(context.gpr[RSP]) else { return false };
        let [first, second, third] = [RDI, RSI, RDX].map(|register| context.gpr[register]);
        let mut call = Call { guards, engine, context, site };
        let result = match function {
            Allocating::Allocate => self.allocate(&mut call, first, ALIGNMENT),
            Allocating::AllocateArray => {
                first.checked_mul(second).and_then(|size| self.allocate(&mut call, size, ALIGNMENT))
            }
            Allocating::AllocateAligned => self.allocate(&mut call, second, first),
            Allocating::AllocateThrough => self.allocate_through(&mut call, [first, second, third]),
            Allocating::Reallocate => self.reallocate(&mut call, first, second),
            Allocating::ReallocateArray => {
                second.checked_mul(third).and_then(|size| self.reallocate(&mut call, first, size))
            }
            Allocating::Free if first == 0 => Some(0),
            Allocating::Free => self.free(&mut call, first).then_some(0),
            Allocating::UsableSize => self.blocks.get(&first).map(|block| block.size),
        };
        let Some(result) = result else { return false };
        context.gpr[RAX] = result;
        context.gpr[RSP] = context.gpr[RSP].wrapping_add(8);
        context.pc = site;
        true
    }

    fn allocate(&mut self, call: &mut Call<'_>, size: u64, alignment: u64) -> Option<u64> {
        let alignment = alignment.max(ALIGNMENT);
        if size > LARGEST || !alignment.is_power_of_two() || alignment > LARGEST {
            return None;
        }
        let reused = if alignment == ALIGNMENT { self.reuse(call, size) } else { None };
        let address = reused.or_else(|| self.take(call, size, alignment))?;
        let object = address..address + size;
        let guard = call.guards.add(Guarded::Block { site: call.site }, "", object, [BEFORE, BEHIND]);
        call.guards.note_callers(guard, || call.engine.host().callers(&facts_of(call.context, 0)));
        self.blocks.insert(address, Block { size, guard });
        Some(address)
    }

    /// New memory, which is zero.
    fn take(&mut self, call: &Call<'_>, size: u64, alignment: u64) -> Option<u64> {
        let address = (self.next + BEFORE).next_multiple_of(alignment);
        let end = address + size.next_multiple_of(ALIGNMENT) + BEHIND + ALIGNMENT;
        if end > END {
            return None;
        }
        while self.mapped < end {
            let piece = PIECE.max((end - self.mapped).next_multiple_of(PIECE));
            map(call.engine, call.context, self.mapped..self.mapped + piece);
            self.mapped += piece;
        }
        self.next = end;
        Some(address)
    }

    /// Memory of a block of the same size that was given back long ago.
    fn reuse(&mut self, call: &mut Call<'_>, size: u64) -> Option<u64> {
        while self.n_fallow > FALLOW {
            let Fallow { address, size, guard } = self.fallow.pop_front()?;
            call.guards.retire(guard);
            self.n_fallow -= size + KNOWLEDGE;
            self.free.entry(size).or_default().push(address);
        }
        let address = self.free.get_mut(&size)?.pop()?;
        let _ = kernel::write_bytes(address, &vec![0; size as usize]);
        Some(address)
    }

    fn allocate_through(&mut self, call: &mut Call<'_>, [to, alignment, size]: [u64; 3]) -> Option<u64> {
        let address = self.allocate(call, size, alignment)?;
        let _ = kernel::write(to, address);
        Some(0)
    }

    fn reallocate(&mut self, call: &mut Call<'_>, old: u64, size: u64) -> Option<u64> {
        if old == 0 {
            return self.allocate(call, size, ALIGNMENT);
        }
        let kept = self.blocks.get(&old)?.size.min(size);
        let new = if size == 0 { 0 } else { self.allocate(call, size, ALIGNMENT)? };
        let mut bytes = vec![0; kept as usize];
        if kernel::read_bytes(old, &mut bytes).is_ok() {
            let _ = kernel::write_bytes(new, &bytes);
        }
        self.free(call, old);
        Some(new)
    }

    /// Takes a block back. False if it is none of this heap; one that was given back before is ignored.
    fn free(&mut self, call: &mut Call<'_>, address: u64) -> bool {
        let Some(Block { size, guard }) = self.blocks.remove(&address) else { return (START..END).contains(&address) };
        call.guards.retire(guard);
        let guard = call.guards.cover(address..address + size, size.min(MOST_COVERED), call.site);
        call.guards.note_callers(guard, || call.engine.host().callers(&facts_of(call.context, 0)));
        self.fallow.push_back(Fallow { address, size, guard });
        self.n_fallow += size + KNOWLEDGE;
        true
    }
}

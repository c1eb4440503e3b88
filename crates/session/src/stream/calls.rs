//! From entries into known functions and returns from them to events.
//!
//! A return belongs to the entry with the same stack pointer. Entries that never returned (a jump out of a handler, the
//! end of a thread) are forgotten when the stack shows that they are gone.

use super::{BlockSize, Role, Roles};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use trace::stream::{Event, LockMode, Thread};

/// What `pthread_mutex_lock` returns if it has taken the lock of a thread that died.
const OWNER_DIED: u64 = 130;

/// A call of a known function.
#[derive(Clone, Copy)]
pub struct Call {
    pub arguments: [u64; 3],
    /// Where the return address is.
    pub stack: u64,
    /// The return address.
    pub caller: u64,
}

/// No block has so many bytes.
const TOO_LARGE: u64 = 1 << 40;

impl Call {
    fn argument(&self, position: usize) -> u64 {
        self.arguments.get(position).copied().unwrap_or(0)
    }

    fn goes_on_as(&self, other: &Call) -> bool {
        (self.stack, self.caller, self.arguments[0]) == (other.stack, other.caller, other.arguments[0])
    }
}

/// Whose code a thread is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    Program,
    Synchronisation,
    Allocator,
}

#[derive(Default)]
struct State {
    calls: Vec<(Role, Call)>,
    /// How many of them hand out memory.
    allocators: usize,
    /// What the innermost has stored where its caller wants the address of a block.
    stored: Option<u64>,
}

pub struct Calls {
    roles: FxHashMap<u64, Role>,
    /// By their numbers, which are given in order.
    threads: Vec<State>,
    /// Threads by their thread pointers, the newest.
    pointers: BTreeMap<u64, Thread>,
}

impl Calls {
    pub fn new(roles: Roles) -> Calls {
        Calls { roles: roles.into_iter().collect(), threads: Vec::new(), pointers: BTreeMap::new() }
    }

    /// What the thread is doing, as far as known functions are concerned.
    #[inline]
    pub fn inside(&self, thread: Thread) -> Inside {
        match self.threads.get(thread as usize) {
            Some(state) if state.allocators > 0 => Inside::Allocator,
            Some(state) if !state.calls.is_empty() => Inside::Synchronisation,
            _ => Inside::Program,
        }
    }

    fn state(&mut self, thread: Thread) -> &mut State {
        let number = thread as usize;
        if self.threads.len() <= number {
            self.threads.resize_with(number + 1, State::default);
        }
        &mut self.threads[number]
    }

    /// A thread has been made that others know by its thread pointer.
    pub fn created(&mut self, child: Thread, pointer: u64) {
        self.pointers.insert(pointer, child);
    }

    /// A function is about to begin.
    pub fn entered(&mut self, thread: Thread, pc: u64, call: Call) -> Option<Event> {
        let role = *self.roles.get(&pc)?;
        let state = self.state(thread);
        // What lies below has been left.
        state.leave_while(|open| open.stack < call.stack);
        // `operator delete` jumps to `free`, for the same caller: that is one call.
        let is_continued = state.calls.last().is_some_and(|(open, from)| *open == role && from.goes_on_as(&call));
        state.leave_while(|open| open.stack == call.stack);
        let is_within = state.allocators > 0;
        state.enter(role, call);
        // Allocators use others, and locks of their own.
        if is_within || is_continued { None } else { begun(role, &call) }
    }

    /// A function is about to return.
    pub fn left(&mut self, thread: Thread, result: u64, stack: u64) -> Option<Event> {
        let state = self.threads.get_mut(thread as usize)?;
        state.leave_while(|open| open.stack < stack);
        let (role, call) = state.calls.last().copied().filter(|(_, call)| call.stack == stack)?;
        let stored = state.stored.take();
        state.leave();
        if state.allocators > 0 {
            return None;
        }
        match (role, stored) {
            (Role::AllocateThrough, Some(address)) => given_through(&call, result, address),
            _ => ended(role, &call, result, &self.pointers),
        }
    }

    /// A function stores something to `base`.
    pub fn stored(&mut self, thread: Thread, value: u64, base: u64, stack: u64) {
        let Some(state) = self.threads.get_mut(thread as usize) else { return };
        let is_wanted = |(role, call): &(Role, Call)| {
            *role == Role::AllocateThrough && call.stack > stack && call.arguments[0] == base
        };
        if state.calls.last().is_some_and(is_wanted) {
            state.stored = Some(value);
        }
    }

    /// A function may be about to go on as another. Most are that one's call from then on; what `calloc` gives is what it
    /// clears last.
    pub fn jumped(&mut self, thread: Thread, argument: u64, stack: u64) -> Option<Event> {
        let (role, call) = self.threads.get(thread as usize)?.calls.last()?;
        let is_clearing = *role == Role::AllocateArray && call.stack == stack;
        if is_clearing { self.left(thread, argument, stack) } else { None }
    }
}

impl State {
    fn enter(&mut self, role: Role, call: Call) {
        self.stored = None;
        self.allocators += usize::from(role.is_allocator());
        self.calls.push((role, call));
    }

    fn leave(&mut self) {
        if let Some((role, _)) = self.calls.pop() {
            self.allocators -= usize::from(role.is_allocator());
        }
    }

    fn leave_while(&mut self, is_gone: impl Fn(&Call) -> bool) {
        while self.calls.last().is_some_and(|(_, call)| is_gone(call)) {
            self.leave();
        }
    }
}

/// What an entry tells at once.
fn begun(role: Role, call: &Call) -> Option<Event> {
    let [first, second, _] = call.arguments;
    let site = call.caller;
    match role {
        Role::Unlock => Some(Event::Unlocked { object: first, site }),
        Role::WaitUnlocked => Some(Event::Unlocked { object: second, site }),
        Role::Barrier | Role::Post => Some(Event::Released { object: first, site }),
        Role::Forget => Some(Event::Forgotten { object: first }),
        Role::Free | Role::Reallocate | Role::ReallocateArray if first != 0 => {
            Some(Event::Freed { address: first, site })
        }
        Role::FreeTold(position) => match call.argument(position) {
            0 => None,
            address => Some(Event::Freed { address, site }),
        },
        _ => None,
    }
}

/// What a return tells of a function that has stored the address of its block.
fn given_through(call: &Call, result: u64, address: u64) -> Option<Event> {
    let is_given = result & 0xffff_ffff == 0 && address != 0;
    let block = Event::Allocated { address, size: call.arguments[2], site: call.caller };
    is_given.then_some(block)
}

/// What a return tells.
fn ended(role: Role, call: &Call, result: u64, pointers: &BTreeMap<u64, Thread>) -> Option<Event> {
    let [first, second, third] = call.arguments;
    let site = call.caller;
    // Results of these functions are of the type `int`.
    let status = result & 0xffff_ffff;
    let locked = |object, mode| Some(Event::Locked { object, mode, site });
    let allocated = |size: u64| match result {
        0 => None,
        address => Some(Event::Allocated { address, size, site }),
    };
    match role {
        Role::Lock if status == 0 || status == OWNER_DIED => locked(first, LockMode::Exclusive),
        Role::LockShared if status == 0 => locked(first, LockMode::Shared),
        Role::WaitUnlocked => locked(second, LockMode::Exclusive),
        Role::Barrier => Some(Event::Acquired { object: first, site }),
        Role::Pass if status == 0 => Some(Event::Acquired { object: first, site }),
        Role::Join if status == 0 => pointers.get(&first).map(|&other| Event::Joined { other }),
        Role::Allocate => allocated(first),
        Role::AllocateArray => allocated(first.saturating_mul(second)),
        Role::AllocateAligned | Role::Reallocate => allocated(second),
        Role::ReallocateArray => allocated(second.saturating_mul(third)),
        Role::AllocateTold(BlockSize::Bytes(bytes)) => allocated(bytes),
        Role::AllocateTold(BlockSize::Argument(position)) => match call.argument(position) {
            // Whoever has told that this is the size was wrong.
            TOO_LARGE.. => None,
            bytes => allocated(bytes),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MALLOC: u64 = 0x100;
    const LOCK: u64 = 0x200;
    const WAIT: u64 = 0x300;
    const FREE: u64 = 0x400;
    const JOIN: u64 = 0x500;

    fn calls() -> Calls {
        Calls::new(Roles::from([
            (MALLOC, Role::Allocate),
            (LOCK, Role::Lock),
            (WAIT, Role::WaitUnlocked),
            (FREE, Role::Free),
            (JOIN, Role::Join),
        ]))
    }

    fn call(arguments: [u64; 3], stack: u64) -> Call {
        Call { arguments, stack, caller: 0xca11 }
    }

    #[test]
    fn a_block_is_told_when_its_address_is_known() {
        let mut calls = calls();
        assert_eq!(calls.entered(1, MALLOC, call([64, 0, 0], 0x9000)), None);
        assert_eq!((calls.inside(1), calls.inside(2)), (Inside::Allocator, Inside::Program));
        let expected = Event::Allocated { address: 0x5000, size: 64, site: 0xca11 };
        assert_eq!(calls.left(1, 0x5000, 0x9000), Some(expected));
        assert_eq!(calls.inside(1), Inside::Program);
        assert_eq!(
            calls.entered(1, FREE, call([0x5000, 0, 0], 0x9000)),
            Some(Event::Freed { address: 0x5000, site: 0xca11 })
        );
    }

    #[test]
    fn the_last_jump_of_a_function_goes_on_with_its_call() {
        let mut calls =
            Calls::new(Roles::from([(FREE, Role::Free), (LOCK, Role::Free), (MALLOC, Role::AllocateArray)]));
        assert!(calls.entered(1, FREE, call([0x5000, 0, 0], 0x9000)).is_some());
        assert_eq!(calls.jumped(1, 0x5000, 0x9000), None);
        assert_eq!(calls.entered(1, LOCK, call([0x5000, 0, 0], 0x9000)), None, "told already");
        assert_eq!(calls.left(1, 0, 0x9000), None);
        assert_eq!(calls.inside(1), Inside::Program);
        calls.entered(1, MALLOC, call([4, 8, 0], 0x9000));
        assert_eq!(calls.jumped(1, 0x5000, 0x8f00), None, "a jump within");
        let allocated = Event::Allocated { address: 0x6000, size: 32, site: 0xca11 };
        assert_eq!(calls.jumped(1, 0x6000, 0x9000), Some(allocated));
    }

    #[test]
    fn what_an_allocator_calls_is_its_own_affair() {
        let mut calls = calls();
        calls.entered(1, MALLOC, call([64, 0, 0], 0x9000));
        assert_eq!(calls.entered(1, LOCK, call([0x10, 0, 0], 0x8f00)), None);
        assert_eq!(calls.left(1, 0, 0x8f00), None);
        calls.entered(1, MALLOC, call([32, 0, 0], 0x8f00));
        assert_eq!(calls.left(1, 0x7000, 0x8f00), None);
        assert!(calls.left(1, 0x5000, 0x9000).is_some());
    }

    #[test]
    fn a_block_may_be_given_through_an_argument() {
        let mut calls = Calls::new(Roles::from([(MALLOC, Role::AllocateThrough)]));
        calls.entered(1, MALLOC, call([0x10, 64, 100], 0x9000));
        calls.stored(1, 0x1234, 0x99, 0x8fe0);
        calls.stored(1, 0x5000, 0x10, 0x8fe0);
        assert_eq!(calls.left(1, 0, 0x9000), Some(Event::Allocated { address: 0x5000, size: 100, site: 0xca11 }));
        calls.entered(1, MALLOC, call([0x10, 64, 100], 0x9000));
        assert_eq!(calls.left(1, 12, 0x9000), None, "there was no memory");
        calls.stored(1, 0x5000, 0x10, 0x8fe0);
        assert_eq!(calls.inside(1), Inside::Program);
    }

    #[test]
    fn functions_may_be_told_to_hand_out_memory() {
        let get =
            |size| Roles::from([(MALLOC, Role::AllocateTold(size)), (FREE, Role::FreeTold(1)), (LOCK, Role::Lock)]);
        let mut calls = Calls::new(get(BlockSize::Argument(1)));
        calls.entered(1, MALLOC, call([0x10, 48, 0], 0x9000));
        assert_eq!(calls.entered(1, LOCK, call([0x10, 0, 0], 0x8f00)), None, "its own lock");
        calls.left(1, 0, 0x8f00);
        assert_eq!(calls.left(1, 0x5000, 0x9000), Some(Event::Allocated { address: 0x5000, size: 48, site: 0xca11 }));
        let freed = calls.entered(1, FREE, call([0x10, 0x5000, 0], 0x9000));
        assert_eq!(freed, Some(Event::Freed { address: 0x5000, site: 0xca11 }));
        let mut calls = Calls::new(get(BlockSize::Bytes(64)));
        calls.entered(1, MALLOC, call([0x5500_0000_0000, 0, 0], 0x9000));
        assert_eq!(calls.left(1, 0x5000, 0x9000), Some(Event::Allocated { address: 0x5000, size: 64, site: 0xca11 }));
        let mut calls = Calls::new(get(BlockSize::Argument(0)));
        calls.entered(1, MALLOC, call([0x5500_0000_0000, 0, 0], 0x9000));
        assert_eq!(calls.left(1, 0x5000, 0x9000), None, "a pool is no size");
    }

    #[test]
    fn locks_that_were_not_taken_are_not_told() {
        let mut calls = calls();
        calls.entered(1, LOCK, call([0x10, 0, 0], 0x9000));
        assert_eq!(calls.left(1, 16, 0x9000), None, "busy");
        calls.entered(1, LOCK, call([0x10, 0, 0], 0x9000));
        let locked = Event::Locked { object: 0x10, mode: LockMode::Exclusive, site: 0xca11 };
        assert_eq!(
            calls.left(1, 0xffff_ffff_0000_0000, 0x9000),
            Some(locked),
            "the upper half of the register means nothing"
        );
    }

    #[test]
    fn waiting_gives_the_lock_up_meanwhile() {
        let mut calls = calls();
        let unlocked = Event::Unlocked { object: 0x20, site: 0xca11 };
        assert_eq!(calls.entered(1, WAIT, call([0x10, 0x20, 0], 0x9000)), Some(unlocked));
        let locked = Event::Locked { object: 0x20, mode: LockMode::Exclusive, site: 0xca11 };
        assert_eq!(calls.left(1, 110, 0x9000), Some(locked), "also after a timeout");
    }

    #[test]
    fn threads_are_joined_by_their_pointer() {
        let mut calls = calls();
        calls.created(2, 0x7000);
        calls.created(3, 0x7000);
        calls.entered(1, JOIN, call([0x7000, 0, 0], 0x9000));
        assert_eq!(calls.left(1, 0, 0x9000), Some(Event::Joined { other: 3 }), "the newest of that pointer");
    }

    #[test]
    fn calls_that_never_return_are_forgotten() {
        let mut calls = calls();
        calls.entered(1, MALLOC, call([64, 0, 0], 0x8000));
        // A jump out of a handler, then a call further up the stack.
        calls.entered(1, LOCK, call([0x10, 0, 0], 0x9000));
        assert_eq!(calls.inside(1), Inside::Synchronisation);
        assert!(calls.left(1, 0, 0x9000).is_some());
        assert_eq!(calls.left(1, 0, 0x9000), None, "a return that belongs to no call");
    }
}

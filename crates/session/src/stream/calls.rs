//! From entries into known functions and returns from them to events.
//!
//! A return belongs to the entry with the same stack pointer. Entries that never returned (a jump out of a handler, the
//! end of a thread) are forgotten when the stack shows that they are gone.

use super::{Role, Roles};
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

impl Call {
    fn goes_on_as(&self, other: &Call) -> bool {
        (self.stack, self.caller, self.arguments[0]) == (other.stack, other.caller, other.arguments[0])
    }
}

#[derive(Default)]
struct State {
    calls: Vec<(Role, Call)>,
    /// How many of them hand out memory.
    allocators: usize,
}

pub struct Calls {
    roles: Roles,
    threads: BTreeMap<Thread, State>,
    /// Threads by their thread pointers, the newest.
    pointers: BTreeMap<u64, Thread>,
}

impl Calls {
    pub fn new(roles: Roles) -> Calls {
        Calls { roles, threads: BTreeMap::new(), pointers: BTreeMap::new() }
    }

    pub fn is_inside_allocator(&self, thread: Thread) -> bool {
        self.threads.get(&thread).is_some_and(|state| state.allocators > 0)
    }

    /// A thread has been made that others know by its thread pointer.
    pub fn created(&mut self, child: Thread, pointer: u64) {
        self.pointers.insert(pointer, child);
    }

    /// A function is about to begin.
    pub fn entered(&mut self, thread: Thread, pc: u64, call: Call) -> Vec<Event> {
        let Some(&role) = self.roles.get(&pc) else { return Vec::new() };
        if role == Role::HandOver {
            return self.handed_over(thread, &call);
        }
        let state = self.threads.entry(thread).or_default();
        state.leave_while(|open| open.stack < call.stack);
        // `operator delete` jumps to `free`, for the same caller: that is one call.
        let is_continued = state.calls.last().is_some_and(|(open, from)| open.is_allocator() && from.goes_on_as(&call));
        // What lies below has been left.
        state.leave_while(|open| open.stack <= call.stack);
        let is_within = state.allocators > 0;
        state.enter(role, call);
        // Allocators use others, and locks of their own.
        if is_within || is_continued { Vec::new() } else { begun(role, &call) }
    }

    /// A function that hands out memory jumps to another for good. Where that returns is not known; of `calloc` the rest is
    /// clearing the block, which is the first argument.
    fn handed_over(&mut self, thread: Thread, jump: &Call) -> Vec<Event> {
        let is_clearing = self
            .threads
            .get(&thread)
            .and_then(|state| state.calls.last())
            .is_some_and(|(role, call)| *role == Role::AllocateArray && call.stack == jump.stack);
        let events = self.left(thread, jump.arguments[0], jump.stack);
        if is_clearing { events } else { Vec::new() }
    }

    /// A function is about to return.
    pub fn left(&mut self, thread: Thread, result: u64, stack: u64) -> Vec<Event> {
        let Some(state) = self.threads.get_mut(&thread) else { return Vec::new() };
        state.leave_while(|open| open.stack < stack);
        let Some((role, call)) = state.calls.last().copied().filter(|(_, call)| call.stack == stack) else {
            return Vec::new();
        };
        state.leave();
        if state.allocators > 0 {
            return Vec::new();
        }
        ended(role, &call, result, &self.pointers)
    }
}

impl State {
    fn enter(&mut self, role: Role, call: Call) {
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
fn begun(role: Role, call: &Call) -> Vec<Event> {
    let [first, second, _] = call.arguments;
    let site = call.caller;
    match role {
        Role::Unlock => vec![Event::Unlocked { object: first, site }],
        Role::WaitUnlocked => vec![Event::Unlocked { object: second, site }],
        Role::Barrier | Role::Post => vec![Event::Released { object: first, site }],
        Role::Forget => vec![Event::Forgotten { object: first }],
        Role::Free | Role::Reallocate | Role::ReallocateArray if first != 0 => {
            vec![Event::Freed { address: first, site }]
        }
        _ => Vec::new(),
    }
}

/// What a return tells.
fn ended(role: Role, call: &Call, result: u64, pointers: &BTreeMap<u64, Thread>) -> Vec<Event> {
    let [first, second, third] = call.arguments;
    let site = call.caller;
    // Results of these functions are of the type `int`.
    let status = result & 0xffff_ffff;
    let locked = |object, mode| vec![Event::Locked { object, mode, site }];
    let allocated = |size: u64| match result {
        0 => Vec::new(),
        address => vec![Event::Allocated { address, size, site }],
    };
    match role {
        Role::Lock if status == 0 || status == OWNER_DIED => locked(first, LockMode::Exclusive),
        Role::LockShared if status == 0 => locked(first, LockMode::Shared),
        Role::WaitUnlocked => locked(second, LockMode::Exclusive),
        Role::Barrier => vec![Event::Acquired { object: first, site }],
        Role::Pass if status == 0 => vec![Event::Acquired { object: first, site }],
        Role::Join if status == 0 => pointers.get(&first).map(|&other| Event::Joined { other }).into_iter().collect(),
        Role::Allocate => allocated(first),
        Role::AllocateArray => allocated(first.saturating_mul(second)),
        Role::AllocateAligned | Role::Reallocate => allocated(second),
        Role::ReallocateArray => allocated(second.saturating_mul(third)),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MALLOC: u64 = 0x100;
    const CALLOC: u64 = 0x200;
    const JUMP: u64 = 0x280;
    const DELETE: u64 = 0x300;
    const FREE: u64 = 0x400;

    fn calls() -> Calls {
        let allocating = [(MALLOC, Role::Allocate), (CALLOC, Role::AllocateArray), (JUMP, Role::HandOver)];
        let freeing = [(DELETE, Role::Free), (FREE, Role::Free)];
        Calls::new(Roles::from_iter(allocating.into_iter().chain(freeing)))
    }

    fn call(first: u64, second: u64, stack: u64) -> Call {
        Call { arguments: [first, second, 0], stack, caller: 0x77 }
    }

    #[test]
    fn a_function_that_hands_over_is_left() {
        let mut calls = calls();
        assert_eq!(calls.entered(1, CALLOC, call(20, 8, 0x9000)), []);
        // The same code is used by others, further down the stack.
        assert_eq!(calls.entered(1, JUMP, call(0x5000, 0, 0x8f00)), []);
        assert!(calls.is_inside_allocator(1));
        let block = Event::Allocated { address: 0x5000, size: 160, site: 0x77 };
        assert_eq!(calls.entered(1, JUMP, call(0x5000, 0, 0x9000)), [block]);
        assert!(!calls.is_inside_allocator(1));
    }

    #[test]
    fn a_function_that_jumps_to_another_of_its_kind_is_one_call() {
        let mut calls = calls();
        let freed = Event::Freed { address: 0x5000, site: 0x77 };
        assert_eq!(calls.entered(1, DELETE, call(0x5000, 0, 0x9000)), std::slice::from_ref(&freed));
        assert_eq!(calls.entered(1, FREE, call(0x5000, 0, 0x9000)), []);
        assert_eq!(calls.left(1, 0, 0x9000), []);
        assert!(!calls.is_inside_allocator(1));
        assert_eq!(calls.entered(1, FREE, call(0x5000, 0, 0x9000)), [freed]);
    }

    #[test]
    fn what_others_hand_over_is_not_taken_for_a_block() {
        let mut calls = calls();
        calls.entered(1, MALLOC, call(64, 0, 0x9000));
        assert_eq!(calls.entered(1, JUMP, call(64, 0, 0x9000)), []);
        assert!(!calls.is_inside_allocator(1));
    }
}

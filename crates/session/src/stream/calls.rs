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
        let state = self.threads.entry(thread).or_default();
        // What lies below has been left.
        state.leave_while(|open| open.stack <= call.stack);
        let is_within = state.allocators > 0;
        state.enter(role, call);
        // Allocators use others, and locks of their own.
        if is_within { Vec::new() } else { begun(role, &call) }
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

//! Runs the same guest code from the same state on the bare processor and from the code cache.
#![allow(unsafe_code)]

use crate::code::cache::{CodeCache, Exit};
use crate::code::hot::{Follower, Next};
use crate::code::path::GuestCode;
use crate::code::tests::home::{Home, THREAD_AREA, map_homes};
use crate::code::tests::native::{self, Frame, Raised, catch_faults};
use crate::code::tests::state::State;
use crate::context;
use crate::kernel;
use crate::signals::frame::{XState, new_state_area, state_area};
use crate::signals::host::AlternateStack;
use std::sync::{Mutex, MutexGuard};

/// Which of the guest's segments names the home's thread area; the other one is somewhere bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    Fs,
    Gs,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// At the terminating system call.
    Done,
    Raised(Raised),
    /// The cache left in a way that the code does not ask for.
    Unexpected(Exit),
}

/// A base that makes an access through the wrong segment fault.
const NOWHERE: u64 = 0x6666_0000_0000;

static LOCK: Mutex<()> = Mutex::new(());

/// The right to run tested code: one test at a time.
pub struct Machine {
    pub xstate: XState,
    native_area: u64,
    _stack: AlternateStack,
    _lock: MutexGuard<'static, ()>,
}

impl Machine {
    pub fn take() -> Machine {
        let lock = LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        map_homes();
        catch_faults();
        let xstate = XState::find();
        let context = context::of_this_thread();
        context.xsave = new_state_area(xstate);
        Machine { xstate, native_area: new_state_area(xstate), _stack: AlternateStack::install(), _lock: lock }
    }

    fn native_area(&mut self) -> &mut [u8] {
        // SAFETY: `new_state_area` made it this large, and the machine is its only user.
        unsafe { std::slice::from_raw_parts_mut(self.native_area as *mut u8, self.xstate.size) }
    }

    fn load_native(&mut self, home: Home, entry: u64, state: &State) -> Frame {
        home.data().copy_from_slice(&state.memory);
        let size = self.xstate.size;
        self.native_area().copy_from_slice(&state.vector[..size]);
        Frame::new(state.gpr, state.rflags, self.native_area, entry)
    }

    pub fn run_native(&mut self, home: Home, entry: u64, state: &State) -> (State, Ending) {
        let mut frame = self.load_native(home, entry, state);
        let ending = match native::run(&mut frame, home.data + THREAD_AREA) {
            None => Ending::Done,
            Some(raised) => Ending::Raised(raised),
        };
        let vector = self.native_area().to_vec();
        (State { gpr: frame.gpr, rflags: frame.rflags, vector, memory: home.data().to_vec() }, ending)
    }

    /// Counts the marked instructions that a native run passes.
    pub fn count_natively(&mut self, home: Home, entry: u64, state: &State, events: &mut Vec<bool>) -> u64 {
        let mut frame = self.load_native(home, entry, state);
        native::count_steps(&mut frame, home.data + THREAD_AREA, home.code, events)
    }

    /// Runs from the cache in quanta of `quantum` events; tells how many events the guest's clock counted.
    pub fn run_translated(
        &mut self,
        cache: &mut CodeCache,
        code: &dyn GuestCode,
        guest: &Guest,
        quantum: i64,
    ) -> (State, Ending, u64) {
        let start = self.load(guest, quantum);
        let ending = run_loop(cache, code, guest.entry, quantum);
        let (state, clock) = self.collect(guest.home);
        (state, ending, clock - start)
    }

    /// Makes this thread's context the guest's; tells what its clock shows.
    pub fn load(&mut self, guest: &Guest, quantum: i64) -> u64 {
        let Guest { home, state, segment, .. } = *guest;
        let context = context::of_this_thread();
        home.data().copy_from_slice(&state.memory);
        state_area(context, self.xstate).copy_from_slice(&state.vector[..self.xstate.size]);
        context.gpr = state.gpr;
        context.rflags = state.rflags;
        let area = home.data + THREAD_AREA;
        context.set_guest_fs(if segment == Segment::Fs { area } else { NOWHERE });
        context.guest_gs = if segment == Segment::Gs { area } else { NOWHERE };
        context.set_quantum(quantum);
        context.clock()
    }

    /// The guest's state and clock as they are now.
    pub fn collect(&mut self, home: Home) -> (State, u64) {
        let context = context::of_this_thread();
        let vector = state_area(context, self.xstate).to_vec();
        let state = State { gpr: context.gpr, rflags: context.rflags, vector, memory: home.data().to_vec() };
        (state, context.clock())
    }
}

/// What to run, from where.
#[derive(Clone, Copy)]
pub struct Guest<'a> {
    pub home: Home,
    pub entry: u64,
    pub state: &'a State,
    pub segment: Segment,
}

/// Where a thread goes on that is being followed.
pub fn follow(cache: &mut CodeCache, code: &dyn GuestCode, follower: &mut Option<Follower>, pc: u64) -> Option<u64> {
    match cache.follow(code, follower.as_mut()?, pc) {
        Next::Run(block) => Some(cache.host_for_block(code, &block)),
        Next::Done(path) => {
            *follower = None;
            path.into_iter().for_each(|path| cache.add_hot_path(code, &path));
            Some(cache.host_for(code, pc))
        }
    }
}

/// Where a thread goes on after a branch that left translated code: for the guest, and in the cache.
pub fn transfer(cache: &mut CodeCache, code: &dyn GuestCode, exit: Exit) -> (u64, u64) {
    match exit {
        Exit::Direct { target, link } => (target, cache.link(code, target, link)),
        _ => {
            let target = context::of_this_thread().branch_target;
            (target, cache.host_for_indirect(code, target))
        }
    }
}

/// Where a thread goes on whose budget did not reach for so many events at a place, and who follows it.
pub fn out_of_budget(
    cache: &mut CodeCache,
    code: &dyn GuestCode,
    (pc, amount): (u64, u8),
    quantum: i64,
) -> (u64, Option<Follower>) {
    let context = context::of_this_thread();
    context.take_back(amount);
    if context.budget > 1 {
        return (cache.host_for_last_events(code, pc), None);
    }
    context.set_quantum(quantum);
    cache.review_hot_paths(code);
    let follower = cache.sample(pc);
    (cache.host_for(code, pc), follower)
}

/// Runs until the guest ends. Threads are followed from where their quanta end, as the engine does it.
fn run_loop(cache: &mut CodeCache, code: &dyn GuestCode, entry: u64, quantum: i64) -> Ending {
    /// Far more than any tested program needs.
    const MOST_EXITS: usize = 100_000;
    const MOST_EVENTS: u64 = 100_000;
    let enter = cache.stubs().enter;
    let mut host = cache.host_for(code, entry);
    let start = context::of_this_thread().clock();
    let mut pc = entry;
    let mut follower: Option<Follower> = None;
    for _ in 0..MOST_EXITS {
        host = follow(cache, code, &mut follower, pc).unwrap_or(host);
        let raised = native::run_translated(cache, || kernel::enter(enter, host));
        let context = context::of_this_thread();
        host = match cache.exit(context.exit) {
            Exit::Fault => return Ending::Raised(raised.expect("a fault exit comes from the handler")),
            Exit::SystemCall { .. } => return Ending::Done,
            exit @ (Exit::Indirect | Exit::Direct { .. }) => {
                (pc, host) = transfer(cache, code, exit);
                host
            }
            Exit::Budget { pc: at, amount, .. } => {
                pc = at;
                if context.clock() - start > MOST_EVENTS {
                    break;
                }
                (host, follower) = out_of_budget(cache, code, (pc, amount), quantum);
                host
            }
            exit => return Ending::Unexpected(exit),
        };
    }
    panic!("the translated code never ends");
}

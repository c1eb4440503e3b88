//! The per-thread context: the guest's registers while the engine runs, and the slots that translated code uses.
//!
//! The context is a `const` thread-local of an executable, so it lies at one constant offset from the FS base in
//! every thread: one code cache shared by all threads reaches its own thread's slots as `fs:[constant]`, without a
//! register, below nothing of the guest's stack, and a signal handler can always find it.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

/// Register numbers as instructions encode them.
pub const RAX: usize = 0;
pub const RCX: usize = 1;
pub const RDX: usize = 2;
pub const RBX: usize = 3;
pub const RSP: usize = 4;
pub const RBP: usize = 5;
pub const RSI: usize = 6;
pub const RDI: usize = 7;
pub const R8: usize = 8;
pub const R9: usize = 9;
pub const R10: usize = 10;
pub const R11: usize = 11;

/// How many scratch slots translated code may spill guest registers into.
pub const SPILL_SLOTS: usize = 4;

/// State shared between translated code, the exit path and signal handlers of one thread.
#[repr(C, align(64))]
pub struct Context {
    /// General-purpose registers of the guest, in encoding order; current only outside translated code.
    pub gpr: [u64; 16],
    pub rflags: u64,
    /// The guest instruction to run next; current only outside translated code.
    pub pc: u64,
    /// The engine's stack pointer while translated code runs.
    pub host_rsp: u64,
    /// Which exit translated code left by: an index into the cache's exits.
    pub exit: u64,
    /// The target of an indirect branch that missed the lookup table.
    pub branch_target: u64,
    /// Where `enter` jumps to once the guest's registers are loaded.
    pub entry: u64,
    pub spill: [u64; SPILL_SLOTS],
    /// One more than the clock events the thread may still pass before it must leave translated code: the check
    /// subtracts one and leaves at zero, so that the event itself has not happened yet.
    pub budget: i64,
    /// Events that are granted but not in `budget`: those of later slices, and what a stop request has taken away until
    /// it has been served.
    pub deferred: i64,
    /// Points that the thread may still pass before it must leave translated code.
    pub points: u64,
    /// All events ever granted; what is left of them is in `budget` and `deferred`.
    pub granted: i64,
    /// Where the next observation record goes, and where the buffer starts and ends; zero if nothing is observed.
    pub trace_next: u64,
    pub trace_start: u64,
    pub trace_end: u64,
    /// The guest's FS base when the first record in the buffer was begun.
    pub trace_fs: u64,
    /// Where the vector and floating-point state of the guest is saved while the engine runs.
    pub xsave: u64,
    /// The guest's GS base; its FS base lives in the GS register itself.
    pub guest_gs: u64,
    /// Bumped by whoever wants this thread to look at the world again: the scheduler and signal handlers.
    pub wake: AtomicU32,
    /// An asynchronous signal waits in `signal_info`. All others are blocked until it has been taken.
    pub signal_pending: AtomicU32,
    pub signal_info: [u64; 16],
    /// A signal that was put off to the next event of the clock.
    pub put_off: u32,
    /// Where the thread stands, for signals.
    pub standing: Standing,
    /// The synchronous fault that a signal handler has put here.
    pub fault: Fault,
    /// The thread's number in the scheduler, and the kernel's.
    pub thread: u32,
    pub tid: i32,
    /// The guest's signal mask, as the guest sees it.
    pub signal_mask: u64,
    /// The mask to go back to after a call that waits with another one.
    pub suspended_mask: Option<u64>,
    /// The system call that a signal has interrupted: its number, and whether `SA_RESTART` restarts it.
    pub interrupted_call: Option<(u64, bool)>,
    /// A signal came before the kernel was entered for a call that may wait, so the call was not made.
    pub was_kept_out: bool,
    /// The guest's alternate signal stack: start, flags, size.
    pub alternate_stack: [u64; 3],
    /// Where to store zero and wake a futex when the thread ends.
    pub clear_tid: u64,
    pub robust_list: u64,
    /// The thread runs as the child of a `vfork`, in its parent's memory.
    pub is_vfork_child: bool,
    /// The thread is a process of its own that shares this memory, and runs beside its parent.
    pub is_process_beside: bool,
}

/// Where a thread that is outside translated code stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// No instruction has run since the start, a system call, or the delivery of a signal.
    AfterCall,
    /// Right before an event of its clock.
    AtEvent,
    /// Between two units.
    Anywhere,
}

/// A synchronous fault of the guest's, as the kernel described it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    pub signal: i32,
    pub code: i32,
    pub address: u64,
    pub error: u64,
    pub trap: u64,
}

thread_local! {
    static CONTEXT: UnsafeCell<Context> = const {
        UnsafeCell::new(Context {
            gpr: [0; 16],
            rflags: 0x202,
            pc: 0,
            host_rsp: 0,
            exit: 0,
            branch_target: 0,
            entry: 0,
            spill: [0; SPILL_SLOTS],
            budget: 1,
            deferred: 0,
            points: u64::MAX,
            granted: 0,
            trace_next: 0,
            trace_start: 0,
            trace_end: 0,
            trace_fs: 0,
            xsave: 0,
            guest_gs: 0,
            wake: AtomicU32::new(0),
            signal_pending: AtomicU32::new(0),
            signal_info: [0; 16],
            put_off: 0,
            standing: Standing::AfterCall,
            fault: Fault { signal: 0, code: 0, address: 0, error: 0, trap: 0 },
            thread: 0,
            tid: 0,
            signal_mask: 0,
            suspended_mask: None,
            interrupted_call: None,
            was_kept_out: false,
            alternate_stack: [0, libc::SS_DISABLE as u64, 0],
            clear_tid: 0,
            robust_list: 0,
            is_vfork_child: false,
            is_process_beside: false,
        })
    };
}

/// The calling thread's context.
pub fn pointer() -> *mut Context {
    CONTEXT.with(UnsafeCell::get)
}

/// The calling thread's context, for the run loop and what it calls.
///
/// Everything below the run loop is handed this reference instead of asking for its own; signal handlers, which may
/// interrupt a holder, go through [`pointer`] and touch only the atomics, `budget`, `deferred` and `signal_info`.
pub fn of_this_thread() -> &'static mut Context {
    // SAFETY: the thread-local lives as long as its thread, and contexts are never sent elsewhere. The run loop is
    // the only caller that keeps the reference.
    unsafe { &mut *pointer() }
}

/// Quanta are cut into slices of so many events, whose ends show where the program is hot.
pub const SLICE: i64 = 50_000;

impl Context {
    /// The thread's deterministic time: how many clock events it has passed.
    pub fn clock(&self) -> u64 {
        (self.granted - (self.budget - 1) - self.deferred) as u64
    }

    /// Makes the clock show `clock`, with no time left.
    pub fn set_clock(&mut self, clock: u64) {
        self.granted = clock as i64;
        self.budget = 1;
        self.deferred = 0;
    }

    /// Puts a signal off that came where a run that is written down cannot deliver it: to the next event of the clock.
    pub fn put_signal_off(&mut self) {
        self.put_off = self.signal_pending.swap(0, Ordering::SeqCst);
        self.request_stop();
    }

    /// Takes up a signal that was put off.
    pub fn recall_signal(&mut self) {
        if self.put_off != 0 {
            self.signal_pending.store(std::mem::take(&mut self.put_off), Ordering::SeqCst);
        }
    }

    /// Starts a new quantum of `events` clock events; what was left of the last one is forfeit.
    pub fn set_quantum(&mut self, events: i64) {
        self.granted += events - (self.budget - 1) - self.deferred;
        self.budget = 1;
        self.deferred = events;
        self.release_deferred();
    }

    /// Starts a new quantum in which the thread may pass so many points.
    pub fn grant(&mut self, events: u64, points: u64) {
        self.set_quantum(events as i64);
        self.points = points;
    }

    /// Gives a slice of what was deferred to the budget.
    pub fn release_deferred(&mut self) {
        let slice = self.deferred.min(SLICE);
        self.budget += slice;
        self.deferred -= slice;
    }

    /// Undoes a count of `amount` events that the budget did not reach for.
    pub fn take_back(&mut self, amount: u8) {
        if amount == 1 {
            // A count that keeps flags has not been stored yet.
            self.budget = 1;
        } else {
            self.budget += i64::from(amount);
        }
    }

    /// Takes the remaining events away, so that translated code leaves at the next one.
    pub fn request_stop(&mut self) {
        // At zero the thread is on its way out already, just before an event.
        if self.budget > 0 {
            self.deferred += self.budget - 1;
            self.budget = 1;
        }
    }

    /// The same where translated code holds the budget in a register just now.
    pub fn request_stop_in_register(&mut self, budget: &mut i64) {
        if *budget > 0 {
            self.deferred += *budget - 1;
            *budget = 1;
        }
    }

    /// Whether the thread is a process other than the one whose memory this is.
    pub fn is_other_process(&self) -> bool {
        self.is_vfork_child || self.is_process_beside
    }

    pub fn has_pending_signal(&self) -> bool {
        self.signal_pending.load(Ordering::SeqCst) != 0
    }

    /// The guest's FS base, which lives in the hardware's GS while the engine owns FS.
    pub fn guest_fs(&self) -> u64 {
        let base: u64;
        // SAFETY: reads a register; `doctor` and start-up check that the kernel enables FSGSBASE.
        unsafe { std::arch::asm!("rdgsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        base
    }

    /// To be called only where no records wait to be handed over.
    pub fn set_guest_fs(&mut self, base: u64) {
        self.trace_fs = base;
        // SAFETY: the engine itself never uses GS; only translated guest code reads through it.
        unsafe { std::arch::asm!("wrgsbase {}", in(reg) base, options(nomem, nostack, preserves_flags)) };
    }
}

/// A thread's context as others may know it: to wake the thread, and to look at it while it is parked.
#[derive(Clone, Copy)]
pub struct ContextRef(*mut Context);

// SAFETY: the scheduler drops a reference before its thread ends, and others only touch the atomics or look at a
// context whose thread is parked in the scheduler.
unsafe impl Send for ContextRef {}

impl ContextRef {
    pub fn of(context: &mut Context) -> ContextRef {
        ContextRef(context)
    }

    /// Makes the thread look at the world again, once somebody has woken who sleeps at the address that this tells.
    pub fn call(&self) -> u64 {
        // SAFETY: see the `Send` argument; `wake` is atomic.
        let word = unsafe { &(*self.0).wake };
        word.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        std::ptr::from_ref(word) as u64
    }

    /// Shows the context; the caller knows that the thread is parked, or is itself that thread.
    pub fn with<R>(&self, look: impl FnOnce(&Context) -> R) -> R {
        // SAFETY: the thread is parked and its thread-local lives.
        look(unsafe { &*self.0 })
    }
}

/// The FS-relative displacement of a context field, as translated code encodes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub i32);

/// Displacements of all fields that translated code uses, fixed for the life of the process.
#[derive(Clone, Copy)]
pub struct Layout {
    base: i32,
}

macro_rules! slots {
    ($($name:ident => $field:ident),* $(,)?) => {
        $(pub fn $name(self) -> Slot { self.at(offset_of!(Context, $field)) })*
    };
}

impl Layout {
    /// Finds where contexts lie relative to FS in this executable.
    pub fn find() -> Layout {
        let fs: u64;
        // SAFETY: reads a register; FSGSBASE was checked at start-up.
        unsafe { std::arch::asm!("rdfsbase {}", out(reg) fs, options(nomem, nostack, preserves_flags)) };
        let base = (pointer() as u64).wrapping_sub(fs) as i64;
        let base = i32::try_from(base).expect("an executable's thread-locals lie within 2 GB of FS");
        Layout { base }
    }

    /// A layout with a made-up base, for tests that only look at emitted bytes.
    #[cfg(test)]
    pub fn for_listing() -> Layout {
        Layout { base: 0x1000 }
    }

    fn at(self, offset: usize) -> Slot {
        Slot(self.base + offset as i32)
    }

    pub fn gpr(self, register: usize) -> Slot {
        self.at(offset_of!(Context, gpr) + 8 * register)
    }

    pub fn spill(self, index: usize) -> Slot {
        assert!(index < SPILL_SLOTS);
        self.at(offset_of!(Context, spill) + 8 * index)
    }

    slots! {
        rflags => rflags,
        host_rsp => host_rsp,
        exit => exit,
        branch_target => branch_target,
        entry => entry,
        budget => budget,
        points => points,
        trace_next => trace_next,
        signal_pending => signal_pending,
        xsave => xsave,
        guest_gs => guest_gs,
    }
}

//! All that belongs to the guest process as a whole: its code, its address space, its signal dispositions.

use crate::code::cache::CodeCache;
use crate::code::hot::{Follower, Next};
use crate::context::Context;
use crate::faults::Injector;
use crate::guest_code::LiveCode;
use crate::kernel::{self, Arguments};
use crate::signals::Actions;
use crate::space::{GuestSpace, PAGE, Protection, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What follows a pointer among a call's arguments is taken for a length up to this.
const LONGEST_BUFFER: u64 = 1 << 30;
/// The kernel's structures are no larger.
const LARGEST_STRUCTURE: u64 = 1024;

pub struct World {
    pub cache: CodeCache,
    pub space: GuestSpace,
    actions: Actions,
    /// The dispositions of child processes that run in this memory, by the thread they stand for.
    child_actions: BTreeMap<u32, Actions>,
    pub process: Process,
    /// Writable pages that are write-protected so that changes are noticed, each with the page whose translations
    /// would change: itself, or one that shows the same memory.
    guarded: BTreeMap<u64, u64>,
    /// What goes wrong, if anything is to.
    pub injector: Option<Injector>,
}

/// What the guest can find out about itself.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The program's real path: what `/proc/self/exe` shows.
    pub executable: Vec<u8>,
    /// The arguments, each with its NUL: what `/proc/self/cmdline` shows.
    pub command_line: Vec<u8>,
    /// Descriptors that the guest opened on its own descriptor directory.
    pub directories: BTreeSet<i32>,
    /// System calls, requests and flags that were already mentioned.
    pub mentioned: BTreeSet<String>,
    /// The main thread's stack.
    pub stack: Range<u64>,
}

impl World {
    pub fn new(cache: CodeCache, space: GuestSpace, actions: Actions, process: Process) -> World {
        let (child_actions, guarded) = (BTreeMap::new(), BTreeMap::new());
        World { cache, space, actions, child_actions, process, guarded, injector: None }
    }

    /// The signal dispositions that count for a thread.
    pub fn actions(&self, context: &Context) -> &Actions {
        let own = if context.is_other_process() { self.child_actions.get(&context.thread) } else { None };
        own.unwrap_or(&self.actions)
    }

    pub fn actions_mut(&mut self, context: &Context) -> &mut Actions {
        let own = if context.is_other_process() { self.child_actions.get_mut(&context.thread) } else { None };
        own.unwrap_or(&mut self.actions)
    }

    /// Whether a signal could still change what the process waits for.
    pub fn has_handlers(&self) -> bool {
        self.actions.any_handler()
    }

    /// The child process that is about to run as the thread of this number changes a copy of the parent's dispositions.
    pub fn begin_child(&mut self, parent: &Context, thread: u32) {
        let copy = self.actions(parent).clone();
        self.child_actions.insert(thread, copy);
    }

    pub fn end_child(&mut self, thread: u32) {
        self.child_actions.remove(&thread);
    }

    /// The translation of `pc`.
    pub fn host_for(&mut self, pc: u64) -> u64 {
        let host = self.cache.host_for(&LiveCode(&self.space), pc);
        self.guard_new_pages();
        host
    }

    /// A throw-away translation of the straight run from `pc` up to `end`.
    pub fn host_up_to(&mut self, pc: u64, end: u64) -> u64 {
        self.cache.host_up_to(&LiveCode(&self.space), pc, end)
    }

    /// A quantum has ended at `branch`; gives a follower if the thread should be followed.
    pub fn sample(&mut self, branch: u64) -> Option<Follower> {
        let code = LiveCode(&self.space);
        self.cache.review_hot_paths(&code);
        self.cache.quieten_units(&code);
        self.cache.hush_bound_functions(&code);
        if self.cache.begin_slice(&code) {
            self.cache.resume_hot_paths(&code);
        }
        self.guard_new_pages();
        self.cache.sample(branch)
    }

    /// What a thread that is being followed runs next, until it has been followed far enough.
    pub fn follow(&mut self, follower: &mut Follower, pc: u64) -> Option<u64> {
        let code = LiveCode(&self.space);
        match self.cache.follow(&code, follower, pc) {
            Next::Run(block) => Some(self.cache.host_for_block(&code, &block)),
            Next::Done(path) => {
                if let Some(path) = path {
                    self.cache.add_hot_path(&code, &path);
                    self.guard_new_pages();
                }
                None
            }
        }
    }

    /// A translation that counts one event at a time.
    pub fn host_for_last_events(&mut self, pc: u64) -> u64 {
        let host = self.cache.host_for_last_events(&LiveCode(&self.space), pc);
        self.guard_new_pages();
        host
    }

    /// A throw-away translation of one instruction, on a page that stays writable.
    pub fn host_for_once(&mut self, pc: u64) -> u64 {
        self.cache.host_for_once(&LiveCode(&self.space), pc)
    }

    /// The same without observation.
    pub fn host_for_step(&mut self, pc: u64) -> u64 {
        self.cache.host_for_step(&LiveCode(&self.space), pc)
    }

    /// The same, kept for the next time.
    pub fn host_for_kept_step(&mut self, pc: u64) -> u64 {
        let host = self.cache.host_for_kept_step(&LiveCode(&self.space), pc);
        self.guard_new_pages();
        host
    }

    /// A translation that tells where all accesses go, and comes back wherever it goes.
    pub fn host_for_sequel(&mut self, pc: u64) -> u64 {
        let host = self.cache.host_for_sequel(&LiveCode(&self.space), pc);
        self.guard_new_pages();
        host
    }

    /// A throw-away translation of one instruction that plans speak of.
    pub fn host_past(&mut self, pc: u64) -> u64 {
        self.cache.host_past(&LiveCode(&self.space), pc)
    }

    pub fn host_for_indirect(&mut self, pc: u64) -> u64 {
        let host = self.cache.host_for_indirect(&LiveCode(&self.space), pc);
        self.guard_new_pages();
        host
    }

    pub fn link(&mut self, target: u64, link: u64) -> u64 {
        let host = self.cache.link(&LiveCode(&self.space), target, link);
        self.guard_new_pages();
        host
    }

    /// Write-protects pages that code was just translated from, and pages that show the same memory, where the guest
    /// could write.
    fn guard_new_pages(&mut self) {
        for page in self.cache.take_new_pages() {
            self.guard(page, page);
            for alias in self.space.aliases(page * PAGE) {
                self.guard(alias / PAGE, page);
            }
        }
    }

    fn guard(&mut self, page: u64, code: u64) {
        let address = page * PAGE;
        if let Some((_, mapping)) = self.space.find(address)
            && mapping.protection.writable()
            && self.guarded.insert(page, code).is_none()
        {
            let protection = mapping.protection.0 & !(libc::PROT_WRITE as u32);
            kernel::call(libc::SYS_mprotect as u64, [address, PAGE, u64::from(protection), 0, 0, 0]);
        }
    }

    /// If the guest wrote to a page that the engine protects, forgets its code and lets the write happen.
    pub fn write_to_guarded(&mut self, address: u64) -> bool {
        let page = address / PAGE;
        let Some(code) = self.guarded.remove(&page) else { return false };
        self.cache.invalidate(code * PAGE..(code + 1) * PAGE);
        if let Some((_, mapping)) = self.space.find(address) {
            let arguments = [page * PAGE, PAGE, u64::from(mapping.protection.0), 0, 0, 0];
            kernel::call(libc::SYS_mprotect as u64, arguments);
        }
        true
    }

    /// Opens the guarded pages that a system call may write to, judged by its arguments alone. Many calls have done
    /// their work before they find that they cannot store the result, and cannot be made again.
    pub fn open_for_call(&mut self, arguments: &Arguments) {
        if self.guarded.is_empty() {
            return;
        }
        for (index, &address) in arguments.iter().enumerate() {
            let length = arguments.get(index + 1).copied().filter(|&length| length < LONGEST_BUFFER).unwrap_or(0);
            self.open_guarded_in(address..address.saturating_add(length.max(LARGEST_STRUCTURE)));
        }
    }

    pub fn open_guarded_in(&mut self, range: Range<u64>) {
        let pages: Vec<u64> =
            self.guarded.range(range.start / PAGE..range.end.div_ceil(PAGE)).map(|(&page, _)| page).collect();
        for page in pages {
            self.write_to_guarded(page * PAGE);
        }
    }

    /// Opens all guarded pages, for a system call that may write to one.
    pub fn open_guarded(&mut self) -> bool {
        let pages: Vec<u64> = self.guarded.keys().copied().collect();
        for &page in &pages {
            self.write_to_guarded(page * PAGE);
        }
        !pages.is_empty()
    }

    /// To be called when the mapping of `range` changes in any way.
    pub fn mapping_changed(&mut self, range: Range<u64>) {
        self.cache.invalidate(range.clone());
        let gone: Vec<u64> =
            self.guarded.range(range.start / PAGE..range.end.div_ceil(PAGE)).map(|(&page, _)| page).collect();
        for page in gone {
            self.guarded.remove(&page);
        }
    }

    /// Takes a new mapping into the model. A new writable view of memory that is also code must be guarded, which
    /// happens when the code is translated again.
    pub fn add_mapping(&mut self, range: Range<u64>, protection: Protection, shared: Option<Shared>) {
        self.mapping_changed(range.clone());
        self.space.insert(range, protection, shared);
        self.forget_aliases(protection, shared);
    }

    /// Changes a mapping's rights in the model.
    pub fn protect_mapping(&mut self, range: Range<u64>, protection: Protection) {
        self.mapping_changed(range.clone());
        let shared = self.space.find(range.start).and_then(|(_, mapping)| mapping.shared);
        self.space.protect(range, protection);
        self.forget_aliases(protection, shared);
    }

    fn forget_aliases(&mut self, protection: Protection, shared: Option<Shared>) {
        if let Some(shared) = shared.filter(|_| protection.writable()) {
            for code in self.space.code_of(shared.object) {
                self.cache.invalidate(code);
            }
        }
    }

    /// Whether `what` is mentioned for the first time.
    pub fn mention_once(&mut self, what: &str) -> bool {
        self.process.mentioned.insert(what.to_owned())
    }
}

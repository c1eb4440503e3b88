//! Filters that the guest sets on its own system calls (`seccomp`). The kernel's would bind the engine too, so they are
//! run here, on what the guest asks for.
//!
//! Clock reads pass every filter: natively the vdso answers them without a call, and the engine hides it.
//! Not there: handing calls to another process (`SECCOMP_FILTER_FLAG_NEW_LISTENER`).

use super::{Answer, Flow, clone, error};
use crate::context::{Context, RAX};
use crate::engine::Engine;
use crate::journal::{Before, write_down};
use crate::kernel::{self, Arguments};
use crate::signals::deliver::{self, Moment};
use guest::bpf::{ARCHITECTURE, Instruction, MOST_INSTRUCTIONS, Program, Subject};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const KILL_PROCESS: u32 = 0x8000_0000;
const KILL_THREAD: u32 = 0;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;
const LOG: u32 = 0x7ffc_0000;
const ALLOW: u32 = 0x7fff_0000;
const ACTION: u32 = 0xffff_0000;
const LARGEST_ERRNO: u32 = 4095;
/// The code of a SIGSYS that a filter raised.
const SYS_SECCOMP: u64 = 1;

/// What a thread may call.
#[derive(Clone, Default)]
pub struct Rules {
    /// Only reading, writing, leaving a handler and ending.
    strict: bool,
    programs: Vec<Arc<Program>>,
}

/// The filters of all threads.
#[derive(Default)]
pub struct Filters {
    /// Whether there are any: most guests have none.
    any: AtomicBool,
    threads: Mutex<BTreeMap<u32, Rules>>,
}

impl Filters {
    /// What an earlier program of this process left: the words that [`Filters::words`] made.
    pub fn inherited(words: &[Vec<u8>]) -> Filters {
        let programs: Vec<Arc<Program>> = words.iter().filter_map(|word| decode(word)).map(Arc::new).collect();
        let filters = Filters::default();
        if !programs.is_empty() {
            filters.threads().insert(1, Rules { strict: false, programs });
            filters.any.store(true, Ordering::Relaxed);
        }
        filters
    }

    /// The thread's filters, one word each, for the program that comes next.
    pub fn words(&self, context: &Context) -> Vec<Vec<u8>> {
        self.rules(context.thread).programs.iter().map(|program| encode(program)).collect()
    }

    fn threads(&self) -> MutexGuard<'_, BTreeMap<u32, Rules>> {
        self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn rules(&self, thread: u32) -> Rules {
        self.threads().get(&thread).cloned().unwrap_or_default()
    }

    fn set(&self, thread: u32, rules: Rules) {
        self.any.store(true, Ordering::Relaxed);
        self.threads().insert(thread, rules);
    }

    /// A new thread has its parent's.
    pub fn inherit(&self, parent: &Context, child: u32) {
        if self.any.load(Ordering::Relaxed) {
            let rules = self.rules(parent.thread);
            self.set(child, rules);
        }
    }

    /// The thread's filters, which a child that runs in its place may add to.
    pub fn keep(&self, context: &Context) -> Option<Rules> {
        self.any.load(Ordering::Relaxed).then(|| self.rules(context.thread))
    }

    pub fn put_back(&self, context: &Context, kept: Option<Rules>) {
        match kept {
            Some(rules) => self.set(context.thread, rules),
            None => drop(self.threads().remove(&context.thread)),
        }
    }

    /// What is to become of the call that the thread makes; the upper half is the action.
    fn judge(&self, context: &Context, number: u64, arguments: Arguments) -> u32 {
        let threads = self.threads();
        let Some(rules) = threads.get(&context.thread) else { return ALLOW };
        if rules.strict {
            return if is_strictly_allowed(number) { ALLOW } else { KILL_THREAD };
        }
        let subject = Subject { number: number as u32, pc: context.pc, arguments };
        // The newest counts where two say the same; the sternest action is the least, as a signed number.
        let verdicts = rules.programs.iter().rev().map(|program| program.run(&subject));
        verdicts.fold(
            ALLOW,
            |so_far, verdict| {
                if ((verdict & ACTION) as i32) < (so_far & ACTION) as i32 { verdict } else { so_far }
            },
        )
    }
}

fn is_strictly_allowed(number: u64) -> bool {
    matches!(number as i64, libc::SYS_read | libc::SYS_write | libc::SYS_exit | libc::SYS_rt_sigreturn)
}

fn is_clock_read(number: u64) -> bool {
    matches!(
        number as i64,
        libc::SYS_clock_gettime | libc::SYS_clock_getres | libc::SYS_gettimeofday | libc::SYS_time | libc::SYS_getcpu
    )
}

/// Answers a call that a filter does not let pass.
pub fn refuse(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> Option<Flow> {
    if !engine.filters.any.load(Ordering::Relaxed) || is_clock_read(number) {
        return None;
    }
    let verdict = engine.filters.judge(context, number, arguments);
    let data = verdict & !ACTION;
    match verdict & ACTION {
        ALLOW | LOG => return None,
        ERRNO => answer(engine, context, number, arguments, error(data.min(LARGEST_ERRNO) as i32)),
        TRAP => {
            answer(engine, context, number, arguments, number as i64);
            let words = [context.pc, u64::from(number as u32) | u64::from(ARCHITECTURE) << 32];
            deliver::force(
                engine,
                context,
                [libc::SIGSYS as u64 | u64::from(data) << 32, SYS_SECCOMP, words[0], words[1]],
            );
        }
        KILL_PROCESS => deliver::die(engine, context, libc::SIGSYS, None, Moment::Between),
        KILL_THREAD => return Some(kill_thread(engine, context)),
        // Nobody traces, and nobody listens.
        _ => answer(engine, context, number, arguments, error(libc::ENOSYS)),
    }
    Some(Flow::Goes)
}

fn answer(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments, result: i64) {
    context.gpr[RAX] = result as u64;
    write_down(engine, |writing| {
        writing.call(context, number, arguments, result, Before::default());
    });
}

/// The last thread dies with its process.
fn kill_thread(engine: &Engine, context: &mut Context) -> Flow {
    let signal = if engine.filters.rules(context.thread).strict { libc::SIGKILL } else { libc::SIGSYS };
    if engine.turn.is_alone() {
        deliver::die(engine, context, signal, None, Moment::Between);
    }
    match clone::exit_thread(engine, context, signal as u64) {
        Answer::Flow(flow) => flow,
        Answer::Result(_) => Flow::Goes,
    }
}

const SET_STRICT: u64 = libc::SECCOMP_SET_MODE_STRICT as u64;
const SET_FILTER: u64 = libc::SECCOMP_SET_MODE_FILTER as u64;
const ALL_THREADS: u64 = libc::SECCOMP_FILTER_FLAG_TSYNC;
const KNOWN_FLAGS: u64 = ALL_THREADS
    | libc::SECCOMP_FILTER_FLAG_LOG
    | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW
    | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;

pub fn seccomp(engine: &Engine, context: &Context, arguments: Arguments) -> i64 {
    let [operation, flags, address, ..] = arguments;
    match operation as u32 as u64 {
        SET_STRICT if flags == 0 && address == 0 => set_strict(engine, context),
        SET_STRICT => error(libc::EINVAL),
        SET_FILTER => install(engine, context, flags as u32 as u64, address),
        _ => kernel::call(libc::SYS_seccomp as u64, arguments),
    }
}

/// The same by `prctl`, whose modes have other numbers.
pub fn set_by_control(engine: &Engine, context: &Context, arguments: Arguments) -> i64 {
    match arguments[1] as i32 as u32 {
        libc::SECCOMP_MODE_STRICT => set_strict(engine, context),
        libc::SECCOMP_MODE_FILTER => install(engine, context, 0, arguments[2]),
        _ => error(libc::EINVAL),
    }
}

/// What `PR_GET_SECCOMP` tells; `None` if the guest has set nothing.
pub fn mode(engine: &Engine, context: &Context) -> Option<i64> {
    let rules = engine.filters.rules(context.thread);
    (!rules.programs.is_empty()).then_some(i64::from(libc::SECCOMP_MODE_FILTER))
}

fn set_strict(engine: &Engine, context: &Context) -> i64 {
    let rules = engine.filters.rules(context.thread);
    if !rules.programs.is_empty() {
        return error(libc::EINVAL);
    }
    engine.filters.set(context.thread, Rules { strict: true, ..rules });
    0
}

fn install(engine: &Engine, context: &Context, flags: u64, address: u64) -> i64 {
    if flags & !KNOWN_FLAGS != 0 {
        return error(libc::EINVAL);
    }
    let program = match read_program(address) {
        Ok(program) => program,
        Err(code) => return code,
    };
    let code = would_install();
    if code != error(libc::EINVAL) {
        return code;
    }
    let Some(program) = Program::check(program).map(Arc::new) else { return error(libc::EINVAL) };
    let mut rules = engine.filters.rules(context.thread);
    rules.programs.push(program);
    if flags & ALL_THREADS != 0 {
        engine.turn.inspect(|thread, _, _| engine.filters.set(thread.0, rules.clone()));
    } else {
        engine.filters.set(context.thread, rules);
    }
    0
}

/// Asks the kernel by a filter that it will not take: EINVAL says that it looked at it, anything else why not.
fn would_install() -> i64 {
    let instructions = [u64::MAX];
    let program = [1, instructions.as_ptr() as u64];
    kernel::call(libc::SYS_seccomp as u64, [SET_FILTER, 0, program.as_ptr() as u64, 0, 0, 0])
}

/// Reads a `struct sock_fprog` and what it leads to.
fn read_program(address: u64) -> Result<Vec<Instruction>, i64> {
    let [length, first] = kernel::read::<[u64; 2]>(address).map_err(|_| error(libc::EFAULT))?;
    let length = usize::from(length as u16);
    if length == 0 || length > MOST_INSTRUCTIONS {
        return Err(error(libc::EINVAL));
    }
    let read = |index: usize| kernel::read::<u64>(first + 8 * index as u64).map(Instruction::from_word);
    (0..length).map(read).collect::<Result<_, _>>().map_err(|_| error(libc::EFAULT))
}

/// A program as text without a zero in it.
fn encode(program: &Program) -> Vec<u8> {
    let words = program.instructions().iter().map(|instruction| format!("{:016x}", instruction.word()));
    words.collect::<String>().into_bytes()
}

fn decode(word: &[u8]) -> Option<Program> {
    let number = |digits: &[u8]| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let instructions: Option<Vec<Instruction>> =
        word.chunks(16).map(|digits| number(digits).map(Instruction::from_word)).collect();
    Program::check(instructions?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusing(action: u32) -> Arc<Program> {
        let end = Instruction { code: 0x06, if_true: 0, if_false: 0, constant: action };
        Arc::new(Program::check(vec![end]).expect("a program of one return"))
    }

    #[test]
    fn programs_survive_the_way_to_the_next_program() {
        let program = refusing(ERRNO | 13);
        assert_eq!(decode(&encode(&program)), Some(Program::clone(&program)));
        for bad in [b"".as_slice(), b"00", b"zzzzzzzzzzzzzzzz", b"ffffffffffffffff", b"\xff"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_sternest_filter_wins_and_the_newest_of_equals() {
        let judged = |actions: &[u32]| {
            let programs = actions.iter().map(|&action| refusing(action)).collect();
            let filters = Filters::default();
            filters.set(1, Rules { strict: false, programs });
            let context = crate::context::of_this_thread();
            context.thread = 1;
            filters.judge(context, 0, [0; 6])
        };
        assert_eq!(judged(&[ALLOW, LOG]), LOG);
        assert_eq!(judged(&[ERRNO | 1, ALLOW]), ERRNO | 1);
        assert_eq!(judged(&[ERRNO | 1, ERRNO | 2]), ERRNO | 2);
        assert_eq!(judged(&[TRAP, KILL_PROCESS, KILL_THREAD]), KILL_PROCESS);
    }
}

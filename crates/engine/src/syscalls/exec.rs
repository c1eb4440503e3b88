//! `execve`: the new program runs under the engine too, unless it is not to be followed or only the kernel can run it.

use super::{Answer, Flow, error};
use crate::context::Context;
use crate::engine::Engine;
use crate::kernel::{self, Arguments, BadAddress};
use crate::launch::{Program, can_run};
use crate::shield;
use crate::signals::{Action, SYNCHRONOUS, deliver, host};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use trace::event::{Event, Exec, SignalPlace};

/// What begins the word that passes a filter of system calls on.
pub const FILTER: &[u8] = b"filter=";
const LONGEST_PATH: usize = 4096;
const LONGEST_WORD: usize = 128 << 10;
const MOST_WORDS: usize = 1 << 20;

pub fn execute(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> Answer {
    let result = attempt(engine, context, number, arguments);
    if result == error(libc::EINTR) && context.has_pending_signal() {
        // It must reach this program, not the next.
        deliver::make_again(context);
        return Answer::Flow(Flow::Goes);
    }
    result.into()
}

fn attempt(engine: &Engine, context: &mut Context, number: u64, arguments: Arguments) -> i64 {
    let wanted = match Wanted::read(engine, number, arguments) {
        Ok(wanted) => wanted,
        Err(BadAddress) => return error(libc::EFAULT),
    };
    engine.settle_observer();
    prepare(engine, context);
    let result = match (&engine.options.follow, wanted) {
        (Some(words), Some(wanted)) if can_run(&wanted.program) => match engine.writing() {
            Some(writing) => {
                if !context.is_other_process() {
                    let (thread, clock) = (context.thread, context.clock());
                    writing.take_stock(engine, context, SignalPlace::InsideCall, true);
                    writing.note(&Event::Exec(Exec { thread, clock, next_log: 0 }));
                }
                let words = writing.words_for_exec(context);
                follow(engine, context, words, wanted)
            }
            None => follow(engine, context, words.clone(), wanted),
        },
        // The kernel knows the right error, and runs what the engine cannot.
        _ => kernel::call_interruptible(number, arguments),
    };
    undo(engine, context);
    result
}

/// The new program's inherited state must be the guest's, not the engine's.
fn prepare(engine: &Engine, context: &Context) {
    let mask = context.signal_mask;
    let arguments = [libc::SIG_SETMASK as u64, (&raw const mask) as u64, 0, 8, 0, 0];
    kernel::call(libc::SYS_rt_sigprocmask as u64, arguments);
    let world = engine.world();
    for signal in world.actions(context).ignored().filter(|signal| SYNCHRONOUS.contains(signal)) {
        host::kernel_action(signal, Some(Action { handler: Action::IGNORE, ..Action::default() }));
    }
}

fn undo(engine: &Engine, context: &Context) {
    let world = engine.world();
    for signal in world.actions(context).ignored().filter(|signal| SYNCHRONOUS.contains(signal)) {
        host::catch(signal, 0);
    }
    if !context.has_pending_signal() {
        host::set_kernel_mask(context.signal_mask);
    }
}

struct Wanted {
    program: Program,
}

impl Wanted {
    /// What the guest asks for; `None` if its file has no path that a new process could open.
    fn read(engine: &Engine, number: u64, arguments: Arguments) -> Result<Option<Wanted>, BadAddress> {
        let at = number as i64 == libc::SYS_execveat;
        let (path_at, argv, envp) =
            if at { (arguments[1], arguments[2], arguments[3]) } else { (arguments[0], arguments[1], arguments[2]) };
        let mut path = kernel::read_string(path_at, LONGEST_PATH)?;
        if super::files::is_own_executable(&path) {
            path = engine.world().process.executable.clone();
        }
        let words = read_words(argv)?;
        let environment = read_words(envp)?;
        if at && arguments[4] as i32 & libc::AT_SYMLINK_NOFOLLOW != 0 {
            return Ok(None); // rare, and the kernel's to judge
        }
        if at && !path.starts_with(b"/") {
            match path_of(arguments[0] as i32, &path, arguments[4] as i32) {
                Some(full) => path = full,
                None => return Ok(None),
            }
        }
        Ok(Some(Wanted { program: Program { path: OsString::from_vec(path), arguments: words, environment } }))
    }
}

/// The path of a file given relative to a descriptor, if it still leads there.
fn path_of(directory: i32, path: &[u8], flags: i32) -> Option<Vec<u8>> {
    if directory == libc::AT_FDCWD {
        return (!path.is_empty()).then(|| path.to_vec());
    }
    if path.is_empty() && flags & libc::AT_EMPTY_PATH == 0 {
        return None;
    }
    let link = std::fs::read_link(format!("/proc/self/fd/{directory}")).ok()?;
    if path.is_empty() {
        return std::fs::metadata(&link).is_ok().then(|| link.into_os_string().into_vec());
    }
    let mut full = link.into_os_string().into_vec();
    full.push(b'/');
    full.extend_from_slice(path);
    Some(full)
}

fn read_words(mut address: u64) -> Result<Vec<OsString>, BadAddress> {
    let mut words = Vec::new();
    if address == 0 {
        return Ok(words);
    }
    while words.len() < MOST_WORDS {
        let word: u64 = kernel::read(address)?;
        if word == 0 {
            break;
        }
        words.push(OsString::from_vec(kernel::read_string(word, LONGEST_WORD)?));
        address += 8;
    }
    Ok(words)
}

/// Executes ourselves with the new program as argument. The thread's filters stand before the dashes, which end our
/// own words.
fn follow(engine: &Engine, context: &Context, mut words: Vec<Vec<u8>>, wanted: Wanted) -> i64 {
    let program = wanted.program;
    let filters = engine.filters.words(context).into_iter().map(|word| [FILTER, &word].concat());
    words.splice(words.len() - 1..words.len() - 1, filters);
    let own = words.into_iter().map(OsString::from_vec);
    let theirs = std::iter::once(program.path).chain(program.arguments);
    let arguments = shield::terminated(own.chain(theirs));
    let environment = shield::terminated(program.environment.into_iter().map(shield::shield));
    let (Some(arguments), Some(environment)) = (arguments, environment) else { return error(libc::EINVAL) };
    let (arguments_at, environment_at) = (shield::pointers(&arguments), shield::pointers(&environment));
    let empty = c"";
    kernel::call_interruptible(
        libc::SYS_execveat as u64,
        [
            engine.private.executable as u64,
            empty.as_ptr() as u64,
            arguments_at.as_ptr() as u64,
            environment_at.as_ptr() as u64,
            libc::AT_EMPTY_PATH as u64,
            0,
        ],
    )
}

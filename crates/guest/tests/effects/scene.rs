//! Things that cases are made of: files, pipes, children, interruptions.

use std::fs::{self, File};
use std::io::Write;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::arena::Arena;

pub const HERE: u64 = libc::AT_FDCWD as u64;

/// The descriptor as an argument; whatever has it is kept until the call is over.
pub fn fd<T: AsRawFd + 'static>(arena: &mut Arena, thing: T) -> u64 {
    arena.keep(thing).as_raw_fd() as u64
}

fn owned(descriptor: i32) -> OwnedFd {
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the callers have just been given the descriptor and hand it on.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Makes a call that sets a scene, which must succeed.
pub fn call(number: i64, arguments: &[u64]) -> u64 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: pointers among the arguments lead to an arena or to something of the caller that is alive.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    assert!(result >= 0, "call {number}: {}", std::io::Error::last_os_error());
    result as u64
}

/// The same, for calls that return a descriptor.
pub fn open_call(number: i64, arguments: &[u64]) -> OwnedFd {
    owned(call(number, arguments) as i32)
}

/// A file in memory with this content, at its start.
pub fn file_with(content: &[u8]) -> File {
    use std::io::Seek;
    let mut file = File::from(open_call(libc::SYS_memfd_create, &[c"scene".as_ptr() as u64, 0]));
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

/// The ends for reading and for writing.
pub fn pipe_with(content: &[u8]) -> (OwnedFd, File) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(content).unwrap();
    (reader.into(), File::from(OwnedFd::from(writer)))
}

/// A folder of its own, with a file `file` in it, that is gone when the call is over.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static N_MADE: AtomicU32 = AtomicU32::new(0);
        let serial = N_MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whodunit-effects-{}-{serial}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "content").unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Puts the path of `name`, in a fresh folder, into the arena.
pub fn path(arena: &mut Arena, name: &str) -> u64 {
    let path = arena.keep(Folder::new()).path(name);
    arena.put_string(&path)
}

/// A child process that has ended or stopped, or is about to.
pub struct Child(i32);

impl Child {
    pub fn ended() -> Child {
        // SAFETY: the child does nothing but end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(7) }
        }
        Child(child)
    }

    /// A child under trace, stopped by a signal.
    pub fn traced() -> Child {
        // SAFETY: the child calls only what is safe after a fork; the parent waits for a child of its own.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME);
                libc::raise(libc::SIGSTOP);
                libc::_exit(7);
            }
        }
        let mut status = 0;
        // SAFETY: the status is this function's own.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFSTOPPED(status));
        Child(child)
    }

    pub fn pid(&self) -> u64 {
        self.0 as u64
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the process is a child that nobody else knows; it may have been waited for, which does no harm.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

/// As long as it lives, the calling thread gets signals that end a call which waits.
pub struct Interruptions(libc::timer_t);

impl Interruptions {
    pub fn start() -> Interruptions {
        extern "C" fn ignore(_: i32) {}
        let signal = libc::SIGRTMIN() + 4;
        // SAFETY: the structures are zeroed and filled as the calls want them; the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            let period = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            let setting = libc::itimerspec { it_interval: period, it_value: period };
            assert_eq!(libc::timer_settime(timer, 0, &setting, ptr::null_mut()), 0);
            Interruptions(timer)
        }
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        // SAFETY: the timer is this object's own.
        unsafe { libc::timer_delete(self.0) };
    }
}

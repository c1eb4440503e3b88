//! The engine's own descriptors, kept where the guest does not look and guarded where it might.

use crate::kernel;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors of the engine's.
#[derive(Clone, Debug)]
pub struct PrivateDescriptors {
    /// A copy of standard error as it was at the start.
    pub messages: i32,
    /// The engine's own executable, to run children under it.
    pub executable: i32,
    /// Wakes the idle thread.
    pub kick: i32,
}

impl PrivateDescriptors {
    /// Opens them all; `Err` says what is missing.
    pub fn open() -> std::io::Result<PrivateDescriptors> {
        let messages = raise(2).unwrap_or(-1);
        let path = c"/proc/self/exe";
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        let opened = check(kernel::call(
            libc::SYS_openat as u64,
            [libc::AT_FDCWD as i64 as u64, path.as_ptr() as u64, flags, 0, 0, 0],
        ))?;
        let executable = move_up(opened)?;
        Ok(PrivateDescriptors { messages, executable, kick: new_kick()? })
    }

    fn all(&self) -> [i32; 5] {
        let (observers, log) = (OBSERVERS.load(Ordering::Relaxed), LOG.load(Ordering::Relaxed));
        [self.messages, self.executable, self.kick, observers, log]
    }

    pub fn contains(&self, descriptor: i32) -> bool {
        descriptor >= 0 && self.all().contains(&descriptor)
    }

    /// In ascending order.
    pub fn sorted(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.all().into_iter().filter_map(|fd| u32::try_from(fd).ok()).collect();
        all.sort_unstable();
        all
    }

    /// Gives a forked child its own event counter under the same number.
    pub fn renew_after_fork(&self) {
        let _room = MoreDescriptors::claim();
        let fresh = kernel::call(libc::SYS_eventfd2 as u64, [0, EVENT_FLAGS, 0, 0, 0, 0]);
        if fresh >= 0 {
            kernel::call(libc::SYS_dup3 as u64, [fresh as u64, self.kick as u64, libc::O_CLOEXEC as u64, 0, 0, 0]);
            kernel::call(libc::SYS_close as u64, [fresh as u64, 0, 0, 0, 0, 0]);
        }
    }
}

/// Lets this process open descriptors for its own use while the guest has used up its limit; ends when dropped.
pub struct MoreDescriptors {
    lowered: Option<[u64; 2]>,
}

impl MoreDescriptors {
    pub fn claim() -> MoreDescriptors {
        let [soft, hard] = limit(libc::RLIMIT_NOFILE);
        let is_raised = soft < hard && set_limit(libc::RLIMIT_NOFILE, [hard, hard]);
        MoreDescriptors { lowered: is_raised.then_some([soft, hard]) }
    }
}

impl Drop for MoreDescriptors {
    fn drop(&mut self) {
        if let Some(lowered) = self.lowered {
            set_limit(libc::RLIMIT_NOFILE, lowered);
        }
    }
}

/// The file that an observer writes to.
static OBSERVERS: AtomicI32 = AtomicI32::new(-1);

/// Moves an observer's file out of the guest's way; there is one at most.
pub fn keep_for_observer(descriptor: i32) -> std::io::Result<i32> {
    let high = move_up(descriptor)?;
    OBSERVERS.store(high, Ordering::Relaxed);
    Ok(high)
}

/// The log that the run is written down in.
static LOG: AtomicI32 = AtomicI32::new(-1);

/// A log's file, at a descriptor that the guest cannot close; there is one at most.
pub struct PrivateLog(i32);

impl PrivateLog {
    /// Moves the file out of the guest's way.
    pub fn keep(file: std::fs::File) -> std::io::Result<PrivateLog> {
        let high = move_up(file.into_raw_fd())?;
        LOG.store(high, Ordering::Relaxed);
        Ok(PrivateLog(high))
    }

    /// The limit on the size of files is the guest's, and so would be the signal that comes with it.
    fn refuse_beyond_limit(&self, more: u64) -> std::io::Result<()> {
        let [limit, _] = limit(libc::RLIMIT_FSIZE);
        if limit == libc::RLIM_INFINITY {
            return Ok(());
        }
        let size = check(kernel::call(libc::SYS_lseek as u64, [self.0 as u64, 0, libc::SEEK_END as u64, 0, 0, 0]))?;
        if size as u64 + more > limit { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }

    /// The same for a forked child's log, which takes its parent's place.
    pub fn replace(&mut self, file: std::fs::File) -> std::io::Result<()> {
        let arguments = [file.as_raw_fd() as u64, self.0 as u64, libc::O_CLOEXEC as u64, 0, 0, 0];
        check(kernel::call(libc::SYS_dup3 as u64, arguments)).map(drop)
    }

    /// The same, for a copy of the process that still reads what the log before it holds in memory.
    pub fn replaced_by(&self, file: std::fs::File) -> std::io::Result<PrivateLog> {
        let mut next = PrivateLog(self.0);
        next.replace(file).map(|()| next)
    }
}

impl trace::Sink for PrivateLog {
    fn append(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        self.refuse_beyond_limit(bytes.len() as u64)?;
        while !bytes.is_empty() {
            let arguments = [self.0 as u64, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
            match kernel::call(libc::SYS_write as u64, arguments) {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                error if error == -i64::from(libc::EINTR) => {}
                error if error < 0 => return Err(std::io::Error::from_raw_os_error(-error as i32)),
                written => bytes = &bytes[written as usize..],
            }
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        check(kernel::call(libc::SYS_ftruncate as u64, [self.0 as u64, length, 0, 0, 0, 0])).map(drop)
    }
}

const EVENT_FLAGS: u64 = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as u64;

fn new_kick() -> std::io::Result<i32> {
    let event = check(kernel::call(libc::SYS_eventfd2 as u64, [0, EVENT_FLAGS, 0, 0, 0, 0]))?;
    move_up(event)
}

fn check(result: i64) -> std::io::Result<i32> {
    if result < 0 { Err(std::io::Error::from_raw_os_error(-result as i32)) } else { Ok(result as i32) }
}

/// A number below which the guest will hardly get, but within the limit.
fn floor() -> u64 {
    limit(libc::RLIMIT_NOFILE)[0].clamp(16, 65_536).saturating_sub(8)
}

/// What the process may use of something now, and what it may raise that to.
fn limit(resource: u32) -> [u64; 2] {
    let mut limit = [0u64; 2];
    let arguments = [0, u64::from(resource), 0, limit.as_mut_ptr() as u64, 0, 0];
    kernel::call(libc::SYS_prlimit64 as u64, arguments);
    limit
}

fn set_limit(resource: u32, limit: [u64; 2]) -> bool {
    let arguments = [0, u64::from(resource), limit.as_ptr() as u64, 0, 0, 0];
    kernel::call(libc::SYS_prlimit64 as u64, arguments) == 0
}

fn raise(descriptor: i32) -> std::io::Result<i32> {
    let arguments = [descriptor as u64, libc::F_DUPFD_CLOEXEC as u64, floor(), 0, 0, 0];
    check(kernel::call(libc::SYS_fcntl as u64, arguments))
}

fn move_up(descriptor: i32) -> std::io::Result<i32> {
    let high = raise(descriptor);
    kernel::call(libc::SYS_close as u64, [descriptor as u64, 0, 0, 0, 0, 0]);
    high
}

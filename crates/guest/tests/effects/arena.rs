//! Memory for calls to write to, and the check of what they wrote.

use std::any::Any;
use std::ptr;

use guest::effects::{self, Call, Memory, Span};
use guest::syscall;

const SIZE: usize = 1 << 18;
const GUARD: usize = 1 << 16;
/// Between two pieces of memory lies this much that belongs to none.
const GAP: usize = 64;
const PATTERNS: [u8; 2] = [0xa5, 0x5a];
/// How a kernel says that it does not have a call, or not for everybody, or not on this file system.
const REFUSALS: [i32; 5] = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::ENOTTY];

/// One call with its circumstances.
pub struct Case {
    pub name: &'static str,
    pub about: &'static str,
    pub expect: Expect,
    /// Sets the scene and returns the arguments.
    pub arrange: fn(&mut Arena) -> [u64; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Writes,
    WritesNothing,
    /// Fails with this error and writes all the same.
    FailsWriting(i32),
    /// Fails with this error and writes nothing.
    Fails(i32),
    /// As `Writes`, where the kernel and the file system know the call and allow it.
    WritesIfAble,
    /// As `FailsWriting`, likewise.
    FailsWritingIfAble(i32),
}

pub const fn case(
    name: &'static str,
    about: &'static str,
    expect: Expect,
    arrange: fn(&mut Arena) -> [u64; 6],
) -> Case {
    Case { name, about, expect, arrange }
}

impl Case {
    pub fn run(&self) {
        let mut n_changed = 0;
        for pattern in PATTERNS {
            let mut arena = Arena::new(pattern);
            let arguments = (self.arrange)(&mut arena);
            match self.observe(&arena, arguments) {
                Some(n) => n_changed += n,
                None => return,
            }
        }
        let writes = !matches!(self.expect, Expect::WritesNothing | Expect::Fails(_));
        assert_eq!(n_changed > 0, writes, "{self}: {n_changed} bytes changed");
    }

    /// Makes the call and checks the report on it. Returns how many bytes it changed; `None` if it cannot be made here.
    fn observe(&self, arena: &Arena, arguments: [u64; 6]) -> Option<usize> {
        let number = self.number();
        let prepared = effects::prepare(number, &arguments, arena);
        let before = arena.contents();
        let result = raw_call(number, arguments);
        let after = arena.contents();
        if self.may_be_refused() && REFUSALS.contains(&-(result as i32)) {
            assert!(before == after, "{self}: refused and changed memory");
            return None;
        }
        self.check_result(result);
        let mut spans = Vec::new();
        let call = Call { number, arguments, result };
        let known = effects::of(&call, &prepared, arena, &mut |span| spans.push(span));
        assert_eq!(known, Ok(()), "{self}");
        assert!(self.expect != Expect::WritesNothing || spans.is_empty(), "{self}: {spans:x?}");
        for span in &spans {
            assert!(arena.owns(span), "{self}: {span:x?} is outside of {:x?}", arena.pieces);
        }
        let changed = (0..SIZE).filter(|&offset| before[offset] != after[offset]);
        Some(changed.inspect(|&offset| self.check_covered(arena, offset, &spans)).count())
    }

    fn check_result(&self, result: i64) {
        match self.expect {
            Expect::Writes | Expect::WritesNothing | Expect::WritesIfAble => {
                assert!(result >= 0, "{self}: {}", std::io::Error::from_raw_os_error(-result as i32))
            }
            Expect::FailsWriting(error) | Expect::FailsWritingIfAble(error) | Expect::Fails(error) => {
                assert_eq!(result, -i64::from(error), "{self}")
            }
        }
    }

    /// Whether the call need not exist on every kernel, or not for everybody.
    pub fn may_be_refused(&self) -> bool {
        matches!(self.expect, Expect::WritesIfAble | Expect::FailsWritingIfAble(_))
    }

    fn check_covered(&self, arena: &Arena, offset: usize, spans: &[Span]) {
        let address = arena.base + offset as u64;
        let is_covered = spans.iter().any(|span| (span.address..span.address + span.length).contains(&address));
        let piece = arena.pieces.iter().rfind(|piece| piece.address <= address);
        assert!(
            is_covered,
            "{self}: byte {} of {piece:x?} changed and was not reported",
            address - piece.map_or(arena.base, |piece| piece.address)
        );
    }

    fn number(&self) -> u64 {
        let syscall = syscall::all().iter().find(|syscall| syscall.name == self.name);
        syscall.unwrap_or_else(|| panic!("no call {}", self.name)).number.into()
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.about)
    }
}

/// Makes a system call and returns what the kernel returned. A child that it creates ends at once and is buried.
fn raw_call(number: u64, [a, b, c, d, e, f]: [u64; 6]) -> i64 {
    let is_fork = [libc::SYS_clone, libc::SYS_clone3].contains(&(number as i64));
    // SAFETY: the arguments come from a case, which points the kernel to memory of the arena alone.
    let result = unsafe { libc::syscall(number as i64, a, b, c, d, e, f) };
    if is_fork && result == 0 {
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(0) }
    }
    if is_fork && result > 0 {
        // SAFETY: waits for the child, which nobody else knows, and wants no answer.
        unsafe { libc::waitpid(result as i32, ptr::null_mut(), 0) };
    }
    if result == -1 { -i64::from(errno()) } else { result }
}

fn errno() -> i32 {
    // SAFETY: the location is that of the calling thread and always valid.
    unsafe { *libc::__errno_location() }
}

/// Filled memory followed by memory that cannot be touched, and whatever a case needs until its call is over.
pub struct Arena {
    base: u64,
    used: usize,
    pieces: Vec<Span>,
    kept: Vec<Box<dyn Any>>,
}

impl Arena {
    fn new(pattern: u8) -> Arena {
        // SAFETY: maps fresh memory, touches only that, and takes the access away from the end of it.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(ptr::null_mut(), SIZE + GUARD, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            base.cast::<u8>().write_bytes(pattern, SIZE);
            assert_eq!(libc::mprotect(base.byte_add(SIZE), GUARD, libc::PROT_NONE), 0);
            base as u64
        };
        Arena { base, used: GAP, pieces: Vec::new(), kept: Vec::new() }
    }

    /// Memory for the call to fill, aligned like a structure.
    pub fn room(&mut self, length: usize) -> u64 {
        let address = self.base + self.used as u64;
        self.pieces.push(Span { address, length: length as u64 });
        self.used += (length + GAP).next_multiple_of(16);
        assert!(self.used <= SIZE);
        address
    }

    /// Memory that is said to be `length` bytes long, of which only the first `able` can be touched.
    pub fn room_that_ends(&mut self, able: usize, length: usize) -> u64 {
        let address = self.base + (SIZE - able) as u64;
        self.pieces.push(Span { address, length: length as u64 });
        address
    }

    /// Memory that holds `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.room(bytes.len());
        // SAFETY: the room is writable, as long as `bytes`, and nobody else refers to it.
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        address
    }

    pub fn put_words(&mut self, words: &[u64]) -> u64 {
        self.put(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn put_int(&mut self, value: i32) -> u64 {
        self.put(&value.to_le_bytes())
    }

    /// A path or another string, with its end.
    pub fn put_string(&mut self, string: &str) -> u64 {
        self.put(&[string.as_bytes(), &[0]].concat())
    }

    /// Keeps something until the call is over and returns it, for its descriptor or the like.
    pub fn keep<T: 'static>(&mut self, thing: T) -> &T {
        self.kept.push(Box::new(thing));
        self.kept.last().and_then(|kept| kept.downcast_ref()).expect("was just put there")
    }

    fn contents(&self) -> Vec<u8> {
        let mut contents = vec![0; SIZE];
        assert!(self.read(self.base, &mut contents));
        contents
    }

    fn owns(&self, span: &Span) -> bool {
        self.pieces
            .iter()
            .any(|piece| piece.address <= span.address && span.address + span.length <= piece.address + piece.length)
    }
}

impl Memory for Arena {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let end = address.saturating_add(buffer.len() as u64);
        if address < self.base || end > self.base + SIZE as u64 {
            return false;
        }
        // SAFETY: all of the range lies in the mapping, which is readable, and no call is under way.
        unsafe { buffer.as_mut_ptr().copy_from_nonoverlapping(address as *const u8, buffer.len()) };
        true
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.kept.clear();
        // SAFETY: the mapping is this arena's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, SIZE + GUARD) };
    }
}

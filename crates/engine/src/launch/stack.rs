//! The main thread's stack: arguments, environment and auxiliary vector, as the ABI lays them out.

use crate::engine::Options;
use crate::kernel;
use crate::launch::LaunchError;
use crate::launch::files::Files;
use crate::launch::image::Loaded;
use crate::processor::Shown;
use crate::signals::frame::XState;
use crate::space::{GuestSpace, PAGE, Protection};
use sched::Rng;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

pub struct Stack {
    pub pointer: u64,
    pub range: Range<u64>,
    pub executable: bool,
}

const DEFAULT_SIZE: u64 = 8 << 20;
const LARGEST_SIZE: u64 = 1 << 30;
/// Room for the words themselves besides what the limit allows for calls.
const WORDS_SIZE: u64 = 1 << 20;
const PLATFORM: &[u8] = b"x86_64";

/// Maps and fills the stack.
pub fn build(space: &mut GuestSpace, files: &Files, loaded: &Loaded, options: &Options) -> Result<Stack, LaunchError> {
    let top = space.zones.stack_top;
    let size = size_limit() + WORDS_SIZE + words_length(files).next_multiple_of(PAGE);
    let executable = if files.program.image.executable_stack { libc::PROT_EXEC } else { 0 };
    let protection = (libc::PROT_READ | libc::PROT_WRITE | executable) as u32;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK | libc::MAP_FIXED_NOREPLACE;
    let arguments = [top - size, size, u64::from(protection), flags as u64, u64::MAX, 0];
    let result = kernel::call(libc::SYS_mmap as u64, arguments);
    if result as u64 != top - size {
        return Err(LaunchError::memory(std::io::Error::from_raw_os_error(-result as i32)));
    }
    space.insert(top - size..top, Protection(protection), None);
    let image = Image::new(files, loaded, options, top);
    kernel::write_bytes(image.start(), &image.bytes)
        .map_err(|_| LaunchError::memory(std::io::Error::from_raw_os_error(libc::ENOMEM)))?;
    let executable = files.program.image.executable_stack;
    Ok(Stack { pointer: image.start(), range: top - size..top, executable })
}

fn size_limit() -> u64 {
    let mut limit = [0u64; 2];
    let arguments = [0, libc::RLIMIT_STACK as u64, 0, limit.as_mut_ptr() as u64, 0, 0];
    if kernel::call(libc::SYS_prlimit64 as u64, arguments) != 0 {
        return DEFAULT_SIZE;
    }
    limit[0].clamp(PAGE * 16, LARGEST_SIZE).next_multiple_of(PAGE)
}

fn words_length(files: &Files) -> u64 {
    let words = files.arguments.iter().chain(&files.environment);
    words.map(|word| word.len() as u64 + 9).sum::<u64>() + 1024
}

/// The bytes at the top of the stack.
struct Image {
    top: u64,
    bytes: Vec<u8>,
}

impl Image {
    fn start(&self) -> u64 {
        self.top - self.bytes.len() as u64
    }

    fn new(files: &Files, loaded: &Loaded, options: &Options, top: u64) -> Image {
        // Strings first, from low to high, in the order the kernel has them; then the words go below.
        let mut strings = Vec::new();
        let mut offsets = Vec::new();
        let mut add = |bytes: &[u8], terminate: bool| {
            offsets.push(strings.len() as u64);
            strings.extend_from_slice(bytes);
            if terminate {
                strings.push(0);
            }
        };
        add(PLATFORM, true);
        add(&random_bytes(options.seed), false);
        for word in files.arguments.iter().chain(&files.environment) {
            add(word.as_bytes(), true);
        }
        add(files.path.as_bytes(), true);
        strings.extend_from_slice(&[0; 8]);
        let strings_start = (top - strings.len() as u64) & !15;
        let mut addresses = offsets.into_iter().map(|offset| strings_start + offset);
        let platform = addresses.next().unwrap_or(0);
        let random = addresses.next().unwrap_or(0);

        let mut words = vec![files.arguments.len() as u64];
        words.extend(addresses.by_ref().take(files.arguments.len()));
        words.push(0);
        words.extend(addresses.by_ref().take(files.environment.len()));
        words.push(0);
        let path = addresses.next().unwrap_or(0);
        for (kind, value) in auxiliary_vector(files, loaded, platform, random, path) {
            let value = as_shown(kind, value, options.shown);
            words.extend([kind, value]);
        }
        // The stack pointer is aligned at entry.
        if words.len() % 2 != 0 {
            words.push(0);
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&strings);
        bytes.resize(bytes.len() + (top - strings_start) as usize - strings.len(), 0);
        Image { top, bytes }
    }
}

fn random_bytes(seed: u64) -> [u8; 16] {
    let mut rng = Rng::new(seed);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&rng.draw().to_le_bytes());
    bytes[8..].copy_from_slice(&rng.draw().to_le_bytes());
    bytes
}

/// What the kernel tells a program about itself and the machine. There is no `AT_SYSINFO_EHDR`: clock reads become
/// system calls, which the engine sees.
fn auxiliary_vector(files: &Files, loaded: &Loaded, platform: u64, random: u64, path: u64) -> Vec<(u64, u64)> {
    let headers = files.program.image.program_headers;
    let own = |kind: u64| (kind, crate::startup::auxiliary_value(kind));
    vec![
        (libc::AT_PHDR, loaded.program_headers),
        (libc::AT_PHENT, u64::from(headers.entry_size)),
        (libc::AT_PHNUM, u64::from(headers.count)),
        (libc::AT_PAGESZ, PAGE),
        (libc::AT_BASE, loaded.loader_base),
        (libc::AT_FLAGS, 0),
        (libc::AT_ENTRY, loaded.entry),
        own(libc::AT_UID),
        own(libc::AT_EUID),
        own(libc::AT_GID),
        own(libc::AT_EGID),
        (libc::AT_PLATFORM, platform),
        own(libc::AT_HWCAP),
        own(libc::AT_CLKTCK),
        (libc::AT_SECURE, 0),
        (libc::AT_RANDOM, random),
        own(libc::AT_HWCAP2),
        own(libc::AT_MINSIGSTKSZ),
        (libc::AT_EXECFN, path),
        (libc::AT_NULL, 0),
    ]
}

/// An entry of the auxiliary vector as it is on the processor that the guest is shown.
fn as_shown(kind: u64, value: u64, shown: Option<Shown>) -> u64 {
    const HWCAP2_RING3_MWAIT: u64 = 1;
    let Some(shown) = shown.filter(|shown| shown.level.is_some()) else { return value };
    match kind {
        libc::AT_HWCAP2 => value & !HWCAP2_RING3_MWAIT,
        libc::AT_MINSIGSTKSZ => {
            let xstate = XState::find().showing(shown.components);
            value.saturating_sub((xstate.size - xstate.shown_size) as u64)
        }
        _ => value,
    }
}

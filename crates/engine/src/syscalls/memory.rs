//! Mappings: the engine chooses addresses, keeps its model of the space, and forgets code that went away.

use super::error;
use crate::context::Context;
use crate::engine::Engine;
use crate::faults;
use crate::journal::{self, write_down};
use crate::kernel::{self, Arguments};
use crate::space::{PAGE, Protection, Shared};
use crate::world::World;
use std::ops::Range;

/// Mappings up to this size go near the code cache if they may hold code.
const LARGEST_NEAR: u64 = 256 << 20;
const ADDRESS_END: u64 = 0x7fff_ffff_f000;

fn pages(start: u64, length: u64) -> Option<Range<u64>> {
    let end = start.checked_add(length)?.checked_next_multiple_of(PAGE)?;
    (length != 0 && end <= ADDRESS_END).then_some(start..end)
}

pub fn map(engine: &Engine, context: &Context, mut arguments: Arguments) -> i64 {
    let [hint, length, protection, flags, descriptor, _] = arguments;
    let mut world = engine.world();
    let has = |flag: i32| flags & flag as u64 != 0;
    let fixed = has(libc::MAP_FIXED) || has(libc::MAP_FIXED_NOREPLACE);
    let Some(wanted) = pages(hint & !(PAGE - 1), length) else {
        return kernel::call(libc::SYS_mmap as u64, arguments); // the kernel knows the right error
    };
    if fixed {
        if world.space.is_reserved(&wanted) {
            return error(if has(libc::MAP_FIXED_NOREPLACE) { libc::EEXIST } else { libc::ENOMEM });
        }
    } else {
        let length = wanted.end - wanted.start;
        let anonymous = has(libc::MAP_ANONYMOUS);
        let Some(place) = choose(&world, wanted, length, protection, flags, anonymous) else {
            return error(libc::ENOMEM);
        };
        arguments[0] = place;
        arguments[3] |= libc::MAP_FIXED_NOREPLACE as u64;
        if anonymous {
            arguments[4] = descriptor;
        }
    }
    let result = kernel::call(libc::SYS_mmap as u64, arguments);
    if result >= 0
        && let Some(range) = pages(result as u64, length)
    {
        let shared = (flags & 0xf != libc::MAP_PRIVATE as u64).then(|| shared_part(arguments, range.start));
        if shared.is_some() && protection & libc::PROT_EXEC as u64 != 0 {
            engine.note_shared_code();
        }
        let is_shared = shared.is_some();
        let length = range.end - range.start;
        world.add_mapping(range, Protection(protection as u32 & 7), shared);
        drop(world);
        let mapped = journal::mapped(context, result as u64, length, arguments);
        write_down(engine, |writing| {
            writing.journal().map(&mapped);
            if is_shared {
                writing.begin_sharing(mapped.file.is_none() || !Protection(mapped.protection & 7).writable());
            }
        });
        if engine.options.faults.is_some() {
            faults::look_at_mapping(engine, &mapped);
        }
    }
    result
}

/// What a shared mapping at `start` shows.
fn shared_part(arguments: Arguments, start: u64) -> Shared {
    let [_, _, _, flags, descriptor, offset] = arguments;
    let file = if flags & libc::MAP_ANONYMOUS as u64 == 0 { object_of(descriptor) } else { None };
    match file {
        Some(object) => Shared { object, origin: start.wrapping_sub(offset) },
        // An anonymous object has no other name than where it was first mapped.
        None => Shared { object: (Shared::ANONYMOUS, start), origin: start },
    }
}

/// Device and inode of an open file.
pub fn object_of(descriptor: u64) -> Option<(u64, u64)> {
    let mut status = [0u64; 18];
    let arguments = [descriptor, status.as_mut_ptr() as u64, 0, 0, 0, 0];
    (kernel::call(libc::SYS_fstat as u64, arguments) == 0).then_some((status[0], status[1]))
}

/// A call is about to change an object through its descriptor: code that was translated from it is void.
pub fn object_changes(engine: &Engine, descriptor: u64) {
    if !engine.has_shared_code() {
        return;
    }
    if let Some(object) = object_of(descriptor) {
        let mut world = engine.world();
        for code in world.space.code_of(object) {
            world.cache.invalidate(code);
        }
    }
}

/// Where a mapping goes whose place the guest leaves open.
fn choose(world: &World, hint: Range<u64>, length: u64, protection: u64, flags: u64, anonymous: bool) -> Option<u64> {
    let space = &world.space;
    let zones = space.zones;
    if hint.start >= PAGE * 16 && space.is_free(&hint) {
        return Some(hint.start);
    }
    if flags & libc::MAP_32BIT as u64 != 0 {
        return space.find_low(zones.low, length);
    }
    let code = protection & libc::PROT_EXEC as u64 != 0;
    let huge = flags & libc::MAP_HUGETLB as u64 != 0;
    if (code || !anonymous)
        && length <= LARGEST_NEAR
        && !huge
        && let Some(place) = space.find_high(zones.near, length, PAGE)
    {
        return Some(place);
    }
    // Aligned like the kernel aligns what transparent huge pages or huge-page mappings can back.
    let alignment = if huge || anonymous && length >= 2 << 20 { 2 << 20 } else { PAGE };
    space.find_place(length, alignment).or_else(|| space.find_place(length, PAGE))
}

pub fn unmap(engine: &Engine, arguments: Arguments) -> i64 {
    let mut world = engine.world();
    let Some(range) = pages(arguments[0], arguments[1]) else {
        return kernel::call(libc::SYS_munmap as u64, arguments);
    };
    if world.space.is_reserved(&range) {
        return 0; // as far as the guest knows, nothing is there
    }
    let result = kernel::call(libc::SYS_munmap as u64, arguments);
    if result == 0 {
        world.mapping_changed(range.clone());
        world.space.remove(range);
    }
    result
}

pub fn protect(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    let mut world = engine.world();
    let range = pages(arguments[0], arguments[1]);
    if range.as_ref().is_some_and(|range| world.space.is_reserved(range)) {
        return error(libc::ENOMEM);
    }
    let result = kernel::call(number, arguments);
    if result == 0
        && let Some(range) = range
    {
        world.protect_mapping(range, Protection(arguments[2] as u32 & 7));
    }
    result
}

pub fn remap(engine: &Engine, mut arguments: Arguments) -> i64 {
    let [old, old_length, new_length, flags, new_address, _] = arguments;
    let mut world = engine.world();
    let Some((_, mapping)) = world.space.find(old) else {
        return error(libc::EFAULT);
    };
    let (Some(old_range), Some(grown)) = (pages(old, old_length.max(1)), pages(old, new_length)) else {
        return kernel::call(libc::SYS_mremap as u64, arguments);
    };
    let fixed = flags & libc::MREMAP_FIXED as u64 != 0;
    let touches_engine = |range: Option<Range<u64>>| range.is_some_and(|range| world.space.is_reserved(&range));
    if touches_engine(Some(old_range.clone())) || fixed && touches_engine(pages(new_address, new_length)) {
        return error(libc::EINVAL);
    }
    let fits = grown.end <= old_range.end || world.space.is_free(&(old_range.end..grown.end));
    if !fixed && (!fits || flags & libc::MREMAP_DONTUNMAP as u64 != 0) {
        if flags & libc::MREMAP_MAYMOVE as u64 == 0 {
            return error(libc::ENOMEM);
        }
        let length = grown.end - grown.start;
        let Some(place) = world.space.find_place(length, PAGE) else {
            return error(libc::ENOMEM);
        };
        arguments[3] |= libc::MREMAP_FIXED as u64;
        arguments[4] = place;
    }
    let result = kernel::call(libc::SYS_mremap as u64, arguments);
    if result >= 0 {
        world.mapping_changed(old_range.clone());
        if old_length != 0 && flags & libc::MREMAP_DONTUNMAP as u64 == 0 {
            world.space.remove(old_range);
        }
        if let Some(range) = pages(result as u64, new_length) {
            let moved =
                |shared: Shared| Shared { origin: shared.origin.wrapping_add(range.start.wrapping_sub(old)), ..shared };
            world.add_mapping(range.clone(), mapping.protection, mapping.shared.map(moved));
        }
    }
    result
}

/// The program break, kept by the engine: the kernel's own belongs to the engine's C library.
pub fn program_break(engine: &Engine, wanted: u64) -> i64 {
    let mut world = engine.world();
    let (start, limit) = world.space.zones.heap;
    let current = world.space.heap_end;
    if wanted < start || wanted > limit || over_data_limit(wanted - start) {
        return current as i64;
    }
    let old_page = current.next_multiple_of(PAGE);
    let new_page = wanted.next_multiple_of(PAGE);
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    if new_page > old_page {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let arguments = [old_page, new_page - old_page, protection, flags, u64::MAX, 0];
        if kernel::call(libc::SYS_mmap as u64, arguments) < 0 {
            return current as i64;
        }
        world.space.insert(old_page..new_page, Protection(protection as u32), None);
    } else if new_page < old_page {
        kernel::call(libc::SYS_munmap as u64, [new_page, old_page - new_page, 0, 0, 0, 0]);
        world.mapping_changed(new_page..old_page);
        world.space.remove(new_page..old_page);
    }
    world.space.heap_end = wanted;
    wanted as i64
}

fn over_data_limit(size: u64) -> bool {
    let mut limit = [0u64; 2];
    kernel::call(libc::SYS_prlimit64 as u64, [0, libc::RLIMIT_DATA as u64, 0, limit.as_mut_ptr() as u64, 0, 0]);
    size > limit[0]
}

/// Shared memory of System V: mapped where the engine chooses.
pub fn attach(engine: &Engine, context: &Context, mut arguments: Arguments) -> i64 {
    let [id, address, flags, ..] = arguments;
    let mut world = engine.world();
    let mut description = [0u64; 16];
    let status =
        kernel::call(libc::SYS_shmctl as u64, [id, libc::IPC_STAT as u64, description.as_mut_ptr() as u64, 0, 0, 0]);
    // The segment's size follows the 48 bytes of its permissions.
    let size = description[6];
    let Some(length) = pages(0, size).map(|range| range.end).filter(|_| status >= 0) else {
        return kernel::call(libc::SYS_shmat as u64, arguments);
    };
    if address == 0 {
        let Some(place) = world.space.find_place(length, PAGE) else {
            return error(libc::ENOMEM);
        };
        arguments[1] = place;
    } else if world.space.is_reserved(&(address..address + length)) {
        return error(libc::EINVAL);
    }
    let result = kernel::call(libc::SYS_shmat as u64, arguments);
    if result >= 0 {
        let read_only = flags & libc::SHM_RDONLY as u64 != 0;
        let mut protection = if read_only { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
        if flags & libc::SHM_EXEC as u64 != 0 {
            protection |= libc::PROT_EXEC;
        }
        let range = result as u64..result as u64 + length;
        let shared = Shared { object: (u64::MAX - 1, id), origin: range.start };
        world.add_mapping(range, Protection(protection as u32), Some(shared));
        drop(world);
        write_down(engine, |writing| {
            let shared = [0, 0, protection as u64, (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64, 0, 0];
            writing.attached(&journal::mapped(context, result as u64, length, shared), id);
        });
    }
    result
}

/// Unmaps what stands for shared memory in a replay.
pub fn detach_copy(engine: &Engine, address: u64) -> i64 {
    let found = engine.world().space.find(address);
    match found {
        Some((start, mapping)) => unmap(engine, [start, mapping.end - start, 0, 0, 0, 0]),
        None => error(libc::EINVAL),
    }
}

pub fn detach(engine: &Engine, arguments: Arguments) -> i64 {
    let mut world = engine.world();
    let result = kernel::call(libc::SYS_shmdt as u64, arguments);
    if result == 0
        && let Some((start, mapping)) = world.space.find(arguments[0])
    {
        world.mapping_changed(start..mapping.end);
        world.space.remove(start..mapping.end);
    }
    result
}

pub fn advise(engine: &Engine, number: u64, arguments: Arguments) -> i64 {
    let [address, length, mut advice, ..] = arguments;
    let taped = engine.writing().is_some() || engine.replaying().is_some();
    if taped && advice == libc::MADV_FREE as u64 {
        // When the kernel takes such pages is its own affair; at once is one of the possible times.
        advice = libc::MADV_DONTNEED as u64;
    }
    let mut world = engine.world();
    let range = pages(address, length);
    if range.as_ref().is_some_and(|range| world.space.is_reserved(range)) {
        return error(libc::ENOMEM);
    }
    let discards = [libc::MADV_DONTNEED, libc::MADV_REMOVE, libc::MADV_FREE].contains(&(advice as i32));
    if discards && let Some(range) = range {
        world.space.note_change(range.clone());
        world.cache.invalidate(range);
    }
    kernel::call(number, [address, length, advice, 0, 0, 0])
}

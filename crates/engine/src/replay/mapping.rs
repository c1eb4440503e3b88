//! Memory of the guest that the recording says was mapped.

use super::machine::Machine;
use crate::engine::Engine;
use crate::kernel;
use crate::space::{GuestSpace, PAGE, Protection, Shared};
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use trace::event::{Change, Map};

impl Machine {
    pub fn map(&mut self, engine: &Engine, map: &Map<'_>) -> Result<(), String> {
        let end = map.address.checked_add(map.length).and_then(|end| end.checked_next_multiple_of(PAGE));
        let end = end.ok_or_else(|| format!("memory at {:#x} cannot be mapped", map.address))?;
        let (protection, address) = (u64::from(map.protection), map.address);
        let file = match (map.content, map.file) {
            (None, Some(part)) => Some((self.files.open(part.id)?, part.offset)),
            // What is written through one mapping of a shared file shows in all others.
            (Some(content), Some(part)) if map.flags & libc::MAP_SHARED as u32 != 0 => {
                Some((self.shared_file(part.id, part.offset, content)?, part.offset))
            }
            // Behind the end of a file there is no memory, which only another file can show.
            (Some(content), _) => Some((memory_file(content)?, 0)),
            _ => None,
        };
        // Without a file there is nobody to share with: processes are replayed one by one.
        let shares = map.content.is_some() && map.file.is_some() && map.flags & libc::MAP_SHARED as u32 != 0;
        let kind = if shares { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let fixed = (kind | libc::MAP_FIXED) as u64;
        let anonymous = fixed | (libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
        let arguments = match &file {
            Some((file, offset)) => [address, map.length, protection, fixed, file.as_raw_fd() as u64, *offset],
            None => [address, map.length, protection, anonymous, u64::MAX, 0],
        };
        if engine.world().space.is_reserved(&(address..end))
            || kernel::call(libc::SYS_mmap as u64, arguments) as u64 != address
        {
            return Err(format!("memory at {address:#x} cannot be mapped"));
        }
        let shown = map
            .file
            .filter(|_| shares)
            .map(|part| Shared { object: object_of(part.id), origin: address.wrapping_sub(part.offset) });
        if shown.is_some() && map.protection & libc::PROT_EXEC as u32 != 0 {
            engine.note_shared_code();
        }
        engine.world().add_mapping(address..end, Protection(map.protection & 7), shown);
        Ok(())
    }

    /// A call of the guest's has changed a file that is mapped shared.
    pub fn change_file(&mut self, engine: &Engine, change: &Change<'_>) {
        let Some(file) = self.shared.get(&change.file) else { return };
        // What cannot be changed shows as a divergence, if anybody looks.
        let _ = file.set_len(change.size).and_then(|()| file.write_all_at(change.bytes, change.offset));
        let mut world = engine.world();
        for code in world.space.code_of(object_of(change.file)) {
            world.cache.invalidate(code);
        }
    }

    /// Stands for a file that is mapped shared; `content` is what it holds from `offset` on.
    fn shared_file(&mut self, id: u32, offset: u64, content: &[u8]) -> Result<OwnedFd, String> {
        let problem = |error: std::io::Error| format!("no memory for a mapped file: {error}");
        let file = match self.shared.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::from(kernel::new_memory_file().map_err(problem)?)),
        };
        file.write_all_at(content, offset).map_err(problem)?;
        file.try_clone().map(OwnedFd::from).map_err(problem)
    }
}

impl Machine {
    /// Takes copies of what stands for files that are mapped shared, in place of the originals.
    pub fn copy_shared_files(&mut self) -> Result<Vec<Copied>, String> {
        let problem = |error: std::io::Error| format!("no memory for a mapped file: {error}");
        let mut copies = Vec::new();
        for (&id, file) in &mut self.shared {
            let length = file.metadata().map_err(problem)?.len();
            let mut content = vec![0; length as usize];
            file.read_exact_at(&mut content, 0).map_err(problem)?;
            *file = File::from(memory_file(&content)?);
            copies.push(Copied { object: object_of(id), file: file.try_clone().map_err(problem)? });
        }
        Ok(copies)
    }
}

/// A copy of a file that is mapped shared.
pub struct Copied {
    object: (u64, u64),
    file: File,
}

impl Copied {
    /// Shows the copy wherever the original is mapped.
    pub fn show(&self, space: &GuestSpace) -> Result<(), String> {
        for (start, mapping) in space.views_of(self.object) {
            let offset = mapping.shared.map_or(0, |shared| start.wrapping_sub(shared.origin));
            let (length, protection) = (mapping.end - start, u64::from(mapping.protection.0));
            let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
            let arguments = [start, length, protection, flags, self.file.as_raw_fd() as u64, offset];
            if kernel::call(libc::SYS_mmap as u64, arguments) as u64 != start {
                return Err(format!("memory at {start:#x} cannot be mapped"));
            }
        }
        Ok(())
    }
}

/// What the model of the address space calls a file of the recording.
fn object_of(file: u32) -> (u64, u64) {
    (u64::MAX, u64::from(file))
}

/// A file in memory.
fn memory_file(content: &[u8]) -> Result<OwnedFd, String> {
    let problem = |error: std::io::Error| format!("no memory for a mapped file: {error}");
    let file = kernel::new_memory_file().map_err(problem)?;
    let mut file = File::from(file);
    file.write_all(content).map_err(problem)?;
    Ok(file.into())
}

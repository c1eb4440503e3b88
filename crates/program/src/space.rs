//! Which file lies where in a program's memory.
//!
//! The loader places a file by its load segments, each at a fixed distance (the *bias*) from where the file says it
//! wants to be. The bias is all that is needed to go from an address in memory to one that symbols and debug
//! information speak of:
//!
//! ```text
//!   file      0x0000 headers   0x1000 code   0x3db0 data          addresses as the file states them
//!   memory    0x5555_5555_4000 + the same                         bias 0x5555_5555_4000; 0 for a fixed-address program
//! ```

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::call_frames::CallFrames;
use crate::copies::Copies;
use crate::debug_file::{self, DebugFile};
use crate::elf::{self, Image, Segment};
pub use crate::maps::parse_maps;

/// An address as the running program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestAddress(pub u64);

/// An address as an ELF file states it, before the file is loaded anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileVma(pub u64);

/// The position of a module in [`AddressSpace::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleIdx(usize);

/// A range of memory with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    /// The first address past the mapping.
    pub end: u64,
    /// The place in the file that `start` shows; 0 without a file.
    pub offset: u64,
    pub executable: bool,
    /// The file; or the kernel's name for memory without one, in brackets: `[stack]`.
    pub path: Option<PathBuf>,
}

impl Mapping {
    fn file(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| path.is_absolute())
    }
}

/// A loaded ELF file: a program, its interpreter, or a shared library.
#[derive(Debug)]
pub struct Module {
    /// What the file is called, and where its debug files are looked for.
    pub path: PathBuf,
    /// Where its bytes are.
    place: PathBuf,
    copies: Arc<Copies>,
    pub start: u64,
    pub end: u64,
    /// Memory address minus file address, modulo 2^64.
    pub bias: u64,
    image: OnceLock<Option<Arc<Image>>>,
    debug_file: OnceLock<Option<DebugFile>>,
    shared_debug_file: OnceLock<Option<DebugFile>>,
    call_frames: OnceLock<CallFrames>,
}

impl Module {
    fn new(place: PathBuf, range: Range<u64>, bias: u64, copies: Arc<Copies>) -> Module {
        Module {
            path: copies.original(&place).to_owned(),
            place,
            copies,
            start: range.start,
            end: range.end,
            bias,
            image: OnceLock::new(),
            debug_file: OnceLock::new(),
            shared_debug_file: OnceLock::new(),
            call_frames: OnceLock::new(),
        }
    }

    /// A file that lies nowhere in memory.
    pub(crate) fn unloaded(path: &Path, place: &Path) -> Module {
        let mut copies = Copies::default();
        copies.add_loaded(path.to_owned(), place.to_owned());
        Module::new(place.to_owned(), 0..0, 0, Arc::new(copies))
    }

    /// Whether it is the same file in the same place.
    fn lies_like(&self, other: &Module) -> bool {
        let place = |module: &Module| (module.start, module.end, module.bias);
        place(self) == place(other) && self.place == other.place && self.path == other.path
    }

    pub fn file_vma(&self, address: GuestAddress) -> FileVma {
        FileVma(address.0.wrapping_sub(self.bias))
    }

    pub fn guest_address(&self, address: FileVma) -> GuestAddress {
        GuestAddress(address.0.wrapping_add(self.bias))
    }

    /// The file's name without its folder.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// The file itself, read on first use.
    pub(crate) fn image(&self) -> Option<&Arc<Image>> {
        self.image.get_or_init(|| Image::read(&self.place).map(Arc::new)).as_ref()
    }

    /// The file that holds the debug information: the module's own, or the one that it points to.
    pub(crate) fn debug_image(&self) -> Option<&Arc<Image>> {
        self.debug_file().map(|file| &file.image)
    }

    /// What the module's debug information has in common with that of others.
    pub(crate) fn shared_debug_image(&self) -> Option<&Arc<Image>> {
        self.shared_debug_file().map(|file| &file.image)
    }

    /// All files with debug information but the module's own.
    pub(crate) fn debug_files(&self) -> impl Iterator<Item = &Path> {
        let files = [self.debug_file(), self.shared_debug_file()].into_iter().flatten();
        files.map(|file| file.path.as_path()).filter(|path| *path != self.path)
    }

    fn debug_file(&self) -> Option<&DebugFile> {
        let find = || {
            let image = self.image()?;
            let own = || DebugFile { path: self.path.clone(), image: Arc::clone(image) };
            Some(debug_file::find(&self.path, image, &self.copies).unwrap_or_else(own))
        };
        self.debug_file.get_or_init(find).as_ref()
    }

    fn shared_debug_file(&self) -> Option<&DebugFile> {
        let find = || debug_file::find_shared(self.debug_file()?, &self.copies);
        self.shared_debug_file.get_or_init(find).as_ref()
    }

    pub(crate) fn call_frames(&self) -> &CallFrames {
        let load = || self.image().map(|image| CallFrames::load(image)).unwrap_or_default();
        self.call_frames.get_or_init(load)
    }
}

/// A program's memory map. Clones share what has been read from files.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// Sorted by address.
    mappings: Arc<[Mapping]>,
    /// Sorted by `start`.
    modules: Arc<[Module]>,
}

impl AddressSpace {
    /// Reads the program headers of every file with an executable mapping.
    pub fn new(mappings: Vec<Mapping>) -> AddressSpace {
        AddressSpace::with_copies(mappings, &Arc::default())
    }

    /// As [`AddressSpace::new`], with mappings that may be of copies, and copies in place of debug files.
    pub fn with_copies(mut mappings: Vec<Mapping>, copies: &Arc<Copies>) -> AddressSpace {
        mappings.sort_by_key(|mapping| mapping.start);
        let into_module = |group: Group| group.into_module(&mappings, copies);
        let modules: Vec<Module> = group(&mappings).into_iter().map(into_module).collect();
        AddressSpace { modules: modules.into(), mappings: mappings.into() }
    }

    /// The same memory, with what has been read from files for another one if the same files lie in the same places there.
    pub fn sharing(self, other: &AddressSpace) -> AddressSpace {
        let is_same = |(one, other): (&Module, &Module)| one.lies_like(other);
        let are_same =
            self.modules.len() == other.modules.len() && self.modules.iter().zip(&*other.modules).all(is_same);
        AddressSpace { modules: if are_same { Arc::clone(&other.modules) } else { self.modules }, ..self }
    }

    /// Whether what has been read from files is the other's, too.
    pub fn shares_with(&self, other: &AddressSpace) -> bool {
        Arc::ptr_eq(&self.modules, &other.modules)
    }

    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    pub fn modules(&self) -> impl Iterator<Item = (ModuleIdx, &Module)> {
        self.modules.iter().enumerate().map(|(position, module)| (ModuleIdx(position), module))
    }

    pub fn module(&self, module_idx: ModuleIdx) -> &Module {
        &self.modules[module_idx.0]
    }

    /// The module that an address belongs to, its zero-initialised data included.
    pub fn locate(&self, address: GuestAddress) -> Option<(ModuleIdx, FileVma)> {
        let position = self.modules.partition_point(|module| module.start <= address.0).checked_sub(1)?;
        let module = &self.modules[position];
        (address.0 < module.end).then(|| (ModuleIdx(position), module.file_vma(address)))
    }

    pub fn mapping_at(&self, address: GuestAddress) -> Option<&Mapping> {
        let position = self.mappings.partition_point(|mapping| mapping.start <= address.0).checked_sub(1)?;
        Some(&self.mappings[position]).filter(|mapping| address.0 < mapping.end)
    }

    pub fn is_executable(&self, address: GuestAddress) -> bool {
        self.mapping_at(address).is_some_and(|mapping| mapping.executable)
    }
}

/// Mappings of one file that share a bias.
struct Group {
    path: PathBuf,
    /// Empty if the file cannot be read as ELF.
    segments: Vec<Segment>,
    bias: u64,
    range: Range<u64>,
    /// A file without executable memory was mapped for its data, not loaded.
    executable: bool,
}

impl Group {
    fn accepts(&self, mapping: &Mapping) -> bool {
        let same_bias = self.segments.is_empty() || biases(&self.segments, mapping).contains(&self.bias);
        mapping.file() == Some(&self.path) && same_bias
    }

    fn include(&mut self, mapping: &Mapping) {
        self.range.end = self.range.end.max(mapping.end);
        self.executable |= mapping.executable;
    }

    /// Zeroed data lies in memory without a file behind the last mapping: it belongs to the module as far as the
    /// segments say, but never beyond the next thing that has a name (the segments of a damaged file say anything).
    fn into_module(self, mappings: &[Mapping], copies: &Arc<Copies>) -> Module {
        let stated = self.segments.iter().map(|segment| segment.end().wrapping_add(self.bias)).max();
        let named = mappings.iter().filter(|mapping| mapping.path.is_some());
        let limit = named.map(|mapping| mapping.start).find(|start| *start >= self.range.end);
        let end = stated.unwrap_or(0).min(limit.unwrap_or(u64::MAX)).max(self.range.end);
        Module::new(self.path, self.range.start..end, self.bias, Arc::clone(copies))
    }
}

/// Every bias under which the loader could have made this mapping, the likeliest first: data and code can share a page
/// of the file, and then only the access rights tell whose mapping it is.
fn biases(segments: &[Segment], mapping: &Mapping) -> Vec<u64> {
    let (mut likely, unlikely): (Vec<&Segment>, Vec<&Segment>) =
        segments.iter().partition(|segment| segment.executable == mapping.executable);
    likely.extend(unlikely);
    let pages = likely.into_iter().filter_map(|segment| segment.address_of_page(mapping.offset));
    pages.map(|page| mapping.start.wrapping_sub(page)).collect()
}

/// The loaded files among the mappings, which are sorted.
fn group(mappings: &[Mapping]) -> Vec<Group> {
    let executable = mappings.iter().filter(|mapping| mapping.executable);
    let loaded: BTreeSet<&Path> = executable.filter_map(Mapping::file).collect();
    let mut groups: Vec<Group> = Vec::new();
    for mapping in mappings {
        let Some(path) = mapping.file().filter(|path| loaded.contains(path)) else {
            continue;
        };
        match groups.iter_mut().rev().find(|group| group.accepts(mapping)) {
            Some(group) => group.include(mapping),
            None => groups.push(new_group(path, mapping)),
        }
    }
    groups.retain(|group| group.executable);
    groups
}

fn new_group(path: &Path, mapping: &Mapping) -> Group {
    let segments = elf::read_segments(path).unwrap_or_default();
    // Of a file that is gone, the common layout is assumed: addresses equal to file offsets.
    let assumed = mapping.start.wrapping_sub(mapping.offset);
    Group {
        path: path.to_owned(),
        bias: biases(&segments, mapping).first().copied().unwrap_or(assumed),
        segments,
        range: mapping.start..mapping.end,
        executable: mapping.executable,
    }
}

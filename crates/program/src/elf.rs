//! ELF files on disk or in memory: their load segments, sections and identity.
//!
//! An [`Image`] keeps the bytes and parses the headers anew for every question; that is cheap next to what the answers
//! cost, and needs no borrowing from itself.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use gimli::{EndianArcSlice, LittleEndian};
use object::elf::{FileHeader64, PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{CompressionFormat, Object, ObjectSection, ReadCache, ReadRef};

/// A share in a file's bytes, or in a decompressed section's.
pub(crate) type Bytes = EndianArcSlice<LittleEndian>;

type Header = FileHeader64<object::LittleEndian>;

const PAGE: u64 = 4096;

/// A `PT_LOAD` program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub file_offset: u64,
    pub file_size: u64,
    pub address: u64,
    pub memory_size: u64,
    pub executable: bool,
}

impl Segment {
    /// The address that the byte at `file_offset` has in the file's own numbering, if a mapping that starts at
    /// `file_offset` can belong to this segment. The loader maps whole pages, so neighbours can share a page of the file.
    pub fn address_of_page(&self, file_offset: u64) -> Option<u64> {
        let first = self.file_offset / PAGE * PAGE;
        let past = self.file_offset.checked_add(self.file_size)?.checked_next_multiple_of(PAGE)?;
        (first..past).contains(&file_offset).then(|| (self.address / PAGE * PAGE).wrapping_add(file_offset - first))
    }

    /// The end of the last page of the segment in memory, with the zeroed part that has no bytes in the file.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.memory_size).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
    }
}

/// Reads only the headers of the file at `path`. `None` if it is no x86-64 style ELF file.
pub(crate) fn read_segments(path: &Path) -> Option<Vec<Segment>> {
    let cache = ReadCache::new(open_regular(path)?);
    segments_in(&cache)
}

/// Devices can be mapped too, and opening one may do something; only plain files are opened.
fn open_regular(path: &Path) -> Option<File> {
    std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
    File::open(path).ok()
}

fn segments_in<'data>(data: impl ReadRef<'data>) -> Option<Vec<Segment>> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let program_headers = header.program_headers(endian, data).ok()?;
    let load = program_headers.iter().filter(|program_header| program_header.p_type(endian) == PT_LOAD);
    Some(
        load.map(|program_header| Segment {
            file_offset: program_header.p_offset(endian),
            file_size: program_header.p_filesz(endian),
            address: program_header.p_vaddr(endian),
            memory_size: program_header.p_memsz(endian),
            executable: program_header.p_flags(endian).contains(PF_X),
        })
        .collect(),
    )
}

/// A section's bytes, decompressed, and its address in the file's own numbering.
#[derive(Clone, Debug)]
pub(crate) struct SectionBytes {
    pub address: u64,
    pub bytes: Bytes,
}

/// A whole ELF file.
#[derive(Debug)]
pub(crate) struct Image {
    bytes: Bytes,
}

impl Image {
    pub fn read(path: &Path) -> Option<Image> {
        open_regular(path)?;
        Image::new(std::fs::read(path).ok()?)
    }

    pub fn new(bytes: Vec<u8>) -> Option<Image> {
        let image = Image { bytes: Bytes::new(Arc::from(bytes), LittleEndian) };
        image.file().is_some().then_some(image)
    }

    pub fn data(&self) -> &[u8] {
        self.bytes.bytes()
    }

    pub fn file(&self) -> Option<ElfFile64<'_, object::LittleEndian>> {
        ElfFile64::parse(self.data()).ok()
    }

    pub fn segments(&self) -> Vec<Segment> {
        segments_in(self.data()).unwrap_or_default()
    }

    /// A section that has bytes in this file; in a separate debug file most have none.
    pub fn section(&self, name: &str) -> Option<SectionBytes> {
        let file = self.file()?;
        let section = file.section_by_name(name)?;
        let range = section.compressed_file_range().ok()?;
        let bytes = match range.format {
            CompressionFormat::None => self.range(range.offset, range.compressed_size)?,
            _ => Bytes::new(Arc::from(section.uncompressed_data().ok()?.as_ref()), LittleEndian),
        };
        (!bytes.bytes().is_empty()).then(|| SectionBytes { address: section.address(), bytes })
    }

    /// The bytes that the `PT_GNU_EH_FRAME` program header names: the only way to the unwinding rules in a file whose
    /// section headers have been cut off.
    pub fn frame_header(&self) -> Option<SectionBytes> {
        let header = Header::parse(self.data()).ok()?;
        let endian = header.endian().ok()?;
        let program_headers = header.program_headers(endian, self.data()).ok()?;
        let found = program_headers.iter().find(|candidate| candidate.p_type(endian) == PT_GNU_EH_FRAME)?;
        let bytes = self.range(found.p_offset(endian), found.p_filesz(endian))?;
        Some(SectionBytes { address: found.p_vaddr(endian), bytes })
    }

    /// Everything from `address` to the end of its segment's bytes in the file.
    pub fn tail_of_segment(&self, address: u64) -> Option<SectionBytes> {
        let segments = self.segments();
        let inside = |segment: &&Segment| segment.address <= address && address - segment.address < segment.file_size;
        let segment = segments.iter().find(inside)?;
        let skipped = address - segment.address;
        let bytes = self.range(segment.file_offset.checked_add(skipped)?, segment.file_size - skipped)?;
        Some(SectionBytes { address, bytes })
    }

    fn range(&self, offset: u64, size: u64) -> Option<Bytes> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        (end <= self.data().len()).then(|| self.bytes.range(start..end))
    }
}

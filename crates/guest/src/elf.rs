//! What a loader needs to know of an ELF file, read as the kernel's own loader reads it.
//!
//! Owns the file header and the program headers; sections, symbols and dynamic entries are somebody else's subject.
//! The file is untrusted: every number in it is checked before use, so that a loader may add, round and map what an
//! [`Image`] says without checking again. What passes here and what does not follows Linux's `binfmt_elf`, with one
//! exception: a segment whose bytes lie beyond the end of the file is refused here, where Linux would map it and
//! raise SIGBUS at the first touch.

mod unfit;

#[cfg(test)]
mod tests;

pub use unfit::Unfit;

use std::io;

/// Size of the pages that segments are mapped in.
pub const PAGE_SIZE: u64 = 4096;
/// First address that no 47-bit program can own.
pub const ADDRESS_LIMIT: u64 = 0x7fff_ffff_f000;

const HEADER_SIZE: usize = 64;
const PROGRAM_HEADER_SIZE: usize = 56;
/// The kernel refuses larger tables.
const PROGRAM_HEADERS_LIMIT: usize = 65536;
/// `PATH_MAX`: the longest interpreter path with its final NUL.
const INTERPRETER_LIMIT: u64 = 4096;

const CLASS_32_BIT: u8 = 1;
const DATA_BIG_ENDIAN: u8 = 2;
const TYPE_FIXED: u16 = 2;
const TYPE_RELOCATABLE: u16 = 3;
const MACHINE_386: u16 = 3;
const MACHINE_X86_64: u16 = 62;

const SEGMENT_LOAD: u32 = 1;
const SEGMENT_INTERPRETER: u32 = 3;
const SEGMENT_PROGRAM_HEADERS: u32 = 6;
const SEGMENT_GNU_STACK: u32 = 0x6474_e551;

const FLAG_EXECUTABLE: u32 = 1;
const FLAG_WRITABLE: u32 = 2;
const FLAG_READABLE: u32 = 4;

/// Where the bytes of a file come from.
pub trait ReadAt {
    /// Length of the file in bytes.
    fn size(&self) -> u64;

    /// Fills all of `buffer` from `offset` on, or fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = self.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// A program as its file states it. Addresses are the file's own: a [`Placement::Relocatable`] program runs with a
/// load bias added to each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// First instruction. Not checked to lie in a segment: such a program starts, and dies at once.
    pub entry: u64,
    pub placement: Placement,
    /// Never empty; sorted by `vaddr`. No byte belongs to two of them, but two may share a page, where the later one
    /// is mapped over the earlier one.
    pub segments: Vec<Segment>,
    /// Path of the dynamic loader, without its final NUL.
    pub interpreter: Option<Vec<u8>>,
    pub program_headers: ProgramHeaders,
    /// The program asks for a stack that code may run on. A file that does not say gets none, as on Linux since 5.8.
    pub executable_stack: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Runs only at the addresses in the file.
    Fixed,
    /// Runs at any page: a position-independent program or a shared object.
    Relocatable,
}

/// One `PT_LOAD` header. `vaddr..vaddr + memory_size` lies below [`ADDRESS_LIMIT`], `file_size` is at most
/// `memory_size`, and if it is not zero, `vaddr` and `file_offset` agree in their place within a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub vaddr: u64,
    pub file_offset: u64,
    pub file_size: u64,
    /// Never zero.
    pub memory_size: u64,
    /// A power of two, at least [`PAGE_SIZE`].
    pub align: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// What the auxiliary vector tells the program of its own headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramHeaders {
    /// Where they are once loaded, if they are loaded at all.
    pub vaddr: Option<u64>,
    pub entry_size: u16,
    pub count: u16,
}

impl Image {
    /// Start of the lowest page and end of the highest page that any segment needs.
    pub fn span(&self) -> (u64, u64) {
        let lowest = self.segments.iter().map(|segment| segment.vaddr).min().unwrap_or(0);
        let highest = self.segments.iter().map(Segment::end).max().unwrap_or(0);
        (lowest & !(PAGE_SIZE - 1), highest.next_multiple_of(PAGE_SIZE))
    }
}

impl Segment {
    /// First address after the segment.
    pub fn end(&self) -> u64 {
        self.vaddr + self.memory_size
    }
}

/// Reads the headers of `file`.
pub fn parse(file: &dyn ReadAt) -> Result<Image, Unfit> {
    let header = FileHeader::read(file)?;
    let raw_headers = read_program_headers(file, &header)?;

    let mut segments = Vec::new();
    let mut interpreter = None;
    let mut stated_headers_vaddr = None;
    let mut executable_stack = false;
    for raw in &raw_headers {
        match raw.kind {
            SEGMENT_LOAD if raw.memory_size == 0 && raw.file_size == 0 => {}
            SEGMENT_LOAD => segments.push(raw.to_segment(file.size())?),
            SEGMENT_INTERPRETER if interpreter.is_none() => {
                interpreter = Some(read_interpreter(file, raw)?);
            }
            SEGMENT_PROGRAM_HEADERS => stated_headers_vaddr = Some(raw.vaddr),
            SEGMENT_GNU_STACK => executable_stack = raw.flags & FLAG_EXECUTABLE != 0,
            _ => {}
        }
    }
    segments.sort_by_key(|segment| segment.vaddr);
    check_layout(&segments)?;

    Ok(Image {
        entry: header.entry,
        placement: header.placement,
        program_headers: ProgramHeaders {
            vaddr: loaded_address(&segments, header.headers_offset).or(stated_headers_vaddr),
            entry_size: PROGRAM_HEADER_SIZE as u16,
            count: header.n_headers,
        },
        segments,
        interpreter,
        executable_stack,
    })
}

struct FileHeader {
    placement: Placement,
    entry: u64,
    headers_offset: u64,
    n_headers: u16,
}

impl FileHeader {
    fn read(file: &dyn ReadAt) -> Result<FileHeader, Unfit> {
        let mut magic = [0; 4];
        if file.size() < magic.len() as u64 {
            return Err(Unfit::NotElf);
        }
        read(file, 0, &mut magic)?;
        if magic != *b"\x7fELF" {
            return Err(Unfit::NotElf);
        }
        let mut bytes = [0; HEADER_SIZE];
        read(file, 0, &mut bytes)?;
        check_machine(&bytes)?;

        let placement = match u16_at(&bytes, 16) {
            TYPE_FIXED => Placement::Fixed,
            TYPE_RELOCATABLE => Placement::Relocatable,
            _ => return Err(Unfit::NotExecutable),
        };
        let header = FileHeader {
            placement,
            entry: u64_at(&bytes, 24),
            headers_offset: u64_at(&bytes, 32),
            n_headers: u16_at(&bytes, 56),
        };
        if header.n_headers == 0 {
            return Err(Unfit::NoLoadableSegment);
        }
        if usize::from(u16_at(&bytes, 54)) != PROGRAM_HEADER_SIZE {
            return Err(Unfit::Malformed("its program headers have the wrong size"));
        }
        Ok(header)
    }
}

/// The kernel looks at the machine alone; class and byte order are asked here to name the reason of a refusal.
fn check_machine(header: &[u8; HEADER_SIZE]) -> Result<(), Unfit> {
    if header[5] == DATA_BIG_ENDIAN {
        return Err(Unfit::BigEndian);
    }
    let is_32_bit = header[4] == CLASS_32_BIT;
    match u16_at(header, 18) {
        MACHINE_X86_64 if !is_32_bit => Ok(()),
        MACHINE_X86_64 | MACHINE_386 => Err(Unfit::ThirtyTwoBit),
        machine => Err(Unfit::ForeignMachine { machine }),
    }
}

/// A program header, still as the file has it.
struct RawHeader {
    kind: u32,
    flags: u32,
    file_offset: u64,
    vaddr: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

impl RawHeader {
    fn from_bytes(bytes: &[u8]) -> RawHeader {
        RawHeader {
            kind: u32_at(bytes, 0),
            flags: u32_at(bytes, 4),
            file_offset: u64_at(bytes, 8),
            vaddr: u64_at(bytes, 16),
            file_size: u64_at(bytes, 32),
            memory_size: u64_at(bytes, 40),
            align: u64_at(bytes, 48),
        }
    }

    fn to_segment(&self, file_length: u64) -> Result<Segment, Unfit> {
        if self.file_size > self.memory_size {
            return Err(Unfit::Malformed("a segment is larger in the file than in memory"));
        }
        match self.vaddr.checked_add(self.memory_size) {
            Some(end) if end <= ADDRESS_LIMIT => {}
            _ => {
                return Err(Unfit::Malformed("a segment lies outside the 47-bit address space"));
            }
        }
        if self.file_size > 0 {
            self.check_file_part(file_length)?;
        }
        Ok(Segment {
            vaddr: self.vaddr,
            file_offset: self.file_offset,
            file_size: self.file_size,
            memory_size: self.memory_size,
            align: self.usable_align()?,
            readable: self.flags & FLAG_READABLE != 0,
            writable: self.flags & FLAG_WRITABLE != 0,
            executable: self.flags & FLAG_EXECUTABLE != 0,
        })
    }

    fn check_file_part(&self, file_length: u64) -> Result<(), Unfit> {
        match self.file_offset.checked_add(self.file_size) {
            Some(end) if end <= file_length => {}
            _ => return Err(Unfit::Truncated),
        }
        if self.vaddr % PAGE_SIZE != self.file_offset % PAGE_SIZE {
            return Err(Unfit::Malformed("a segment's place in the file does not fit its address"));
        }
        Ok(())
    }

    /// Like the kernel, takes what is no power of two for "no wish".
    fn usable_align(&self) -> Result<u64, Unfit> {
        if !self.align.is_power_of_two() {
            return Ok(PAGE_SIZE);
        }
        if self.align > ADDRESS_LIMIT {
            return Err(Unfit::Malformed("a segment asks for an alignment larger than the address space"));
        }
        Ok(self.align.max(PAGE_SIZE))
    }
}

fn read_program_headers(file: &dyn ReadAt, header: &FileHeader) -> Result<Vec<RawHeader>, Unfit> {
    let table_size = usize::from(header.n_headers) * PROGRAM_HEADER_SIZE;
    if table_size > PROGRAM_HEADERS_LIMIT {
        return Err(Unfit::Malformed("it has too many program headers"));
    }
    let mut table = vec![0; table_size];
    read(file, header.headers_offset, &mut table)?;
    Ok(table.chunks_exact(PROGRAM_HEADER_SIZE).map(RawHeader::from_bytes).collect())
}

fn read_interpreter(file: &dyn ReadAt, raw: &RawHeader) -> Result<Vec<u8>, Unfit> {
    if raw.file_size < 2 || raw.file_size > INTERPRETER_LIMIT {
        return Err(Unfit::Malformed("the path of its dynamic loader has an impossible length"));
    }
    let mut path = vec![0; raw.file_size as usize];
    read(file, raw.file_offset, &mut path)?;
    if path.last() != Some(&0) {
        return Err(Unfit::Malformed("the path of its dynamic loader has no end"));
    }
    let length = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    path.truncate(length);
    Ok(path)
}

/// Expects `segments` sorted.
fn check_layout(segments: &[Segment]) -> Result<(), Unfit> {
    if segments.is_empty() {
        return Err(Unfit::NoLoadableSegment);
    }
    if segments.windows(2).any(|pair| pair[0].end() > pair[1].vaddr) {
        return Err(Unfit::Malformed("two of its segments overlap"));
    }
    Ok(())
}

/// Where the byte at `file_offset` is once the segments are loaded.
fn loaded_address(segments: &[Segment], file_offset: u64) -> Option<u64> {
    segments.iter().find_map(|segment| {
        let distance = file_offset.checked_sub(segment.file_offset)?;
        (distance < segment.file_size).then(|| segment.vaddr + distance)
    })
}

fn read(file: &dyn ReadAt, offset: u64, buffer: &mut [u8]) -> Result<(), Unfit> {
    match offset.checked_add(buffer.len() as u64) {
        Some(end) if end <= file.size() => {}
        _ => return Err(Unfit::Truncated),
    }
    file.read_at(offset, buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Unfit::Truncated,
        kind => Unfit::Unreadable(kind),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

//! Builds the test programs, runs them, and reads the evidence that they leave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object, ObjectSymbol};
use program::space::{AddressSpace, Mapping, parse_maps};
use program::unwind::{Memory, Registers};

const PAGE: u64 = 4096;

/// The source of a test program.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The number of the line with the comment `MARK mark`.
pub fn marked_line(source_name: &str, mark: &str) -> u32 {
    let text = std::fs::read_to_string(source(source_name)).unwrap();
    let wanted = format!("// MARK {mark}");
    let position = text.lines().position(|line| line.ends_with(&wanted)).expect(mark);
    u32::try_from(position + 1).unwrap()
}

/// A folder of its own for one test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().expect(program);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{errors}", output.status);
}

/// Compiles a test program with the compiler that its file name asks for.
pub fn build(test: &str, source_name: &str, flags: &[&str]) -> PathBuf {
    let (source, output) = (source(source_name), folder(test).join("program"));
    let compiler = match source.extension().and_then(|extension| extension.to_str()) {
        Some("c") => "gcc",
        Some("cpp") => "g++",
        _ => "rustc",
    };
    let mut arguments = flags.to_vec();
    arguments.extend([source.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    run(compiler, &arguments);
    output
}

/// What a failed program left.
pub struct Evidence {
    pub space: AddressSpace,
    pub registers: Registers,
    pub memory: Pages,
}

pub struct Pages(BTreeMap<u64, Vec<u8>>);

impl Memory for Pages {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        (address..).zip(buffer).all(|(address, byte)| {
            let page = self.0.get(&(address / PAGE * PAGE));
            page.map(|page| *byte = page[(address % PAGE) as usize]).is_some()
        })
    }
}

impl Evidence {
    /// Where the file's first byte lies in memory.
    pub fn base_of(&self, path: &Path) -> u64 {
        let found = self.space.modules().find(|(_, module)| module.path == path).unwrap();
        found.1.start
    }
}

impl Pages {
    /// Puts bytes at a page's start, and says which whole pages they now fill.
    pub fn place(&mut self, start: u64, bytes: &[u8]) -> (u64, u64) {
        for (page, content) in (start..).step_by(PAGE as usize).zip(bytes.chunks(PAGE as usize)) {
            let mut whole = content.to_vec();
            whole.resize(PAGE as usize, 0);
            self.0.insert(page, whole);
        }
        (start, start + (bytes.len() as u64).next_multiple_of(PAGE))
    }

    /// Overwrites memory that was dumped.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (address, byte) in (address..).zip(bytes) {
            let page = self.0.get_mut(&(address / PAGE * PAGE)).expect("dumped memory");
            page[(address % PAGE) as usize] = *byte;
        }
    }
}

/// Runs the program until it fails in the given way. The stack is kept small, so that the dump is.
pub fn fail(program: &Path, way: &str) -> Evidence {
    let folder = program.parent().unwrap().join(way);
    std::fs::create_dir_all(&folder).unwrap();
    let script = "ulimit -s 1024; exec \"$0\" \"$1\" \"$2\"";
    run("sh", &["-c", script, program.to_str().unwrap(), way, folder.to_str().unwrap()]);
    let words: Vec<u64> =
        chunks(&std::fs::read(folder.join("registers")).unwrap(), 8).map(|word| number(&word)).collect();
    let pages = chunks(&std::fs::read(folder.join("memory")).unwrap(), 8 + PAGE as usize)
        .map(|chunk| (number(&chunk[..8]), chunk[8..].to_vec()))
        .collect();
    Evidence {
        space: AddressSpace::new(parse_maps(&std::fs::read_to_string(folder.join("maps")).unwrap())),
        registers: Registers::full(words[0], words[1..].try_into().unwrap()),
        memory: Pages(pages),
    }
}

fn chunks(bytes: &[u8], size: usize) -> impl Iterator<Item = Vec<u8>> {
    assert_eq!(bytes.len() % size, 0);
    bytes.chunks(size).map(<[u8]>::to_vec)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// A file loaded at `base`, as the loader would place its segments.
pub fn load_at(path: &Path, base: u64) -> AddressSpace {
    use object::ObjectSegment;
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mapping = |segment: object::Segment<'_, '_>| {
        let (offset, size) = segment.file_range();
        let skew = segment.address() % PAGE;
        let start = base + segment.address() - skew;
        let executable =
            matches!(segment.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags.contains(object::elf::PF_X));
        Mapping {
            start,
            end: (start + skew + size).next_multiple_of(PAGE),
            offset: offset - skew,
            executable,
            path: Some(path.to_owned()),
        }
    };
    AddressSpace::new(file.segments().map(mapping).collect())
}

/// Address and size of a symbol whose mangled name contains `part`.
pub fn symbol(path: &Path, part: &str) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let found = file.symbols().find(|symbol| symbol.name().unwrap().contains(part)).expect(part);
    (found.address(), found.size())
}

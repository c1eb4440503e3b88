//! Small hand-made files, whole and damaged, and the real programs of the machine.

use super::*;

/// A file of two segments with an interpreter, in the shape that linkers make.
struct Recipe {
    header: [u8; HEADER_SIZE],
    program_headers: Vec<[u8; PROGRAM_HEADER_SIZE]>,
    length: usize,
}

const INTERPRETER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
const INTERPRETER_OFFSET: usize = 0x200;

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

fn program_header(kind: u32, flags: u32, numbers: [u64; 5]) -> [u8; PROGRAM_HEADER_SIZE] {
    let [file_offset, vaddr, file_size, memory_size, align] = numbers;
    let mut bytes = [0; PROGRAM_HEADER_SIZE];
    put(&mut bytes, 0, kind.to_le_bytes());
    put(&mut bytes, 4, flags.to_le_bytes());
    for (idx, number) in [file_offset, vaddr, vaddr, file_size, memory_size, align].into_iter().enumerate() {
        put(&mut bytes, 8 + 8 * idx, number.to_le_bytes());
    }
    bytes
}

fn load(numbers: [u64; 5]) -> [u8; PROGRAM_HEADER_SIZE] {
    program_header(SEGMENT_LOAD, FLAG_READABLE, numbers)
}

impl Recipe {
    fn usual() -> Recipe {
        let mut header = [0; HEADER_SIZE];
        header[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
        put(&mut header, 16, TYPE_RELOCATABLE.to_le_bytes());
        put(&mut header, 18, MACHINE_X86_64.to_le_bytes());
        put(&mut header, 24, 0x1040u64.to_le_bytes());
        put(&mut header, 32, (HEADER_SIZE as u64).to_le_bytes());
        put(&mut header, 54, (PROGRAM_HEADER_SIZE as u16).to_le_bytes());
        let writable = FLAG_READABLE | FLAG_WRITABLE;
        let executable = FLAG_READABLE | FLAG_EXECUTABLE;
        let interpreter_size = INTERPRETER.len() as u64;
        Recipe {
            header,
            program_headers: vec![
                program_header(SEGMENT_PROGRAM_HEADERS, FLAG_READABLE, [64, 64, 280, 280, 8]),
                program_header(
                    SEGMENT_INTERPRETER,
                    FLAG_READABLE,
                    [0x200, 0x200, interpreter_size, interpreter_size, 1],
                ),
                program_header(SEGMENT_LOAD, writable, [0x310, 0x2310, 0xf0, 0x1000, 0x1000]),
                program_header(SEGMENT_LOAD, executable, [0, 0, 0x310, 0x310, 0x1000]),
                program_header(SEGMENT_GNU_STACK, writable, [0, 0, 0, 0, 16]),
            ],
            length: 0x400,
        }
    }

    fn of(program_headers: &[[u8; PROGRAM_HEADER_SIZE]]) -> Recipe {
        Recipe { program_headers: program_headers.to_vec(), ..Recipe::usual() }
    }

    fn with<const N: usize>(mut self, header_offset: usize, value: [u8; N]) -> Recipe {
        put(&mut self.header, header_offset, value);
        self
    }

    fn build(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        bytes[..HEADER_SIZE].copy_from_slice(&self.header);
        put(&mut bytes, 56, (self.program_headers.len() as u16).to_le_bytes());
        for (idx, header) in self.program_headers.iter().enumerate() {
            put(&mut bytes, HEADER_SIZE + PROGRAM_HEADER_SIZE * idx, *header);
        }
        bytes[INTERPRETER_OFFSET..][..INTERPRETER.len()].copy_from_slice(INTERPRETER);
        bytes
    }

    fn parse(&self) -> Result<Image, Unfit> {
        parse(&&self.build()[..])
    }
}

fn check_unfit(recipe: Recipe, expected: Unfit) {
    assert_eq!(recipe.parse(), Err(expected));
}

fn check_malformed(recipe: Recipe) {
    let found = recipe.parse();
    assert!(matches!(found, Err(Unfit::Malformed(_))), "{found:?}");
}

/// What an `Image` promises, whatever file it was made from.
fn check_promises(image: &Image, file_length: u64) {
    assert!(!image.segments.is_empty());
    let (lowest, highest) = image.span();
    assert!(lowest % PAGE_SIZE == 0 && highest % PAGE_SIZE == 0);
    assert!(lowest < highest && highest <= ADDRESS_LIMIT);
    for pair in image.segments.windows(2) {
        assert!(pair[0].end() <= pair[1].vaddr);
    }
    for segment in &image.segments {
        assert!(segment.memory_size > 0 && segment.file_size <= segment.memory_size);
        assert!(segment.align.is_power_of_two() && segment.align >= PAGE_SIZE);
        if segment.file_size > 0 {
            assert!(segment.file_offset + segment.file_size <= file_length);
            assert_eq!(segment.file_offset % PAGE_SIZE, segment.vaddr % PAGE_SIZE);
        }
    }
}

#[test]
fn usual_file() {
    let image = Recipe::usual().parse().unwrap();
    check_promises(&image, 0x400);
    assert_eq!(image.entry, 0x1040);
    assert_eq!(image.placement, Placement::Relocatable);
    assert_eq!(image.interpreter.as_deref(), Some(&INTERPRETER[..INTERPRETER.len() - 1]));
    assert_eq!(image.program_headers, ProgramHeaders { vaddr: Some(64), entry_size: 56, count: 5 });
    assert!(!image.executable_stack);
    assert_eq!(image.span(), (0, 0x4000));
    let [code, data] = &image.segments[..] else { panic!("{:?}", image.segments) };
    assert!(code.readable && !code.writable && code.executable);
    assert!(data.readable && data.writable && !data.executable);
    assert_eq!(
        (data.vaddr, data.file_offset, data.file_size, data.memory_size, data.align),
        (0x2310, 0x310, 0xf0, 0x1000, 0x1000)
    );
}

#[test]
fn fixed_program_without_interpreter_or_stack_header() {
    let recipe = Recipe::of(&[load([0, 0x40_0000, 0x400, 0x400, 0])]).with(16, TYPE_FIXED.to_le_bytes());
    let image = recipe.parse().unwrap();
    assert_eq!(image.placement, Placement::Fixed);
    assert_eq!(image.interpreter, None);
    assert_eq!(image.program_headers.vaddr, Some(0x40_0040));
    assert!(!image.executable_stack);
    assert_eq!(image.segments[0].align, PAGE_SIZE);
}

#[test]
fn executable_stack_is_noticed() {
    let stack = program_header(SEGMENT_GNU_STACK, FLAG_EXECUTABLE, [0; 5]);
    let image = Recipe::of(&[load([0, 0, 0x400, 0x400, 0x1000]), stack]).parse().unwrap();
    assert!(image.executable_stack);
}

#[test]
fn headers_that_no_segment_loads() {
    let bss = load([0, 0x5000, 0, 0x10, 0x1000]);
    let stated = program_header(SEGMENT_PROGRAM_HEADERS, FLAG_READABLE, [64, 0x9040, 56, 56, 8]);
    assert_eq!(Recipe::of(&[bss]).parse().unwrap().program_headers.vaddr, None);
    assert_eq!(Recipe::of(&[bss, stated]).parse().unwrap().program_headers.vaddr, Some(0x9040));
}

#[test]
fn large_alignment_is_kept_and_nonsense_is_not() {
    let align_of =
        |align| Recipe::of(&[load([0, 0, 0x400, 0x400, align])]).parse().map(|image| image.segments[0].align);
    assert_eq!(align_of(0x20_0000), Ok(0x20_0000));
    assert_eq!(align_of(16), Ok(PAGE_SIZE));
    assert_eq!(align_of(0x3000), Ok(PAGE_SIZE));
    assert!(matches!(align_of(1 << 63), Err(Unfit::Malformed(_))));
}

#[test]
fn other_kinds_of_file() {
    assert_eq!(parse(&&b"#!/bin/sh\n"[..]), Err(Unfit::NotElf));
    assert_eq!(parse(&&b"\x7fELF"[..]), Err(Unfit::Truncated));
    check_unfit(Recipe::usual().with(4, [CLASS_32_BIT]), Unfit::ThirtyTwoBit);
    check_unfit(Recipe::usual().with(4, [CLASS_32_BIT]).with(18, MACHINE_386.to_le_bytes()), Unfit::ThirtyTwoBit);
    check_unfit(Recipe::usual().with(18, 183u16.to_le_bytes()), Unfit::ForeignMachine { machine: 183 });
    check_unfit(Recipe::usual().with(5, [DATA_BIG_ENDIAN]), Unfit::BigEndian);
    for kind in [0u16, 1, 4, 0xfe00] {
        check_unfit(Recipe::usual().with(16, kind.to_le_bytes()), Unfit::NotExecutable);
    }
    check_unfit(Recipe::of(&[]), Unfit::NoLoadableSegment);
    check_unfit(Recipe::of(&[load([0; 5])]), Unfit::NoLoadableSegment);
}

#[test]
fn contradictory_headers() {
    check_malformed(Recipe::usual().with(54, 32u16.to_le_bytes()));
    check_malformed(Recipe::of(&[load([0, 0, 0x400, 0x3ff, 0x1000])]));
    check_malformed(Recipe::of(&[load([0, 1, 0x400, 0x400, 0x1000])]));
    check_malformed(Recipe::of(&[load([0, ADDRESS_LIMIT - 1, 0, 2, 0x1000])]));
    check_malformed(Recipe::of(&[load([0, u64::MAX, 0, 2, 0x1000])]));
    check_malformed(Recipe::of(&[load([0, 0x1000, 0x400, 0x2000, 0x1000]), load([0, 0x2fff, 0, 1, 0x1000])]));
    check_unfit(Recipe::of(&[load([0, 0, 0x401, 0x401, 0x1000])]), Unfit::Truncated);
    check_unfit(Recipe::of(&[load([u64::MAX - 4095, 0, 4096, 4096, 0x1000])]), Unfit::Truncated);
    check_unfit(Recipe::usual().with(32, u64::MAX.to_le_bytes()), Unfit::Truncated);
}

#[test]
fn segments_may_touch_and_end_at_the_limit() {
    let image =
        Recipe::of(&[load([0, ADDRESS_LIMIT - 1, 0, 1, 0x1000]), load([0, ADDRESS_LIMIT - 0x1001, 0, 0x1000, 0x1000])])
            .parse()
            .unwrap();
    assert_eq!(image.span(), (ADDRESS_LIMIT - 0x2000, ADDRESS_LIMIT));
}

#[test]
fn bad_interpreter_paths() {
    let with_path = |offset: u64, size: u64| {
        let path = program_header(SEGMENT_INTERPRETER, 0, [offset, 0, size, size, 1]);
        Recipe::of(&[load([0, 0, 0x400, 0x400, 0x1000]), path])
    };
    check_malformed(with_path(0x200, 1));
    check_malformed(with_path(0x200, 4097));
    check_malformed(with_path(0x200, 5));
    check_unfit(with_path(0x3ff, 2), Unfit::Truncated);
}

#[test]
fn too_many_headers() {
    let mut bytes = Recipe::usual().build();
    put(&mut bytes, 56, 1171u16.to_le_bytes());
    assert!(matches!(parse(&&bytes[..]), Err(Unfit::Malformed(_))));
    put(&mut bytes, 56, 1170u16.to_le_bytes());
    assert_eq!(parse(&&bytes[..]), Err(Unfit::Truncated));
}

#[test]
fn every_truncation_is_refused() {
    let bytes = Recipe::usual().build();
    for length in 0..bytes.len() {
        let expected = if length < 4 { Unfit::NotElf } else { Unfit::Truncated };
        assert_eq!(parse(&&bytes[..length]), Err(expected), "length {length}");
    }
}

/// Damage is drawn from a fixed seed.
#[test]
fn flipped_bytes_never_break_a_promise() {
    let original = Recipe::usual().build();
    let headers_end = HEADER_SIZE + 5 * PROGRAM_HEADER_SIZE;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut n_fit, mut n_unfit) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = original.clone();
        for _ in 0..=random() % 4 {
            let at = random() as usize % headers_end;
            bytes[at] ^= random() as u8;
        }
        match parse(&&bytes[..]) {
            Ok(image) => {
                check_promises(&image, bytes.len() as u64);
                n_fit += 1;
            }
            Err(unfit) => {
                assert!(!unfit.to_string().contains('\n'));
                n_unfit += 1;
            }
        }
    }
    assert!(n_fit > 1000 && n_unfit > 1000, "{n_fit} fit, {n_unfit} unfit");
}

/// A disk that fails under us.
struct Broken;

impl ReadAt for Broken {
    fn size(&self) -> u64 {
        4096
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[test]
fn read_errors_are_not_taken_for_damage() {
    assert_eq!(parse(&Broken), Err(Unfit::Unreadable(io::ErrorKind::PermissionDenied)));
}

#[test]
fn this_test_program_itself() {
    let path = std::env::current_exe().unwrap();
    let bytes = std::fs::read(path).unwrap();
    let image = parse(&&bytes[..]).unwrap();
    check_promises(&image, bytes.len() as u64);
    let entry_segment =
        image.segments.iter().find(|segment| (segment.vaddr..segment.end()).contains(&image.entry)).unwrap();
    assert!(entry_segment.executable);
    assert!(image.program_headers.vaddr.is_some());
}

#[test]
fn refusals_are_sentences_about_the_file() {
    let text = Unfit::ForeignMachine { machine: 183 }.to_string();
    assert!(text.starts_with("is built for 64-bit ARM; "), "{text}");
    let text = Unfit::ForeignMachine { machine: 9999 }.to_string();
    assert!(text.contains("(ELF machine 9999)"), "{text}");
    let text = Unfit::Malformed("two of its segments overlap").to_string();
    assert!(text.starts_with("is damaged: two of its segments overlap; "), "{text}");
}

//! Files that are no packs, or not any more, or whose content was made up.

use super::bench::Bench;
use std::fs;
use trace::Digest;

#[test]
fn other_files_are_no_packs() {
    let bench = Bench::new();
    for (name, content) in [("empty", &b""[..]), ("text", b"hello"), ("zstd", &frame(b"", true))] {
        fs::write(bench.path(name), content).unwrap();
        bench.assert_refused(name, "is no packed recording");
    }
}

#[test]
fn damaged_and_truncated_packs_are_refused() {
    let (bench, _) = Bench::with_pack();
    let pack = fs::read(bench.path("prog.wdp")).unwrap();
    let size = pack.len();
    for length in [16, 40, 63, 64, 65, size / 2, size - 1] {
        fs::write(bench.path("cut"), &pack[..length]).unwrap();
        bench.assert_refused("cut", "cut is damaged: ");
    }
    for at in [17, 20, 24, 32, 56, 64, 68, size / 3, size / 2, size - 1] {
        let mut damaged = pack.clone();
        damaged[at] ^= 0x40;
        fs::write(bench.path("flipped"), damaged).unwrap();
        bench.assert_refused(
            "flipped",
            if at == 17 { "use the whodunit that packed it" } else { "flipped is damaged: " },
        );
    }
    fs::write(bench.path("longer"), [&pack[..], b"more"].concat()).unwrap();
    bench.assert_refused("longer", "longer is damaged: ");
}

/// A pack whose header is right, whatever its body.
fn write_pack(bench: &Bench, body: &[u8]) {
    let mut header = b"\x50\x2a\x4d\x18\x38\0\0\0WHOPACK\0\x01\0\0\0\0\0\0\0".to_vec();
    header.extend((body.len() as u64).to_le_bytes());
    header.extend(Digest::of(body).0.to_le_bytes());
    header.extend([0; 16]);
    let checksum = Digest::of(&header);
    header.extend(checksum.0.to_le_bytes());
    header.extend(body);
    fs::write(bench.path("made-up"), header).unwrap();
}

/// A zstd frame that holds the bytes as they are. Without its last block it has no end.
fn frame(bytes: &[u8], is_whole: bool) -> Vec<u8> {
    const WITH_SIZE_OF_8_BYTES: u8 = 0xe0;
    let mut frame = b"\x28\xb5\x2f\xfd".to_vec();
    frame.push(WITH_SIZE_OF_8_BYTES);
    frame.extend((bytes.len() as u64).to_le_bytes());
    for block in bytes.chunks(100_000) {
        frame.extend(&(block.len() as u32 * 8).to_le_bytes()[..3]);
        frame.extend(block);
    }
    if is_whole {
        frame.extend([1, 0, 0]);
    }
    frame
}

const PLAIN: u8 = b'0';
const SYMBOLIC_LINK: u8 = b'2';

fn member(name: &[u8], kind: u8, content: &[u8]) -> Vec<u8> {
    member_of_size(name, kind, content, content.len() as u64)
}

/// A member of a tar archive, with the size that it claims to have.
fn member_of_size(name: &[u8], kind: u8, content: &[u8], size: u64) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name);
    header[100..107].copy_from_slice(b"0000644");
    // Large sizes are in binary, with the first bit set.
    header[124] = 0x80;
    header[128..136].copy_from_slice(&size.to_be_bytes());
    header[148..156].fill(b' ');
    header[156] = kind;
    header[157..168].copy_from_slice(b"/etc/passwd");
    header[257..265].copy_from_slice(b"ustar  \0");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = [&header, content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[track_caller]
fn check(members: &[Vec<u8>], words: &str) {
    let bench = Bench::new();
    let archive = [members.concat(), vec![0; 1024]].concat();
    write_pack(&bench, &frame(&archive, true));
    bench.assert_refused("made-up", words);
    let strays = ["stray", "there/stray", "there/store/stray"].map(|name| bench.path(name).exists());
    assert_eq!(strays, [false; 3]);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let names: [&[u8]; 8] = [
        b"../stray",
        b"../../stray",
        b"/tmp/stray",
        b"files/../../stray",
        b"files/../1.log",
        b"./1.log",
        b"stray",
        b"\xff\x1b[2J",
    ];
    for name in names {
        check(&[member(name, PLAIN, b"x")], "is no part of a recording");
    }
}

#[test]
fn only_plain_files_are_unpacked() {
    // Links, devices, pipes, folders, and the extensions of POSIX and GNU.
    for kind in *b"1234567gxKLSDVMN" {
        check(&[member(b"1.log", kind, b"")], "is no part of a recording, or no plain file");
    }
    check(&[member(b"files", SYMBOLIC_LINK, b"")], "no plain file");
}

#[test]
fn a_member_comes_once_and_is_what_its_name_says() {
    let log = member(b"1.log", PLAIN, b"x");
    check(&[log.clone(), log.clone()], "it has 1.log twice");
    let copy = member(b"files/0123456789abcdef", PLAIN, b"x");
    check(&[copy], "another checksum than its name says");
    check(&[log], "no recording in it");
    check(&[], "no recording in it");
}

#[test]
fn what_would_fill_the_disk_is_refused_before_it_is_written() {
    check(&[member_of_size(b"1.log", PLAIN, b"x", 3 << 30)], "more than the 2048 MiB");
    check(&[member_of_size(b"1.log", PLAIN, b"x", u64::MAX)], "is not a pack");
    check(&[member_of_size(b"1.log", PLAIN, b"x", 4000)], "is not a pack");
    check(&[vec![0; 1 << 20]], "something follows its archive");
}

#[test]
fn bodies_that_are_no_archives_are_refused() {
    let bench = Bench::new();
    let archive = member(b"1.log", PLAIN, &[7; 250_000]);
    let bodies =
        [b"no zstd".to_vec(), frame(&[0xaa; 5000], true), frame(&archive, false), frame(&archive[..9000], true)];
    for body in bodies {
        write_pack(&bench, &body);
        bench.assert_refused("made-up", "is not a pack that whodunit has made");
    }
}

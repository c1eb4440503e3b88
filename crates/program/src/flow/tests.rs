//! Graphs of hand-made code, and of bytes that are no code.

use super::*;

/// Where the hand-made code stands.
const BASE: u64 = 0x1000;

struct Bytes<'a> {
    bytes: &'a [u8],
    /// A function that never returns.
    end: Option<u64>,
}

impl Code for Bytes<'_> {
    fn read(&self, address: GuestAddress, into: &mut [u8]) -> usize {
        let from = address.0.checked_sub(BASE).and_then(|offset| usize::try_from(offset).ok());
        let Some(rest) = from.and_then(|from| self.bytes.get(from..)) else { return 0 };
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        length
    }

    fn returns(&self, callee: GuestAddress) -> bool {
        Some(callee.0) != self.end
    }

    fn is_inside(&self, target: GuestAddress) -> bool {
        (BASE..BASE + self.bytes.len() as u64).contains(&target.0)
    }
}

fn graph(bytes: &[u8]) -> Graph {
    Graph::of(at(0), &Bytes { bytes, end: None }).expect("a graph")
}

fn at(offset: u64) -> GuestAddress {
    GuestAddress(BASE + offset)
}

fn offsets(graph: &Graph, blocks: impl IntoIterator<Item = BlockIdx>) -> Vec<u64> {
    blocks.into_iter().map(|idx| graph.blocks()[idx].start.0 - BASE).collect()
}

/// `jne 5; nop; jmp 6; nop; ret`
const DIAMOND: &[u8] = &[0x75, 3, 0x90, 0xeb, 1, 0x90, 0xc3];

#[test]
fn the_two_sides_of_a_branch_meet_again() {
    let graph = graph(DIAMOND);
    let starts: Vec<u64> = graph.blocks().iter().map(|block| block.start.0 - BASE).collect();
    assert_eq!(starts, [0, 2, 5, 6]);
    assert_eq!(graph.immediate_post_dominator(at(0)), Some(at(6)));
    assert_eq!(graph.immediate_post_dominator(at(3)), Some(at(6)));
    assert_eq!(graph.immediate_post_dominator(at(6)), None);
    assert_eq!(graph.immediate_dominator(at(6)), Some(at(0)));
    assert_eq!(graph.immediate_dominator(at(0)), None);
    assert!(graph.dominates(at(0), at(5)) && !graph.dominates(at(2), at(6)));
    assert!(graph.loops().is_empty());
}

#[test]
fn loops_lie_within_loops() {
    // nop; outer: nop; inner: nop; jne inner; jne outer; ret
    let graph = graph(&[0x90, 0x90, 0x90, 0x75, 0xfd, 0x75, 0xfa, 0xc3]);
    let [outer, inner] = graph.loops() else { panic!("{:?}", graph.loops()) };
    assert_eq!((outer.header, outer.depth, outer.parent), (at(1), 0, None));
    assert_eq!((inner.header, inner.depth, inner.parent), (at(2), 1, Some(0)));
    assert_eq!(offsets(&graph, outer.blocks.iter().copied()), [1, 2, 5]);
    assert_eq!(offsets(&graph, inner.latches.iter().copied()), [2]);
    assert_eq!(graph.loop_of(at(3)), Some(1));
    assert_eq!(graph.loops_around(at(3)), [0, 1]);
    assert_eq!(graph.loops_around(at(5)), [0]);
    assert_eq!(graph.loop_of(at(7)), None);
}

#[test]
fn two_branches_back_to_one_header_are_one_loop() {
    // head: nop; je head; jne head; ret
    let graph = graph(&[0x90, 0x74, 0xfd, 0x75, 0xfb, 0xc3]);
    let [only] = graph.loops() else { panic!("{:?}", graph.loops()) };
    assert_eq!(offsets(&graph, only.latches.iter().copied()), [0, 3]);
}

#[test]
fn a_loop_with_two_entries_is_none() {
    // je 4; first: nop; nop; second: nop; jne first; ret
    let graph = graph(&[0x74, 2, 0x90, 0x90, 0x90, 0x75, 0xfb, 0xc3]);
    assert!(graph.loops().is_empty());
    assert_eq!(graph.immediate_post_dominator(at(0)), Some(at(4)));
}

#[test]
fn a_loop_that_is_never_left_has_post_dominators() {
    // jne 3; ret; nop; jmp 3
    let graph = graph(&[0x75, 1, 0xc3, 0x90, 0xeb, 0xfd]);
    assert_eq!(graph.immediate_post_dominator(at(0)), None);
    assert_eq!(graph.loops().len(), 1);
}

#[test]
fn a_call_that_never_returns_ends_its_block() {
    // jne 7; call 0x1100; ret
    let bytes = [0x75, 5, 0xe8, 0xf9, 0, 0, 0, 0xc3];
    let back = Graph::of(at(0), &Bytes { bytes: &bytes, end: None }).expect("a graph");
    assert_eq!(back.immediate_post_dominator(at(0)), Some(at(7)));
    let gone = Graph::of(at(0), &Bytes { bytes: &bytes, end: Some(BASE + 0x100) }).expect("a graph");
    assert_eq!(gone.immediate_post_dominator(at(0)), None);
    assert!(gone.blocks()[1].leaves);
}

#[test]
fn a_jump_out_of_the_function_leaves_it() {
    let graph = graph(&[0x75, 0x70, 0xc3]);
    assert!(graph.blocks()[0].leaves);
    assert_eq!(offsets(&graph, graph.blocks()[0].successors.iter().copied()), [2]);
}

#[test]
fn a_table_of_distances_is_read() {
    // cmp edi, 1; ja 22; lea rdx, [rip+table]; movsxd rax, [rdx+rdi*4]; add rax, rdx; jmp rax; nop; ret; nop
    let mut bytes = vec![0x83, 0xff, 1, 0x77, 17, 0x48, 0x8d, 0x15, 13, 0, 0, 0];
    bytes.extend([0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0x90, 0xc3, 0xc3, 0x90, 0xc3]);
    bytes.truncate(25);
    let table = i32::try_from(bytes.len()).expect("short");
    for target in [21, 24] {
        bytes.extend((target - table).to_le_bytes());
    }
    let graph = graph(&bytes);
    assert!(graph.unread_jumps().is_empty());
    let jump = graph.block_of(at(19)).expect("the jump");
    assert_eq!(offsets(&graph, graph.blocks()[jump].successors.iter().copied()), [21, 24]);
}

#[test]
fn a_jump_to_anywhere_is_named() {
    let graph = graph(&[0xff, 0xe0]);
    assert_eq!(graph.unread_jumps(), [at(0)]);
    assert!(graph.blocks()[0].leaves);
}

#[test]
fn nothing_to_read_is_no_graph() {
    assert!(Graph::of(at(0), &Bytes { bytes: &[], end: None }).is_none());
    assert!(Graph::of(GuestAddress(u64::MAX), &Bytes { bytes: &[0x90], end: None }).is_none());
}

/// Whether `to` can be reached from `from` without passing `without`.
fn reaches(graph: &Graph, from: BlockIdx, to: BlockIdx, without: BlockIdx) -> bool {
    let (mut open, mut seen) = (vec![from], vec![false; graph.blocks().len()]);
    while let Some(block) = open.pop() {
        if block != without && !std::mem::replace(&mut seen[block], true) {
            open.extend(&graph.blocks()[block].successors);
        }
    }
    seen[to]
}

#[test]
fn dominators_of_any_bytes_are_what_every_way_passes() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut n_loops = 0;
    for _ in 0..400 {
        let bytes: Vec<u8> = (0..160).map(|_| random_byte(&mut state)).collect();
        let Some(graph) = Graph::of(at(0), &Bytes { bytes: &bytes, end: None }) else { continue };
        let entry = graph.block_of(at(0)).expect("the entry");
        n_loops += graph.loops().len();
        for (node, block) in graph.blocks().iter().enumerate() {
            for (other, candidate) in graph.blocks().iter().enumerate() {
                let every_way = node == other || !reaches(&graph, entry, node, other);
                assert_eq!(graph.dominates(candidate.start, block.start), every_way, "{bytes:x?} {other} {node}");
            }
            graph.immediate_post_dominator(block.last);
        }
    }
    assert!(n_loops > 100, "too few loops to have tried anything: {n_loops}");
}

/// Mostly short branches and one-byte instructions.
fn random_byte(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let byte = (*state >> 32) as u8;
    match *state % 5 {
        0 => 0x75,
        1 => 0xeb,
        2 => byte % 32,
        3 => 0xf0 | (byte & 15),
        _ => byte,
    }
}

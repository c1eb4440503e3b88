//! Events from records written by hand, and the way of batches to an observer.

use super::step::{Outcome, STEPPED, Step};
use super::{Access, Around, Batch, Consumer, Elements, EventKind, Observer};
use crate::code::observe::notes::Notes;
use crate::code::observe::plan::Plan;
use crate::code::observe::quiet::QuietFunctions;
use crate::code::observe::wishes::Wishes;
use crate::code::observe::{Catalogue, MarkTable, RecordFacts, Wanted};
use crate::context;
use crate::signals::frame::{XState, new_state_area, state_area};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use sched::ThreadId;
use std::sync::{Arc, Mutex};

const THREAD: ThreadId = ThreadId(3);
const FS_BASE: u64 = 0x7000;

/// A catalogue with the one unit that `bytes` make at 0x1000, and its plan.
fn unit(bytes: &[u8], wanted: Wanted) -> (Catalogue, Plan) {
    let path: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).into_iter().collect();
    let (marks, quiet) = (MarkTable::default(), QuietFunctions::default());
    let wishes = Wishes::new(wanted, &marks, None, &quiet);
    let plan = Plan::new(&path, &Notes::on(&path, &wishes), wishes);
    let mut catalogue = Catalogue::new(wanted);
    catalogue.add_unit(plan.facts.clone());
    (catalogue, plan)
}

fn record(catalogue: &mut Catalogue, executed: u16, words: u16, next: u64) -> u64 {
    u64::from(catalogue.add_record(RecordFacts { unit: 0, executed, words, next, retracts: false }))
}

/// The events of `words` as text, without entries.
fn told(catalogue: &Catalogue, words: &[u64]) -> Vec<String> {
    let batch = Batch { thread: THREAD, words, catalogue, fs_base: FS_BASE, around: Around::default() };
    batch.events().filter_map(|event| text(event.pc, &event.kind)).collect()
}

fn text(pc: u64, kind: &EventKind<'_>) -> Option<String> {
    let number = |value: Option<super::Value<'_>>| match value {
        None => "-".to_owned(),
        Some(value) => value.number().map_or_else(|| format!("{} bytes", value.size()), |number| format!("{number:x}")),
    };
    Some(match *kind {
        EventKind::Entry { .. } => return None,
        EventKind::Access(Access { address, size, kind, elements, before, after, .. }) => {
            let times = match elements {
                Elements::One => String::new(),
                Elements::Upward(count) => format!(" up {count}"),
                Elements::Downward(count) => format!(" down {count}"),
            };
            let (before, after) = (number(before), number(after));
            format!("{pc:x} {kind:?} {address:x} {size}{times} {before} {after}")
        }
        EventKind::Marked { mark, words } => format!("{pc:x} {mark:?} {words:x?}"),
        EventKind::Branch { target, taken } => format!("{pc:x} branch {target:x} {taken}"),
        EventKind::Call { target, return_address } => format!("{pc:x} call {target:x} {return_address:x}"),
        EventKind::Return { target } => format!("{pc:x} return {target:x}"),
    })
}

#[test]
fn loads_and_stores_have_addresses_and_values() {
    // mov rax, [rax+8]; mov dword [rbx], 7; add [rbx], al; push rcx
    let bytes = [0x48, 0x8b, 0x40, 0x08, 0xc7, 0x03, 7, 0, 0, 0, 0x00, 0x03, 0x51];
    let (mut catalogue, _) = unit(&bytes, Wanted::EVERYTHING);
    // rax, loaded; rbx, old; old, new; rsp, old, pushed
    let number = record(&mut catalogue, 4, 10, 0x100d);
    let words = [number, 0x500, 0xabcd, 0x600, 0xffff_ffff_0000_0005, 0x07, 0x0d, 0x800, 0x99, 0x42];
    assert_eq!(
        told(&catalogue, &words),
        ["1000 Load 508 8 abcd -", "1004 Store 600 4 5 7", "100a Update 600 1 7 d", "100c Store 7f8 8 99 42"]
    );
}

#[test]
fn an_unfinished_record_tells_what_ran() {
    let bytes = [0x48, 0x8b, 0x40, 0x08, 0xc7, 0x03, 7, 0, 0, 0]; // mov rax, [rax+8]; mov dword [rbx], 7
    let (mut catalogue, _) = unit(&bytes, Wanted::EVERYTHING);
    let number = record(&mut catalogue, 1, 5, 0x1004);
    assert_eq!(told(&catalogue, &[number, 0x500, 0xabcd, 0x600, 5]), ["1000 Load 508 8 abcd -"]);
}

#[test]
fn branches_go_where_the_record_went() {
    // je +2; jmp rax
    let (mut catalogue, _) = unit(&[0x74, 0x02, 0xff, 0xe0], Wanted::EVERYTHING);
    let taken = record(&mut catalogue, 1, 1, 0x1004);
    let passed = record(&mut catalogue, 2, 2, 0);
    let faulted = record(&mut catalogue, 1, 1, 0x1002);
    assert_eq!(told(&catalogue, &[taken]), ["1000 branch 1004 true"]);
    assert_eq!(told(&catalogue, &[passed, 0x7777]), ["1000 branch 1002 false", "1002 branch 7777 true"]);
    assert_eq!(told(&catalogue, &[faulted]), ["1000 branch 1002 false"]);
}

#[test]
fn calls_and_returns_name_both_ends() {
    // call +0x10
    let (mut catalogue, _) = unit(&[0xe8, 0x10, 0, 0, 0], Wanted::EVERYTHING);
    let number = record(&mut catalogue, 1, 3, 0x1015);
    assert_eq!(told(&catalogue, &[number, 0x800, 0x99]), ["1000 Store 7f8 8 99 1005", "1000 call 1015 1005"]);
    let (mut catalogue, _) = unit(&[0xc3], Wanted::EVERYTHING);
    let number = record(&mut catalogue, 1, 3, 0);
    assert_eq!(told(&catalogue, &[number, 0x800, 0x4444]), ["1000 Load 800 8 4444 -", "1000 return 4444"]);
}

#[test]
fn an_instruction_that_was_taken_back_is_not_told() {
    let (mut catalogue, _) = unit(&[0x48, 0x8b, 0x03, 0xc3], Wanted::ADDRESSES); // mov rax, [rbx]; ret
    let number = record(&mut catalogue, 2, 3, 0);
    let retraction = RecordFacts { unit: 0, executed: 2, words: 1, next: 0x1003, retracts: true };
    let retraction = u64::from(catalogue.add_record(retraction));
    let words = [number, 0x500, 0x800, retraction, number, 0x600, 0x900];
    assert_eq!(told(&catalogue, &words), ["1000 Load 500 8 - -", "1000 Load 600 8 - -", "1003 Load 900 8 - -"]);
}

#[test]
fn repeats_cover_their_range_in_both_directions() {
    let (mut catalogue, _) = unit(&[0xf3, 0x48, 0xa5], Wanted::ADDRESSES); // rep movsq
    let number = record(&mut catalogue, 1, 6, 0x1003);
    // rsi, rdi, count before; count after, rsi after
    let upward = [number, 0x500, 0x900, 4, 1, 0x518];
    assert_eq!(told(&catalogue, &upward), ["1000 Load 500 24 up 3 - -", "1000 Store 900 24 up 3 - -"]);
    let downward = [number, 0x500, 0x900, 4, 1, 0x4e8];
    assert_eq!(told(&catalogue, &downward), ["1000 Load 4f0 24 down 3 - -", "1000 Store 8f0 24 down 3 - -"]);
    assert_eq!(told(&catalogue, &[number, 0x500, 0x900, 0, 0, 0x500]), Vec::<String>::new());
}

#[test]
fn the_fs_base_is_that_of_the_moment() {
    // mov rax, fs:[0x28]; wrfsbase rbx
    let (mut catalogue, _) = unit(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], Wanted::ADDRESSES);
    let path: Vec<Instruction> =
        Decoder::with_ip(64, &[0xf3, 0x48, 0x0f, 0xae, 0xd3], 0x1009, DecoderOptions::NONE).into_iter().collect();
    let (marks, quiet) = (MarkTable::default(), QuietFunctions::default());
    let wishes = Wishes::new(Wanted::ADDRESSES, &marks, None, &quiet);
    let plan = Plan::new(&path, &Notes::on(&path, &wishes), wishes);
    let load = record(&mut catalogue, 1, 1, 0x1009);
    let unit = catalogue.add_unit(plan.facts);
    let facts = RecordFacts { unit, executed: 1, words: 2, next: 0x100e, retracts: false };
    let change = u64::from(catalogue.add_record(facts));
    let words = [load, change, 0x9000, load];
    assert_eq!(told(&catalogue, &words), ["1000 Load 7028 8 - -", "1000 Load 9028 8 - -"]);
}

#[test]
fn large_values_keep_all_their_bytes() {
    let (mut catalogue, _) = unit(&[0x0f, 0x10, 0x03], Wanted::EVERYTHING); // movups xmm0, [rbx]
    let number = record(&mut catalogue, 1, 4, 0x1003);
    let words = [number, 0x500, 0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    let batch = Batch { thread: THREAD, words: &words, catalogue: &catalogue, fs_base: 0, around: Around::default() };
    let bytes: Vec<u8> = batch
        .events()
        .filter_map(|event| match event.kind {
            EventKind::Access(access) => access.before,
            _ => None,
        })
        .flat_map(|value| value.bytes().collect::<Vec<u8>>())
        .collect();
    assert_eq!(bytes, (0..16).collect::<Vec<u8>>());
}

/// Lets the engine look at one instruction that `run` carries out; returns the events.
fn stepped(bytes: &[u8], registers: &[(usize, u64)], run: impl FnOnce(&mut context::Context)) -> Vec<String> {
    let xstate = XState::find();
    let context = context::of_this_thread();
    context.xsave = new_state_area(xstate);
    context.rflags = 0x202;
    for &(register, value) in registers {
        context.gpr[register] = value;
    }
    let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
    let step = Step::begin(instruction, context, xstate, Wanted::EVERYTHING);
    run(context);
    let words = step.end(context, Outcome::Ran(instruction.next_ip())).expect("it did something");
    assert_eq!(words[0], STEPPED);
    told(&Catalogue::new(Wanted::EVERYTHING), &words)
}

#[test]
fn repeated_moves_read_what_they_stored_even_where_both_overlap() {
    let mut memory = *b"abcd....";
    let base = memory.as_mut_ptr() as u64;
    let events = stepped(&[0xf3, 0xa4], &[(1, 4), (6, base), (7, base + 1)], |context| {
        memory[1..5].copy_from_slice(b"aaaa"); // rep movsb from each byte to the next
        context.gpr[1] = 0;
    });
    let (loaded, stored) = (0x6161_6161, u32::from_le_bytes(*b"bcd."));
    assert_eq!(
        events,
        [
            format!("1000 Load {base:x} 4 up 4 {loaded:x} -"),
            format!("1000 Store {:x} 4 up 4 {stored:x} {loaded:x}", base + 1)
        ]
    );
}

#[test]
fn bit_tests_reach_as_far_as_their_register_says() {
    let mut memory = [0u32, 0, 0x10];
    let middle = memory.as_mut_ptr() as u64 + 4;
    // bts [rbx], eax with bits 36 and -1
    let above = stepped(&[0x0f, 0xab, 0x03], &[(0, 36), (3, middle)], |_| {});
    assert_eq!(above, [format!("1000 Update {:x} 4 10 10", middle + 4)]);
    let below = stepped(&[0x0f, 0xab, 0x03], &[(0, 0xffff_ffff), (3, middle)], |_| memory[0] = 0x8000_0000);
    assert_eq!(below, [format!("1000 Update {:x} 4 0 80000000", middle - 4)]);
}

#[test]
fn translation_tables_are_indexed_by_a_byte() {
    let table: Vec<u8> = (0..=255).collect();
    let start = table.as_ptr() as u64;
    let events = stepped(&[0xd7], &[(0, 0x1234_5621), (3, start)], |_| {}); // xlat
    assert_eq!(events, [format!("1000 Load {:x} 1 21 -", start + 0x21)]);
}

#[test]
fn gathers_touch_the_elements_that_their_mask_names() {
    let memory: Vec<u32> = (0..64).collect();
    let base = memory.as_ptr() as u64;
    let xstate = XState::find();
    let context = context::of_this_thread();
    context.xsave = new_state_area(xstate);
    let area = state_area(context, xstate);
    area[512] = 2; // the SSE registers are in use
    for (lane, (index, mask)) in [(5u32, u32::MAX), (63, 0), (1, 1 << 31), (0, 0)].into_iter().enumerate() {
        area[160 + 16 + 4 * lane..][..4].copy_from_slice(&index.to_le_bytes());
        area[160 + 4 * 16 + 4 * lane..][..4].copy_from_slice(&mask.to_le_bytes());
    }
    context.gpr[0] = base;
    // vpgatherdd xmm2, [rax + xmm1*4], xmm4
    let gather = Decoder::with_ip(64, &[0xc4, 0xe2, 0x59, 0x90, 0x14, 0x88], 0x1000, DecoderOptions::NONE).decode();
    let step = Step::begin(gather, context, xstate, Wanted::EVERYTHING);
    let words = step.end(context, Outcome::Ran(0x1006)).expect("it did something");
    let events = told(&Catalogue::new(Wanted::EVERYTHING), &words);
    assert_eq!(events, [format!("1000 Load {:x} 4 5 -", base + 20), format!("1000 Load {:x} 4 1 -", base + 4)]);
}

/// Keeps what comes, and on which thread.
struct Keeper(Arc<Mutex<Vec<(u32, u64)>>>);

impl Observer for Keeper {
    fn batch(&mut self, batch: &Batch<'_>) {
        let mut kept = self.0.lock().expect("nobody panics");
        for event in batch.events() {
            if let EventKind::Access(access) = event.kind {
                kept.push((event.thread.0, access.address));
            }
        }
    }

    fn finished(&mut self) {
        self.0.lock().expect("nobody panics").push((0, 0));
    }
}

#[test]
fn batches_of_all_threads_arrive_in_order_with_what_is_needed_to_read_them() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (mut catalogue, _) = unit(&[0x48, 0x8b, 0x03], Wanted::ADDRESSES); // mov rax, [rbx]
    let mut consumer = Consumer::start(Box::new(Keeper(kept.clone())), Wanted::ADDRESSES);
    let mut expected = Vec::new();
    for round in 0..2_000 {
        // Numbers are new all the time.
        let number = record(&mut catalogue, 1, 2, 0x1003);
        let thread = ThreadId(1 + round % 3);
        let words: Vec<u64> = (0..u64::from(round)).flat_map(|at| [number, at]).collect();
        expected.extend((0..u64::from(round)).map(|at| (thread.0, at)));
        consumer.take(thread, &words, Some(&catalogue), 0, Around::default());
        if round == 1_000 {
            consumer.settle();
            assert!(*kept.lock().expect("nobody panics") == expected, "nothing is on its way any more");
        }
    }
    consumer.finish();
    expected.push((0, 0));
    assert!(*kept.lock().expect("nobody panics") == expected);
}

//! Flows of many encodings, against what the manuals say.

use super::*;
use crate::instruction::register_number;
use iced_x86::{Decoder, DecoderOptions, RflagsBits};

fn decoded(bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
}

fn flow(bytes: &[u8]) -> Flow {
    Flow::of(&mut InstructionInfoFactory::new(), &decoded(bytes))
}

fn all(register: Register) -> Place {
    Place::Register(Span::of(register).expect("data"))
}

fn flag(bit: u32) -> Place {
    Place::Register(Span::flags(bit).next().expect("a flag"))
}

/// The only part of an instruction.
fn part(bytes: &[u8]) -> Part {
    let flow = flow(bytes);
    assert_eq!(flow.parts.len(), 1, "{}", decoded(bytes));
    flow.parts[0].clone()
}

fn registers_in(places: &[Place]) -> Vec<Place> {
    let arithmetic = |place: &Place| !matches!(place, Place::Register(span) if span.length == 1 && span.start > 2000);
    places.iter().copied().filter(arithmetic).collect()
}

#[test]
fn moves_are_copies_of_their_source() {
    let whole = Kind::Copies { extends: true };
    let vector = Kind::Copies { extends: false };
    let cases: [(&[u8], Kind, Place, Place); 12] = [
        (&[0x48, 0x89, 0xd8], whole, all(Register::RBX), all(Register::RAX)),
        (&[0x89, 0xd8], whole, all(Register::EBX), all(Register::RAX)),
        (&[0x88, 0xdc], whole, all(Register::BL), all(Register::AH)),
        (&[0x48, 0x8b, 0x03], whole, Place::Memory(0), all(Register::RAX)),
        (&[0x48, 0x89, 0x03], whole, all(Register::RAX), Place::Memory(0)),
        (&[0x0f, 0xb6, 0xc3], whole, all(Register::BL), all(Register::RAX)),
        (&[0x48, 0x63, 0xc3], whole, all(Register::EBX), all(Register::RAX)),
        (&[0x48, 0x98], whole, all(Register::EAX), all(Register::RAX)),
        (&[0xf3, 0x0f, 0x6f, 0x07], vector, Place::Memory(0), all(Register::XMM0)),
        (&[0xc5, 0xfe, 0x6f, 0x07], vector, Place::Memory(0), all(Register::ZMM0)),
        (&[0xc5, 0xfe, 0x7f, 0x07], vector, all(Register::YMM0), Place::Memory(0)),
        (&[0xc5, 0xf9, 0x6e, 0xc0], vector, all(Register::EAX), all(Register::ZMM0)),
    ];
    for (bytes, kind, source, target) in cases {
        let expected = Part { kind, sources: vec![source], targets: vec![target] };
        assert_eq!(part(bytes), expected, "{}", decoded(bytes));
    }
}

#[test]
fn pieces_of_vectors_are_copied_by_themselves() {
    let piece = |register: Register, offset, length| {
        let start = Span::of(register).expect("data").start + offset;
        Place::Register(Span { start, length })
    };
    let cases: [(&[u8], Place, Place); 5] = [
        (&[0x66, 0x0f, 0x12, 0x16], Place::Memory(0), piece(Register::XMM2, 0, 8)), // movlpd xmm2, [rsi]
        (&[0x66, 0x0f, 0x16, 0x16], Place::Memory(0), piece(Register::XMM2, 8, 8)), // movhpd xmm2, [rsi]
        (&[0x0f, 0x17, 0x16], piece(Register::XMM2, 8, 8), Place::Memory(0)),       // movhps [rsi], xmm2
        (&[0x0f, 0x16, 0xd1], piece(Register::XMM1, 0, 8), piece(Register::XMM2, 8, 8)), // movlhps xmm2, xmm1
        (&[0xf3, 0x0f, 0x10, 0xd1], piece(Register::XMM1, 0, 4), piece(Register::XMM2, 0, 4)), // movss xmm2, xmm1
    ];
    for (bytes, source, target) in cases {
        let expected = Part { kind: Kind::Copies { extends: false }, sources: vec![source], targets: vec![target] };
        assert_eq!(part(bytes), expected, "{}", decoded(bytes));
    }
    let cleared = part(&[0xc5, 0xf8, 0x77]); // vzeroupper
    assert!(cleared.sources.is_empty() && cleared.targets.contains(&piece(Register::ZMM3, 16, 48)));
}

#[test]
fn the_stack_pointer_is_no_data_of_pushes_and_pops() {
    let copy =
        |source, target| Part { kind: Kind::Copies { extends: true }, sources: vec![source], targets: vec![target] };
    assert_eq!(part(&[0x50]), copy(all(Register::RAX), Place::Memory(0)));
    assert_eq!(part(&[0x54]), copy(all(Register::RSP), Place::Memory(0)), "push rsp");
    assert_eq!(part(&[0x58]), copy(Place::Memory(0), all(Register::RAX)));
    let push = flow(&[0xff, 0x34, 0x24]);
    assert_eq!(push.parts, [copy(Place::Memory(0), Place::Memory(1))], "push [rsp]");
    assert!(push.memory[0].reads && push.memory[1].writes);
    assert_eq!(flow(&[0x8f, 0x00]).parts, [copy(Place::Memory(1), Place::Memory(0))], "pop [rax]");
    let constant = part(&[0x6a, 1]);
    assert_eq!((constant.kind, constant.sources.len()), (Kind::Computes, 0), "push 1");
    assert_eq!(registers_in(&part(&[0x9c]).targets), [Place::Memory(0)], "pushfq");
}

#[test]
fn idioms_that_make_constants_have_no_source() {
    let cases: [&[u8]; 6] = [
        &[0x31, 0xc0],             // xor eax, eax
        &[0x48, 0x29, 0xc0],       // sub rax, rax
        &[0x66, 0x0f, 0xef, 0xc0], // pxor xmm0, xmm0
        &[0xc5, 0xf9, 0xef, 0xc0], // vpxor xmm0, xmm0, xmm0
        &[0xb8, 1, 0, 0, 0],       // mov eax, 1
        &[0xfc],                   // cld
    ];
    for bytes in cases {
        assert_eq!(part(bytes).sources, [], "{}", decoded(bytes));
    }
    assert_eq!(part(&[0x48, 0x19, 0xc0]).sources, [flag(RflagsBits::CF)], "sbb rax, rax");
    assert_eq!(part(&[0x31, 0xc0]).targets[0], all(Register::RAX), "the upper half is cleared");
}

#[test]
fn addresses_are_apart_from_data() {
    let store = flow(&[0x48, 0x89, 0x0c, 0xd0]); // mov [rax + rdx*8], rcx
    assert_eq!(store.sources().collect::<Vec<_>>(), [all(Register::RCX)]);
    let spans = [Register::RAX, Register::RDX].map(|register| Span::of(register).expect("data"));
    assert_eq!(store.addressing().collect::<Vec<_>>(), spans);
    let own = flow(&[0x48, 0x89, 0x00]); // mov [rax], rax
    assert_eq!(own.sources().collect::<Vec<_>>(), [all(Register::RAX)]);
    let lea = part(&[0x48, 0x8d, 0x04, 0x8b]); // lea rax, [rbx + rcx*4]
    assert_eq!((lea.kind, lea.sources), (Kind::Computes, vec![all(Register::RBX), all(Register::RCX)]));
    assert!(flow(&[0x48, 0x8b, 0x05, 0, 0, 0, 0]).addressing().next().is_none(), "mov rax, [rip]");
}

#[test]
fn strings_move_data_apart_from_pointers_and_counters() {
    let moves = flow(&[0xf3, 0xa4]); // rep movsb
    assert_eq!(moves.count, Span::of(Register::RCX));
    let kinds: Vec<Kind> = moves.parts.iter().map(|part| part.kind).collect();
    assert_eq!(kinds, [Kind::Copies { extends: true }, Kind::Advances, Kind::Advances, Kind::Advances]);
    assert!(moves.memory.iter().any(|memory| memory.reads) && moves.memory.iter().any(|memory| memory.writes));
    let fill = flow(&[0xf3, 0x48, 0xab]); // rep stosq
    assert_eq!((fill.parts[0].sources[0], fill.parts[0].targets[0]), (all(Register::RAX), Place::Memory(0)));
    let load = flow(&[0xac]); // lodsb
    assert_eq!((load.parts[0].targets[0], load.count), (all(Register::AL), None));
    let compare = part(&[0xf3, 0xa6]); // repe cmpsb
    assert!(compare.targets.contains(&flag(RflagsBits::ZF)) && compare.targets.contains(&all(Register::RSI)));
    let vector = part(&[0xf2, 0x0f, 0x10, 0x03]); // movsd xmm0, [rbx], which is no string instruction
    assert_eq!((vector.sources[0], vector.targets[0]), (Place::Memory(0), all(Register::XMM0)));
}

#[test]
fn what_may_not_be_written_is_a_source() {
    let by_register = part(&[0x48, 0xd3, 0xe0]); // shl rax, cl
    assert!(by_register.sources.contains(&flag(RflagsBits::ZF)));
    let by_constant = part(&[0x48, 0xc1, 0xe0, 4]); // shl rax, 4
    assert_eq!(by_constant.sources, [all(Register::RAX)]);
    let exchange = part(&[0xf0, 0x48, 0x0f, 0xb1, 0x0b]); // lock cmpxchg [rbx], rcx
    assert!(exchange.sources.contains(&Place::Memory(0)) && exchange.targets.contains(&Place::Memory(0)));
    let conditional = flow(&[0x48, 0x0f, 0x44, 0xc3]); // cmove rax, rbx
    assert_eq!(conditional.parts[0].kind, Kind::CopiesIf(ConditionCode::e));
    assert_eq!(conditional.parts[1].sources, [flag(RflagsBits::ZF)]);
}

#[test]
fn implied_operands_are_there() {
    let divide = part(&[0x48, 0xf7, 0xf1]); // div rcx
    for register in [Register::RAX, Register::RDX, Register::RCX] {
        assert!(divide.sources.contains(&all(register)), "{register:?}");
    }
    assert!(divide.targets.contains(&all(Register::RAX)) && divide.targets.contains(&all(Register::RDX)));
    let leave = flow(&[0xc9]);
    assert_eq!((leave.parts[0].targets[0], leave.parts[1].targets[0]), (all(Register::RSP), all(Register::RBP)));
    let load = part(&[0xd9, 0x00]); // fld dword [rax]
    assert!(load.sources.contains(&Place::Register(Span::x87())) && load.sources.contains(&Place::Memory(0)));
}

#[test]
fn control_is_told_apart() {
    let cases: [(&[u8], Control, usize); 9] = [
        (&[0x90], Control::Straight, 0),
        (&[0xeb, 0], Control::Straight, 0),
        (&[0x74, 0], Control::Conditional, 1),
        (&[0xe2, 0], Control::Conditional, 1),
        (&[0xe8, 0, 0, 0, 0], Control::Call, 0),
        (&[0xff, 0xd0], Control::IndirectCall, 1),
        (&[0xff, 0xe0], Control::IndirectJump, 1),
        (&[0xc3], Control::Return, 1),
        (&[0x0f, 0x05], Control::Kernel, 7),
    ];
    for (bytes, control, n_sources) in cases {
        let flow = flow(bytes);
        assert_eq!((flow.control, flow.sources().count()), (control, n_sources), "{}", decoded(bytes));
    }
}

/// Every opcode in every map, with several prefixes and operands: each has a flow, within the register file, whose copies
/// have one source and one target, and which writes all that the decoder says is written.
#[test]
fn every_instruction_has_a_flow() {
    let mut factory = InstructionInfoFactory::new();
    let mut n_seen = 0;
    let prefixes: [&[u8]; 7] = [&[], &[0x66], &[0xf2], &[0xf3], &[0x48], &[0x66, 0x48], &[0xf0]];
    let maps: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    for prefix in prefixes {
        for map in maps {
            for opcode in 0..=u8::MAX {
                for operands in [0x00, 0x44, 0xc8, 0xd1, 0x2c, 0x35] {
                    let bytes = [prefix, map, &[opcode, operands, 0x24, 0x11, 0x22, 0x33, 0x44, 5, 6, 7, 8]].concat();
                    let instruction = decoded(&bytes);
                    if !instruction.is_invalid() {
                        check(&mut factory, &instruction);
                        n_seen += 1;
                    }
                }
            }
        }
    }
    assert!(n_seen > 10_000, "{n_seen}");
}

fn check(factory: &mut InstructionInfoFactory, instruction: &Instruction) {
    let flow = Flow::of(factory, instruction);
    for place in flow.sources().chain(flow.targets()) {
        match place {
            Place::Register(span) => assert!(span.bytes().all(|byte| byte < REGISTER_BYTES), "{instruction}"),
            Place::Memory(operand) => assert!(operand < flow.memory.len(), "{instruction}"),
        }
    }
    for part in flow.parts.iter().filter(|part| matches!(part.kind, Kind::Copies { .. } | Kind::CopiesIf(_))) {
        assert!(part.targets.len() == 1 && part.sources.len() <= 1, "{instruction}");
    }
    let targets: Vec<Place> = flow.targets().collect();
    // Where only a piece of a register is written, the decoder tells of all of it.
    let is_piece = flow.parts[0].kind == Kind::Copies { extends: false };
    let written: Vec<UsedRegister> = factory.info(instruction).used_registers().to_vec();
    for used in written.iter().filter(|used| writes(used.access())) {
        let is_stack = register_number(used.register()) == Some(4) && instruction.is_stack_instruction();
        let Some(span) = Span::of(used.register()).filter(|_| !is_stack && !is_piece) else { continue };
        let covers = |place: &Place| matches!(place, Place::Register(target) if target.covers(span));
        assert!(targets.iter().any(covers), "{instruction} writes {:?}", used.register());
    }
    for (number, memory) in flow.memory.iter().enumerate().filter(|(_, memory)| memory.writes) {
        assert!(targets.contains(&Place::Memory(number)), "{instruction} writes {:?}", memory.used);
    }
}

//! Damaged debug information gives fewer answers: never a panic, and never an endless search.

use std::time::{Duration, Instant};

use crate::common::{load_at, symbol};
use crate::facts::Witness;
use crate::variables::build_variables;
use object::{Object, ObjectSection};
use program::expression::Expression;
use program::space::{AddressSpace, GuestAddress};
use program::symbols::Symbolizer;
use program::unwind::{CodeAddress, CodeAddressKind, backtrace};
use program::variables::{Scope, Variables};
use program::whereabouts::Where;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// The bytes of the debug sections, as ranges of the file.
fn debug_ranges(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let file = object::File::parse(bytes).unwrap();
    let sections = file.sections().filter(|section| section.name().unwrap().starts_with(".debug_"));
    let ranges = sections.filter_map(|section| section.file_range());
    ranges.map(|(offset, size)| offset as usize..(offset + size) as usize).collect()
}

/// Asks everything that can be asked.
fn ask_all(variables: &Variables, scope: &Scope<'_>, code: &[CodeAddress], data: &[GuestAddress]) -> usize {
    let mut answers = 0;
    for text in ["table[3].next", "counter", "session.peer->colour", "*list", "numbers[index]", "shared_hidden->secret"]
    {
        let expression = Expression::parse(text).unwrap();
        if let Ok(target) = variables.evaluate(&expression, scope) {
            answers += usize::from(variables.format_target(&target, scope).is_some());
        }
    }
    for address in data {
        answers += usize::from(variables.describe(*address, 4).is_some());
    }
    for address in code {
        let scope = Scope { code: Some(*address), ..*scope };
        for local in variables.locals(*address) {
            let _ = variables.type_of(local.type_id);
            let _ = variables.place(&local, &scope);
        }
    }
    for text in ["variables.c:80:total", "work:calls", "table+4"] {
        answers += usize::from(variables.resolve(&Where::parse(text).unwrap(), scope).is_ok());
    }
    for type_id in variables.types_named("session") {
        answers += variables.type_of(type_id).fields().len();
    }
    answers
}

fn survives(test: &str, flags: &[&str], rounds: usize, seed: u64) {
    let program = build_variables(test, flags);
    let witness = Witness::new(&program, "inlined");
    let mappings = witness.evidence.space.mappings().to_vec();
    let base = witness.evidence.base_of(&program);
    let own: Vec<_> = mappings.into_iter().filter(|mapping| mapping.path.as_ref() == Some(&program)).collect();
    let whole = std::fs::read(&program).unwrap();
    let ranges = debug_ranges(&whole);
    let (start, size) = symbol(&program, "work");
    let start = if start < base { base + start } else { start };
    let code: Vec<_> = (start..start + size)
        .step_by(13)
        .map(|pc| CodeAddress { pc, kind: CodeAddressKind::Exact })
        .chain([witness.code()])
        .collect();
    let data: Vec<_> = witness.places().map(|(_, address, _)| address).collect();
    let mut random = Random(seed);
    let mut answered = 0;
    for round in 0..rounds {
        let mut bytes = whole.clone();
        let flips = [1, 4, 32, 400][round % 4];
        for _ in 0..flips {
            let range = ranges[random.below(ranges.len())].clone();
            bytes[range.start + random.below(range.len())] = random.below(256) as u8;
        }
        std::fs::write(&program, bytes).unwrap();
        let variables = Variables::new(&AddressSpace::new(own.clone()));
        let begun = Instant::now();
        answered += usize::from(ask_all(&variables, &witness.scope(), &code, &data) > 0);
        // Intact files take a hundredth of this.
        assert!(begun.elapsed() < Duration::from_secs(10), "round {round}");
    }
    assert!(answered > rounds / 2, "{answered}");
}

#[test]
fn damaged_debug_information_is_survived() {
    survives("damage-4", &["-gdwarf-4", "-O2"], 200, 1);
    survives("damage-5", &["-gdwarf-5", "-O2"], 200, 2);
    survives("damage-types", &["-gdwarf-5", "-O0", "-no-pie", "-fdebug-types-section"], 100, 3);
}

/// Headers, symbols, call frames, notes: any part of the file may be anything.
#[test]
fn damaged_files_are_survived() {
    let program = build_variables("damage-anywhere", &["-gdwarf-5", "-O2"]);
    let witness = Witness::new(&program, "inlined");
    let own: Vec<_> = witness.evidence.space.mappings().to_vec();
    let whole = std::fs::read(&program).unwrap();
    let data: Vec<_> = witness.places().map(|(_, address, _)| address).collect();
    let mut random = Random(7);
    let mut named = 0;
    for round in 0..300 {
        let mut bytes = whole.clone();
        // The first bytes matter most.
        let reach = [64, 1024, bytes.len()][round % 3];
        for _ in 0..[1, 4, 32][round / 3 % 3] {
            bytes[random.below(reach)] = random.below(256) as u8;
        }
        if round % 5 == 0 {
            bytes.truncate(random.below(whole.len()));
        }
        std::fs::write(&program, bytes).unwrap();
        let begun = Instant::now();
        let space = AddressSpace::new(own.clone());
        let mut symbolizer = Symbolizer::new(&space);
        named += usize::from(symbolizer.resolve(witness.code()).iter().any(|frame| frame.function.is_some()));
        data.iter().for_each(|address| drop(symbolizer.data_symbol(*address)));
        backtrace(&space, &witness.evidence.memory, witness.evidence.registers, 64);
        space.functions_meaning(|_| Some(()));
        program::material::of_file(&program, &program);
        assert!(begun.elapsed() < Duration::from_secs(10), "round {round}");
    }
    assert!((1..300).contains(&named), "{named}");
}

/// Entries that refer to themselves or to each other.
#[test]
fn references_in_circles_end() {
    let program = build_variables("damage-references", &["-gdwarf-4", "-O0"]);
    let whole = std::fs::read(&program).unwrap();
    let file = object::File::parse(&*whole).unwrap();
    let section = file.section_by_name(".debug_info").unwrap();
    let (offset, size) = section.file_range().unwrap();
    let (start, _) = symbol(&program, "work");
    let space = load_at(&program, 0x5555_5555_4000);
    let code: Vec<_> = (start..start + 400)
        .step_by(29)
        .map(|pc| CodeAddress { pc: 0x5555_5555_4000 + pc, kind: CodeAddressKind::Exact })
        .collect();
    let mut random = Random(5);
    for _ in 0..150 {
        let mut bytes = whole.clone();
        // Small numbers of four bytes are mostly references: each is made to point at another one's target.
        let words: Vec<usize> = (0..size as usize - 4)
            .filter(|at| {
                let at = offset as usize + at;
                let value = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                value > 0x20 && u64::from(value) < size
            })
            .collect();
        for _ in 0..60 {
            let (to, from) = (words[random.below(words.len())], words[random.below(words.len())]);
            bytes.copy_within(offset as usize + from..offset as usize + from + 4, offset as usize + to);
        }
        std::fs::write(&program, bytes).unwrap();
        let variables = Variables::new(&AddressSpace::new(space.mappings().to_vec()));
        let begun = Instant::now();
        ask_all(&variables, &Scope::default(), &code, &[GuestAddress(0x5555_5555_8000)]);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

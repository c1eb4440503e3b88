//! What the cache says about its own places: every address of every unit belongs to an instruction of the guest.

use crate::code::cache::{CodeCache, Disturbance, Step};
use crate::code::path::Limits;
use crate::code::tests::generate::program;
use crate::code::tests::home::{Bytes, NEAR, new_cache};
use iced_x86::Register;
use sched::Rng;

const SEED: u64 = 0x5eed_0003;

/// Every address of the hot region that means something, with its meaning.
pub fn places(cache: &CodeCache, from: u64) -> Vec<(u64, Step)> {
    (from..cache.memory.hot.next()).filter_map(|host| Some((host, cache.find(host)?))).collect()
}

#[test]
fn every_place_of_a_unit_belongs_to_an_instruction_of_its_path() {
    let mut cache = new_cache(Limits { instructions: 64, branches: 8 });
    for number in 0..100 {
        cache.flush();
        let program = program(&mut Rng::new(SEED + number), NEAR).assemble(NEAR.code, Register::FS);
        let code = Bytes { start: NEAR.code, bytes: program.bytes };
        for instruction in &program.instructions {
            let pc = instruction.ip();
            let before = cache.memory.hot.next();
            let host = cache.host_for(&code, pc);
            let at_entry = cache.find(host).expect("an entry lies in a unit");
            assert_eq!((at_entry.host, at_entry.pc), (host, pc), "the entry of {instruction} in program {number}");
            assert_eq!(at_entry.disturbance, Disturbance::default(), "the guest's state is in place at an entry");
            let places = places(&cache, before);
            if host >= before {
                assert!(places.iter().any(|&(place, _)| place == host), "a new unit has places");
            }
            assert!(places.is_sorted_by_key(|(_, step)| step.host), "steps go up with addresses");
            for (place, step) in places {
                assert!(step.host <= place);
                let is_start = program.instructions.binary_search_by_key(&step.pc, |instruction| instruction.ip());
                let is_end = step.pc == NEAR.code + code.bytes.len() as u64;
                assert!(is_start.is_ok() || is_end, "{step:x?} is at no instruction of program {number}");
            }
        }
    }
}

//! Calls within which nothing is told, as they are seen in what is written down.
//!
//! Mostly a function's code shows that it is [quiet](crate::code::observe::quiet). Where it calls through pointers it may lead anywhere; but if it has been called very
//! often, and nothing was told each time before it returned, it is likely to go on like that for a while.

use crate::code::observe::{Catalogue, RecordFacts, Site, SiteKind, Target, UnitFacts};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a record tells, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Of this function.
    Call(u64),
    /// By this instruction.
    Return(u64),
    Other,
}

/// A function that calls of were bare.
#[derive(Default)]
struct Function {
    /// So many in a row, since it was last told of.
    times: u32,
    returns: Vec<u64>,
    /// It has been taken for a quiet one.
    is_hushed: bool,
}

#[derive(Default)]
pub struct BareCalls {
    steps: Vec<Step>,
    /// Those of the records, by their numbers; none of one that has not come yet.
    of_records: Vec<Option<Range<u32>>>,
    /// What was called last, if nothing has been told since.
    open: Option<u64>,
    functions: BTreeMap<u64, Function>,
}

impl BareCalls {
    /// What comes next may be another thread's, or something may have been told in other ways.
    pub fn begin_batch(&mut self) {
        self.open = None;
    }

    /// A record has been handed over.
    pub fn note(&mut self, number: u64, catalogue: &Catalogue) {
        let index = number as usize;
        if self.of_records.len() <= index {
            self.of_records.resize(index + 1, None);
        }
        let steps = match &self.of_records[index] {
            Some(steps) => steps.clone(),
            None => self.learn(index, catalogue),
        };
        for step in steps {
            self.take(self.steps[step as usize]);
        }
    }

    fn learn(&mut self, number: usize, catalogue: &Catalogue) -> Range<u32> {
        let first = self.steps.len() as u32;
        let record = catalogue.record(number as u64);
        self.steps.extend(steps(record, catalogue.unit(record.unit)));
        let steps = first..self.steps.len() as u32;
        self.of_records[number] = Some(steps.clone());
        steps
    }

    fn take(&mut self, step: Step) {
        let before = self.open.take();
        match (before, step) {
            (Some(function), Step::Return(pc)) => {
                let function = self.functions.entry(function).or_default();
                function.times = function.times.saturating_add(1);
                if !function.returns.contains(&pc) {
                    function.returns.push(pc);
                }
            }
            (Some(function), Step::Call(_) | Step::Other) => {
                self.functions.remove(&function);
            }
            (None, _) => {}
        }
        if let Step::Call(function) = step {
            self.open = Some(function);
        }
    }

    /// Functions that have been called so often with nothing told, and where they return.
    pub fn hush(&mut self, often: u32) -> Vec<(u64, Vec<u64>)> {
        let weary = self.functions.iter_mut().filter(|(_, function)| function.times >= often && !function.is_hushed);
        let hush = |(entry, function): (&u64, &mut Function)| {
            function.is_hushed = true;
            (*entry, function.returns.clone())
        };
        weary.map(hush).collect()
    }

    /// All are told again, until they have come so often more. Tells whether there were any that were not.
    pub fn wake(&mut self, since: u32) -> bool {
        let mut is_any = false;
        for function in self.functions.values_mut().filter(|function| function.is_hushed) {
            *function = Function { times: since, is_hushed: false, returns: std::mem::take(&mut function.returns) };
            is_any = true;
        }
        is_any
    }
}

fn steps(record: RecordFacts, unit: &UnitFacts) -> Vec<Step> {
    if record.retracts {
        return vec![Step::Other];
    }
    let step = |(instruction, site): (u16, &Site)| {
        let accesses = unit.accesses.iter().any(|access| access.instruction == instruction);
        let tells_more = site.mark.is_some() || site.fs_base.is_some() || site.repeat.is_some();
        match (site.kind, site.target) {
            _ if tells_more => Some(Step::Other),
            (SiteKind::Plain | SiteKind::Jump, _) => accesses.then_some(Step::Other),
            (SiteKind::Call, Target::Constant(function)) => Some(Step::Call(function)),
            (SiteKind::Return, Target::Word(_) | Target::Constant(_)) => Some(Step::Return(site.pc)),
            (SiteKind::Call, Target::Word(_)) => Some(Step::Other),
            (SiteKind::Call | SiteKind::Return, Target::Unknown) => None,
        }
    };
    (0..record.executed).zip(&unit.sites).filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::observe::{AccessFacts, AccessKind, Held, Wanted};

    const FUNCTION: u64 = 0x2000;
    const OTHER: u64 = 0x3000;

    fn site(pc: u64, kind: SiteKind, target: Target) -> Site {
        Site { pc, next: pc + 5, kind, target, repeat: None, fs_base: None, mark: None }
    }

    fn call(target: Target) -> UnitFacts {
        UnitFacts { sites: vec![site(0x1000, SiteKind::Call, target)], ..UnitFacts::default() }
    }

    fn load() -> UnitFacts {
        let access = AccessFacts {
            instruction: 0,
            word: 1,
            offset: 0,
            through_fs: false,
            size: 8,
            kind: AccessKind::Load,
            is_push_or_pop: false,
            before: Held::Nowhere,
            after: Held::Nowhere,
        };
        let sites = vec![site(0x1010, SiteKind::Plain, Target::Unknown)];
        UnitFacts { sites, accesses: vec![access], ..UnitFacts::default() }
    }

    /// Records of a call, of one through a pointer, of a return, of a load, of a jump, and of a call of another function.
    fn catalogue() -> Catalogue {
        let returns =
            UnitFacts { sites: vec![site(FUNCTION + 8, SiteKind::Return, Target::Word(1))], ..UnitFacts::default() };
        let jump = UnitFacts { sites: vec![site(0x1020, SiteKind::Jump, Target::Unknown)], ..UnitFacts::default() };
        let mut catalogue = Catalogue::new(Wanted::EVERYTHING);
        let calls = [Target::Constant(FUNCTION), Target::Word(1), Target::Constant(OTHER)].map(call);
        let [direct, indirect, other] = calls;
        for unit in [direct, indirect, returns, load(), jump, other] {
            let unit = catalogue.add_unit(unit);
            catalogue.add_record(RecordFacts { unit, executed: 1, words: 2, next: 0, retracts: false });
        }
        catalogue
    }

    const CALL: u64 = 0;
    const THROUGH: u64 = 1;
    const RETURN: u64 = 2;
    const LOAD: u64 = 3;
    const JUMP: u64 = 4;
    const CALL_OTHER: u64 = 5;

    #[test]
    fn calls_count_as_long_as_nothing_is_told_before_they_return() {
        let catalogue = catalogue();
        let hushed = |batches: &[&[u64]]| {
            let mut calls = BareCalls::default();
            for batch in batches {
                calls.begin_batch();
                batch.iter().for_each(|record| calls.note(*record, &catalogue));
            }
            calls.hush(2)
        };
        let function = vec![(FUNCTION, vec![FUNCTION + 8])];
        assert_eq!(hushed(&[&[CALL, RETURN]]), [], "once is not often");
        assert_eq!(hushed(&[&[CALL, RETURN, CALL, RETURN]]), function);
        assert_eq!(hushed(&[&[CALL, RETURN], &[LOAD, CALL, JUMP, RETURN, LOAD]]), function);
        assert_eq!(hushed(&[&[CALL, RETURN, CALL, LOAD, RETURN, CALL, RETURN]]), [], "not in a row");
        assert_eq!(hushed(&[&[CALL, RETURN, CALL], &[RETURN]]), [], "who knows what was between");
        assert_eq!(hushed(&[&[CALL, RETURN, CALL, THROUGH, RETURN, CALL, RETURN]]), []);
        let inner = [CALL_OTHER, CALL, RETURN, RETURN].repeat(3);
        assert_eq!(hushed(&[&inner]), function, "what calls it has told of a call");
    }

    #[test]
    fn functions_are_hushed_once_until_they_are_woken() {
        let catalogue = catalogue();
        let mut calls = BareCalls::default();
        let again =
            |calls: &mut BareCalls| [CALL, RETURN].into_iter().for_each(|record| calls.note(record, &catalogue));
        (0..3).for_each(|_| again(&mut calls));
        assert!(!calls.wake(2));
        assert_eq!([calls.hush(3).len(), calls.hush(3).len()], [1, 0]);
        assert!(calls.wake(2) && !calls.wake(2));
        assert!(calls.hush(3).is_empty());
        again(&mut calls);
        assert_eq!(calls.hush(3).len(), 1);
    }
}

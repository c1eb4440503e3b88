//! Calls that are told when something happens within: most return before that.

use engine::Call;
use trace::stream::{Event, Listener, Thread};

/// What a thread called since anything else was told of it.
#[derive(Default)]
pub struct OpenCalls {
    /// Those that have not returned, the innermost at the end.
    open: Vec<OpenCall>,
    /// Those that have, by the number of the instruction that called.
    passed: Vec<Passed>,
    /// Numbers of those of which there are some, and where they are.
    some: Vec<(u32, u64)>,
    /// The last of these, and how many were open around it: what a thread did last is of interest.
    last: Option<(OpenCall, usize)>,
}

#[derive(Clone, Copy)]
struct OpenCall {
    call: Call,
    /// How many by the same instruction had returned by then.
    earlier: u64,
}

#[derive(Clone, Copy, Default)]
struct Passed {
    calls: u64,
    /// So many have been told of.
    told: u64,
}

impl OpenCalls {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.last.is_none()
    }

    pub fn called(&mut self, call: Call) {
        let earlier = self.passed.get(call.number as usize).map_or(0, |passed| passed.calls);
        self.open.push(OpenCall { call, earlier });
    }

    /// Whether it was one of these calls that returned.
    pub fn returned(&mut self, target: u64) -> bool {
        let Some(open) = self.open.pop_if(|open| open.call.return_address == target) else { return false };
        let index = open.call.number as usize;
        if self.passed.len() <= index {
            self.passed.resize(index + 1, Passed::default());
        }
        if self.passed[index].calls == 0 {
            self.some.push((open.call.number, open.call.pc));
        }
        self.passed[index].calls += 1;
        self.last = Some((open, self.open.len()));
        true
    }

    /// Tells those that are open, and the last one that has returned; the others are counted.
    pub fn tell(&mut self, thread: Thread, listener: &mut impl Listener) {
        let around = self.last.map_or(self.open.len(), |(_, around)| around);
        let open = std::mem::take(&mut self.open);
        open[..around].iter().for_each(|open| self.tell_one(open, thread, listener));
        if let Some((last, _)) = self.last.take() {
            self.tell_one(&last, thread, listener);
            listener.event(thread, &Event::Returned { target: last.call.return_address });
            self.passed[last.call.number as usize].told += 1;
        }
        open[around..].iter().for_each(|open| self.tell_one(open, thread, listener));
        for (number, site) in self.some.drain(..) {
            let Passed { calls, told } = std::mem::take(&mut self.passed[number as usize]);
            if told < calls {
                listener.passed_over(thread, site, calls - told);
            }
        }
        self.open = open;
        self.open.clear();
    }

    /// Tells a call, after how many came before it that nobody was told of.
    fn tell_one(&mut self, OpenCall { call, earlier }: &OpenCall, thread: Thread, listener: &mut impl Listener) {
        let Call { number, pc, target, return_address, stack } = *call;
        if let Some(passed) = self.passed.get_mut(number as usize).filter(|passed| passed.told < *earlier) {
            listener.passed_over(thread, pc, earlier - passed.told);
            passed.told = *earlier;
        }
        listener.event(thread, &Event::Called { site: pc, target, return_address, stack });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stream::{Access, Site};

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Listener for Heard {
        fn accesses(&mut self, _thread: Thread, _accesses: &[Access]) {}

        fn event(&mut self, _thread: Thread, event: &Event) {
            self.0.push(match event {
                Event::Called { site, .. } => format!("call {site}"),
                Event::Returned { target } => format!("return {target}"),
                other => format!("{other:?}"),
            });
        }

        fn passed_over(&mut self, _thread: Thread, site: u64, calls: u64) {
            self.0.push(format!("{calls} times {site}"));
        }

        fn site(&mut self, _site: Site, _pc: u64) {}
    }

    /// Calls by instructions, which return to the number behind; a negative number is a return.
    fn told(steps: &[i64]) -> Vec<String> {
        let (mut calls, mut heard) = (OpenCalls::default(), Heard::default());
        for step in steps {
            let pc = step.unsigned_abs();
            if *step > 0 {
                calls.called(Call { number: pc as u32 / 10, pc, target: 0, return_address: pc + 1, stack: 0 });
            } else {
                assert!(calls.returned(pc + 1), "{steps:?}");
            }
        }
        calls.tell(7, &mut heard);
        assert!(calls.is_empty());
        heard.0
    }

    #[test]
    fn calls_that_have_returned_are_counted() {
        assert_eq!(told(&[10, 20, -20, 20, -20, -10]), ["call 10", "return 11", "2 times 20"]);
    }

    #[test]
    fn open_ones_are_told_in_order_with_the_last_that_returned() {
        assert_eq!(told(&[10, 20, -20, 30]), ["call 10", "call 20", "return 21", "call 30"]);
        assert_eq!(told(&[10, 30, 20, -20]), ["call 10", "call 30", "call 20", "return 21"]);
    }

    #[test]
    fn each_call_comes_after_as_many_by_its_instruction_as_in_the_run() {
        let recursive = told(&[10, -10, 10, 10, -10, 10, -10]);
        assert_eq!(recursive, ["1 times 10", "call 10", "1 times 10", "call 10", "return 11"]);
    }

    #[test]
    fn other_returns_are_told_by_others() {
        let mut calls = OpenCalls::default();
        calls.called(Call { number: 0, pc: 10, target: 0, return_address: 11, stack: 0 });
        assert!(!calls.returned(12));
        assert!(calls.returned(11) && !calls.returned(11));
    }
}

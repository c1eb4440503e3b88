//! One step further back than the first corruption: where the block was made that was too small, what its size was computed
//! of, and what decided how far a store went.
//!
//! All of it comes from replays of the recording that stop there. May miss: sizes and bounds that were made long before
//! they were used, and arguments that a call got in another way than by the registers for the first two.

use super::chain::{Trail, number};
use super::check::{Checks, Made};
use super::rounds::Round;
use super::sites::is_foreign_source;
use super::slice::Slice;
use super::verdict::{place_of, place_of_frame};
use session::rerun::{Definition, Point};
use trace::finding::{Class, Place, Side};

/// So many statements are told of one value.
const MOST_PLACES: usize = 4;
/// A way back has no more steps.
const LONGEST: usize = 4096;

/// What a finding says besides.
#[derive(Default)]
pub struct Background {
    pub grounds: Vec<String>,
    pub sides: Vec<Side>,
}

/// The background of a store that went astray; nothing for other causes.
pub fn of(round: &Round, class: Class, checks: &Checks<'_>) -> Background {
    let overflows = [Class::HeapOverflow, Class::StackOverflow, Class::GlobalOverflow, Class::BufferOverflow];
    let Some(trail) = round.trails.first().filter(|_| overflows.contains(&class)) else { return Background::default() };
    let replays = Replays { checks };
    let mut background = Background::default();
    if let Some(made) = round.beyond() {
        replays.allocation(made, &mut background);
    }
    background.grounds.extend(replays.bound(trail));
    background
}

struct Replays<'a> {
    checks: &'a Checks<'a>,
}

impl Replays<'_> {
    /// Tells where a block was made, and of what its size.
    fn allocation(&self, made: Made, background: &mut Background) {
        let passing =
            |pc: u64| Point { event: None, thread: None, clock: None, at: Some(format!("{pc:#x}")), time: made.nth };
        let Some(outcome) = self.checks.stopped(passing(made.site), None) else { return };
        let (thread, clock) = (outcome.thread, outcome.clock);
        let stack = outcome.threads.iter().find(|told| told.thread == thread).map_or(&[][..], |told| &told.stack);
        let callers = stack.iter().skip_while(|frame| number(&frame.pc) == made.site).map(place_of_frame);
        background.sides.push(Side {
            thread,
            text: format!("makes the block of {} bytes", made.size),
            stack: self.called_before(made.site).into_iter().chain(callers).collect(),
            locks: None,
            waits_for: None,
        });
        let sizes = self.checks.sites.arguments(made.site).into_iter().filter_map(|argument| {
            let outcome = self.checks.stopped(passing(argument), Some((thread, clock)))?;
            let origins = outcome.origins?;
            let slice = Slice::new(&origins, self.checks.sites);
            let given = origins.failure.as_ref().filter(|given| number(&given.value) == made.size)?;
            let way = self.way(given, &slice);
            Some(way.told(&format!("The size of the block, {}, is computed", made.size))? + ".")
        });
        background.grounds.extend(sizes.take(1));
    }

    /// The statements of the call that returns to an address, inlined ones first.
    fn called_before(&self, return_address: u64) -> Vec<Place> {
        let frames = self.checks.sites.frames(return_address.saturating_sub(1));
        frames.iter().map(|frame| place_of(return_address, frame)).collect()
    }

    /// What the statement that went too far was decided by last.
    fn bound(&self, trail: &Trail) -> Option<String> {
        let origin = trail.origin().filter(|origin| !self.checks.sites.is_in_c_library(number(&origin.pc)))?;
        let at = Point {
            event: None,
            thread: Some(origin.thread),
            clock: Some(origin.clock),
            at: Some(origin.pc.clone()),
            time: origin.time,
        };
        let origins = self.checks.stopped(at, Some((origin.thread, origin.clock)))?.origins?;
        let slice = Slice::new(&origins, self.checks.sites);
        let branch = origins.branches.first().and_then(|branch| slice.get(*branch))?;
        let compared: Vec<&Definition> = branch.values.iter().filter_map(|compared| slice.get(*compared)).collect();
        let operands = compared.iter().flat_map(|compared| &compared.values).filter_map(|operand| slice.get(*operand));
        let ways =
            operands.filter_map(|operand| self.way(operand, &slice).told(&format!("{}, computed", operand.value)));
        let ways: Vec<String> = ways.collect();
        let place = self.place(branch)?;
        (!ways.is_empty()).then(|| format!("The last check before it, at {place}, compares {}.", ways.join(" and ")))
    }

    /// The statements of the program's own that a value was computed by, the latest first.
    fn way(&self, from: &Definition, slice: &Slice<'_>) -> Way {
        let mut way = Way::default();
        let mut at = Some(from);
        for _ in 0..LONGEST {
            let Some(definition) = at else { break };
            // How a library came to what it gave is its own affair.
            if !definition.copies && self.checks.sites.is_in_c_library(number(&definition.pc)) {
                break;
            }
            way.is_from_outside = definition.system_call;
            if let Some(place) = self.place(definition).filter(|_| !definition.copies)
                && way.places.last() != Some(&place)
                && way.places.len() < MOST_PLACES
            {
                way.places.push(place);
            }
            let known = definition.values.iter().filter_map(|value| slice.get(*value));
            // Of what a value is made of, the largest part matters.
            at = known
                .filter(|before| before.number < definition.number && !definition.system_call)
                .max_by_key(|before| (number(&before.value), before.number));
        }
        way
    }

    /// `main (names.c:21)`; none for what is a library's.
    fn place(&self, definition: &Definition) -> Option<String> {
        let pc = number(&definition.pc);
        if self.checks.sites.is_in_c_library(pc) {
            return None;
        }
        let frames = self.checks.sites.frames(pc);
        let frame = frames.iter().find(|frame| {
            frame.line.is_some() && !frame.file.as_ref().is_some_and(|file| is_foreign_source(&file.to_string_lossy()))
        })?;
        let file = frame.file.as_ref()?.file_name()?.to_string_lossy().into_owned();
        Some(format!("{} ({file}:{})", frame.function.as_deref().unwrap_or("a function"), frame.line?))
    }
}

/// How a value came about.
#[derive(Default)]
struct Way {
    places: Vec<String>,
    is_from_outside: bool,
}

impl Way {
    /// As the end of a sentence that begins with `what`; none if nothing is known.
    fn told(&self, what: &str) -> Option<String> {
        let read = if self.is_from_outside { ", from what the program has read" } else { "" };
        let (first, before) = self.places.split_first()?;
        let before: String = before.iter().map(|place| format!(", of what came from {place}")).collect();
        Some(format!("{what} at {first}{before}{read}"))
    }
}

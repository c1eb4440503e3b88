//! From a fatal order to plans that bring it about.

use crate::rerun::outcomes;
use analysis::predict::{Deed, Kind, Place, Prediction};
use session::rerun::{Passage, Plan, Step};

/// No program has code here: who waits for it waits until nobody else can run.
pub const NEVER: Place = Place::new(1, 1);

/// The plans to try, the simplest first. Held threads are let go if nothing else can run, so none of them hangs.
pub fn plans(prediction: &Prediction) -> Vec<Plan> {
    let (early, late) = (&prediction.early, &prediction.late);
    if prediction.kind == Kind::DoubleFree {
        // What the early one does with the pointer then has not been seen: it is left to do all of it.
        return plan([Some(hold(late, entrance(late, early), (early, NEVER)))]).into_iter().collect();
    }
    let late_waits = hold(late, entrance(late, early), (early, early.place));
    if prediction.kind == Kind::Left {
        // What was on the stack stays there until another frame takes its place: the early one is left to do more.
        let waits_longer = hold(late, entrance(late, early), (early, NEVER));
        return [late_waits, waits_longer].into_iter().filter_map(|hold| plan([Some(hold)])).collect();
    }
    let stays_bad =
        prediction.renewal.as_ref().map(|renewal| hold(renewal, entrance(renewal, late), (late, late.place)));
    if !prediction.was_renewed {
        return plan([Some(late_waits), stays_bad]).into_iter().collect();
    }
    let approach = late.barred_by(early).map_or(late.before, |held| held.before);
    let early_waits = hold(early, entrance(early, late), (late, approach));
    let bracketed = (approach.pc != 0).then(|| plan([Some(early_waits), Some(late_waits), stays_bad.clone()]));
    plan([stays_bad]).into_iter().chain(bracketed.flatten()).collect()
}

/// The same delay, but only until the early one is about to come: whatever this changes, the order is not to blame for.
pub fn without_the_order(prediction: &Prediction) -> Option<Plan> {
    let (early, late) = (&prediction.early, &prediction.late);
    let is_known = early.before.pc != 0;
    is_known.then(|| plan([Some(hold(late, entrance(late, early), (early, early.before)))])).flatten()
}

/// Where a thread is to be held: before its deed, or before it takes a lock that the other needs.
pub fn entrance(deed: &Deed, other: &Deed) -> Place {
    deed.barred_by(other).map(|held| held.taken).filter(|taken| taken.pc != 0).unwrap_or(deed.place)
}

/// Holds a thread before a place until the other has passed one of its own.
pub fn hold(held: &Deed, before: Place, (other, passes): (&Deed, Place)) -> Step {
    Step::Hold {
        thread: held.thread,
        before: format!("{:#x}", before.pc),
        clock: clock_of(before),
        time: before.time,
        until: Passage {
            thread: other.thread,
            passes: format!("{:#x}", passes.pc),
            clock: clock_of(passes),
            time: passes.time,
        },
    }
}

/// Since which clock of its thread the executions of a place count, if not from the start.
pub fn clock_of(place: Place) -> Option<u64> {
    (place.since > 0).then_some(place.since)
}

/// None without any steps.
pub fn plan<const N: usize>(steps: [Option<Step>; N]) -> Option<Plan> {
    let steps: Vec<Step> = steps.into_iter().flatten().collect();
    (!steps.is_empty()).then(|| Plan { limit: Some(outcomes::LIMIT), ..Plan::new(steps) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::predict::Held;
    use trace::stream::LockMode;

    fn place(pc: u64, time: u64) -> Place {
        Place::new(pc, time)
    }

    fn deed(thread: u32, at: Place, locks: Vec<Held>) -> Deed {
        let before = place(at.pc - 1, at.time);
        Deed { thread, pc: at.pc, place: at, before, locks, callers: Vec::new(), value: None }
    }

    fn section(section: u64, taken: Place) -> Held {
        Held { object: 0x1000, mode: LockMode::Exclusive, section, taken, before: place(taken.pc - 1, 1) }
    }

    fn prediction(early: Deed, late: Deed) -> Prediction {
        let kind = Kind::Null;
        Prediction { kind, address: 0x500, size: 8, block: None, early, late, renewal: None, was_renewed: false }
    }

    fn text(plan: &Plan) -> String {
        let text = plan.text();
        assert_eq!(&Plan::read(&text).unwrap(), plan, "a plan that can be read");
        text
    }

    #[test]
    fn the_late_one_waits_for_the_early_one() {
        let prediction = prediction(deed(2, place(0x20, 3), Vec::new()), deed(1, place(0x10, 7), Vec::new()));
        let made = plans(&prediction);
        let hold = r#"{"hold":{"thread":1,"before":"0x10","time":7,"until":{"thread":2,"passes":"0x20","time":3}}}"#;
        assert_eq!(made.len(), 1);
        assert!(text(&made[0]).contains(hold), "{}", text(&made[0]));
    }

    #[test]
    fn a_control_lets_go_before_the_early_one() {
        let prediction = prediction(deed(2, place(0x20, 3), Vec::new()), deed(1, place(0x10, 7), Vec::new()));
        let control = without_the_order(&prediction).expect("a plan");
        assert!(text(&control).contains(r#""until":{"thread":2,"passes":"0x1f","time":3}"#), "{}", text(&control));
    }

    #[test]
    fn a_pointer_stays_until_others_are_done_with_it() {
        let prediction = prediction(deed(2, place(0x20, 3), Vec::new()), deed(1, place(0x10, 7), Vec::new()));
        let made = plans(&Prediction { kind: Kind::DoubleFree, ..prediction });
        assert_eq!(made.len(), 1);
        assert!(text(&made[0]).contains(r#""until":{"thread":2,"passes":"0x1","time":1}"#), "{}", text(&made[0]));
    }

    #[test]
    fn nobody_is_held_with_a_lock_that_the_other_needs() {
        let early = deed(2, place(0x20, 3), vec![section(2, place(0x2, 1))]);
        let late = deed(1, place(0x10, 7), vec![section(1, place(0x8, 4))]);
        let made = plans(&prediction(early, late));
        assert!(text(&made[0]).contains(r#""thread":1,"before":"0x8","time":4"#), "{}", text(&made[0]));
    }

    #[test]
    fn what_was_renewed_is_caught_in_between() {
        let mut prediction = prediction(deed(2, place(0x20, 3), Vec::new()), deed(1, place(0x10, 7), Vec::new()));
        prediction.renewal = Some(deed(2, place(0x30, 1), Vec::new()));
        prediction.was_renewed = true;
        let made = plans(&prediction);
        assert_eq!(made.iter().map(|plan| plan.steps.len()).collect::<Vec<_>>(), [1, 3]);
        assert!(text(&made[0]).contains(r#""thread":2,"before":"0x30""#));
        assert!(text(&made[1]).contains(r#""thread":2,"before":"0x20","time":3,"until":{"thread":1,"passes":"0xf""#));
    }
}

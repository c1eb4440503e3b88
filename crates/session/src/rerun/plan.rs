//! The plan of a run that leaves its recording, as it is written in a file.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// The writers of less memory can be sought.
const MOST_SOUGHT: u64 = 1 << 20;

/// Names what the file holds, and its version: a new number comes with changes that older readers would misread.
const SCHEMA: &str = "whodunit/plan/1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub schema: String,
    /// Carried out in order.
    pub steps: Vec<Step>,
    /// How many events of all clocks together may pass after the recording is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Do as recorded up to there. Steps that hold threads can come before it: they count from the start, and act from there on.
    Follow(Point),
    /// Give the turn to a thread: once, or whenever it can run until it is there.
    Run {
        thread: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Point>,
    },
    /// Keep a thread from running on at a place until another one has passed its own.
    Hold {
        thread: u32,
        before: String,
        /// Only arrivals count that come when the thread's clock shows this or more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<u64>,
        #[serde(default = "once")]
        time: u64,
        until: Passage,
    },
    /// Keep a thread from running on at a place until another one has changed some memory.
    Await {
        thread: u32,
        before: String,
        #[serde(default = "once")]
        time: u64,
        changed: Memory,
    },
    /// Let the conditional branch at a place go the other way, once.
    Flip {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<u32>,
        at: String,
        #[serde(default = "once")]
        time: u64,
    },
    /// Leave the instruction at a place out, once or more often; with its dependents, also all that depends on its result.
    Suppress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<u32>,
        at: String,
        /// Only what comes when the thread's clock shows this or more counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<u64>,
        #[serde(default = "once")]
        time: u64,
        /// So often, from then on.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        times: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dependents: bool,
    },
    /// Keep which instruction wrote which value, from when the thread's clock shows this, and up to where it shows that.
    Origins {
        thread: u32,
        clock: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// Keep which instructions write to some memory.
    Writers { memory: Vec<Memory> },
    /// Let this policy choose who runs, where nothing else tells.
    Schedule {
        policy: PolicyName,
        #[serde(default)]
        seed: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quantum: Option<u64>,
        /// These before all others, whenever they can run; the first of them first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first: Vec<u32>,
    },
    /// End the run: at once if no point is told.
    Stop(Point),
    /// End the run where this byte of standard output is written, from 0. With `origins`, the outcome tells where it came from.
    Output(u64),
    /// Lay memory out anew, with guards around all that is moved. Only as the first step: from where the program begins.
    Layout(Layout),
}

/// Which memory lies elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    #[serde(rename = "move")]
    pub spaces: Vec<Space>,
    /// Of all variables, just this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Variables that stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// An address where one variable ends and another begins means the end of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// Not all variables of a large program can be moved at once: which lot of them, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: usize,
    /// Guards that no store may reach, by their numbers: the run ends at the first one that does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    Heap,
    Globals,
    Stack,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A moment of a run. Either `event`, or `thread` and `clock`, or `at` with or without `thread`, or all but `event`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Where this event of the recording would take effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// Where the thread's clock shows this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u64>,
    /// Before the instruction at this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Which arrival there, counted from one.
    #[serde(default = "once")]
    pub time: u64,
}

/// Some bytes of the program's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub address: String,
    pub size: u64,
}

impl Memory {
    /// None if that is no memory.
    pub fn range(&self) -> Option<Range<u64>> {
        let address = u64::from_str_radix(self.address.strip_prefix("0x")?, 16).ok()?;
        (self.size > 0).then_some(address..address.checked_add(self.size)?)
    }
}

/// A thread has run the instruction at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passage {
    pub thread: u32,
    pub passes: String,
    /// Only what comes when the thread's clock shows this or more counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u64>,
    #[serde(default = "once")]
    pub time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    RoundRobin,
    Random,
}

fn is_once(times: &u64) -> bool {
    *times == 1
}

fn once() -> u64 {
    1
}

/// Why a text is no plan.
#[derive(Debug)]
pub enum PlanError {
    Syntax(serde_json::Error),
    /// Of a version that is not known, or of something else.
    Schema(String),
    /// Well written, but without sense.
    Senseless(&'static str),
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Syntax(error) => write!(out, "{error}"),
            PlanError::Schema(found) => {
                write!(out, "its schema is {found:?}, and this version reads {SCHEMA:?}")
            }
            PlanError::Senseless(what) => out.write_str(what),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    pub fn new(steps: Vec<Step>) -> Plan {
        Plan { schema: SCHEMA.to_owned(), steps, limit: None }
    }

    /// Reads a plan and checks that its steps make sense together.
    pub fn read(text: &str) -> Result<Plan, PlanError> {
        let plan: Plan = serde_json::from_str(text).map_err(PlanError::Syntax)?;
        if plan.schema != SCHEMA {
            return Err(PlanError::Schema(plan.schema));
        }
        plan.check()?;
        Ok(plan)
    }

    pub fn text(&self) -> String {
        // A plan is made of nothing that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), PlanError> {
        let wrong = |what| Err(PlanError::Senseless(what));
        if self.steps.is_empty() {
            return wrong("it has no steps");
        }
        let n_holds =
            self.steps.iter().take_while(|step| matches!(step, Step::Hold { .. } | Step::Await { .. })).count();
        if self.steps.iter().skip(n_holds + 1).any(|step| matches!(step, Step::Follow(_))) {
            return wrong("before `follow`, there can only be `hold` and `await`");
        }
        if self.steps.iter().skip(1).any(|step| matches!(step, Step::Layout(_))) {
            return wrong("`layout` can only be the first step");
        }
        if let Some(Step::Run { .. } | Step::Schedule { .. }) = self.steps.first() {
            return wrong("`run` and `schedule` need to know from where on: put a `follow` step before them");
        }
        self.steps.iter().try_for_each(Step::check)
    }
}

impl Step {
    fn check(&self) -> Result<(), PlanError> {
        let wrong = |what| Err(PlanError::Senseless(what));
        let times = match self {
            Step::Follow(point) => return point.check(true),
            Step::Run { until: Some(point), .. } => return point.check(false),
            Step::Stop(point) if *point == Point::default() || *point == (Point { time: 1, ..Point::default() }) => {
                return Ok(());
            }
            Step::Stop(point) => return point.check(false),
            Step::Hold { thread, until, .. } if *thread == until.thread => {
                return wrong("`hold` waits for another thread, and names the same one twice");
            }
            Step::Hold { time, until, .. } => [*time, until.time],
            Step::Await { changed, .. } if changed.range().is_none() => {
                return wrong("`changed` is memory, told by an `address` in hexadecimal and a `size`");
            }
            Step::Await { changed, .. } if changed.size >= MOST_SOUGHT => {
                return wrong("a change of less than a megabyte can be waited for");
            }
            Step::Await { time, .. } => [*time, 1],
            Step::Suppress { thread: None, clock: Some(_), .. } => {
                return wrong("a `clock` is one of a `thread`, which is missing");
            }
            Step::Suppress { time, times, .. } => [*time, *times],
            Step::Flip { time, .. } => [*time, 1],
            Step::Schedule { quantum: Some(0), .. } => return wrong("`quantum` must be at least 1"),
            Step::Origins { clock, until: Some(until), .. } if until <= clock => {
                return wrong("`until` must come after `clock`");
            }
            Step::Writers { memory } if memory.iter().any(|memory| memory.range().is_none()) => {
                return wrong("`memory` is told by an `address` in hexadecimal and a `size`");
            }
            Step::Writers { memory }
                if memory.iter().map(|memory| memory.size.min(MOST_SOUGHT)).sum::<u64>() >= MOST_SOUGHT =>
            {
                return wrong("the writers of less than a megabyte can be sought");
            }
            Step::Run { until: None, .. }
            | Step::Schedule { .. }
            | Step::Origins { .. }
            | Step::Writers { .. }
            | Step::Output(_)
            | Step::Layout(_) => return Ok(()),
        };
        if times.contains(&0) { wrong("`time` is counted from 1") } else { Ok(()) }
    }
}

impl Point {
    fn check(&self, may_be_event: bool) -> Result<(), PlanError> {
        let wrong = |what| Err(PlanError::Senseless(what));
        match (self.event, self.clock, &self.at) {
            (Some(_), None, None) if self.thread.is_none() && may_be_event => Ok(()),
            (Some(_), None, None) if self.thread.is_none() => {
                wrong("only `follow` can go by `event`: later, the recording's events no longer come")
            }
            (None, Some(_), _) if self.thread.is_some() && self.time > 0 => Ok(()),
            (None, Some(_), _) if self.time == 0 => wrong("`time` is counted from 1"),
            (None, Some(_), _) => wrong("a `clock` is one of a `thread`, which is missing"),
            (None, None, Some(_)) if self.time == 0 => wrong("`time` is counted from 1"),
            (None, None, Some(_)) => Ok(()),
            _ => wrong("a point is told by `event`, by `thread` and `clock`, or by `at`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        Plan::read(text).unwrap_err().to_string()
    }

    fn steps(steps: &str) -> String {
        format!(r#"{{"schema": "whodunit/plan/1", "steps": {steps}}}"#)
    }

    #[test]
    fn what_is_written_is_read() {
        let text = steps(
            r#"[{"follow": {"thread": 2, "at": "use.c:14"}},
                {"hold": {"thread": 2, "before": "use+0x4", "until": {"thread": 1, "passes": "0x4010", "time": 3}}},
                {"run": {"thread": 1, "until": {"thread": 1, "clock": 50}}},
                {"flip": {"at": "use"}}, {"suppress": {"thread": 1, "at": "use"}},
                {"origins": {"thread": 1, "clock": 4}}, {"origins": {"thread": 1, "clock": 4, "until": 9}},
                {"writers": {"memory": [{"address": "0x40c0", "size": 8}]}}, {"suppress": {"thread": 1, "clock": 5, "at": "use", "dependents": true}},
                {"schedule": {"policy": "round-robin"}}, {"stop": {}}]"#,
        );
        let plan = Plan::read(&text).unwrap();
        assert_eq!(plan.steps.len(), 11);
        assert_eq!(Plan::read(&plan.text()).unwrap(), plan);
    }

    #[test]
    fn a_layout_is_written_as_short_as_can_be() {
        let text = steps(r#"[{"layout":{"move":["heap","stack"],"watch":[3]}}]"#).replace(": ", ":").replace(", ", ",");
        assert_eq!(Plan::read(&text).unwrap().text(), text);
    }

    #[test]
    fn a_hold_may_count_from_clocks_on() {
        let text = steps(
            r#"[{"hold":{"thread":2,"before":"use","clock":9,"time":1,"until":{"thread":1,"passes":"free","clock":4,"time":3}}}]"#,
        );
        let text = text.replace(": ", ":").replace(", ", ",");
        assert_eq!(Plan::read(&text).unwrap().text(), text);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, expected) in [
            (steps("[]"), "it has no steps"),
            (
                steps(r#"[{"stop": {}}, {"follow": {"event": 1}}]"#),
                "before `follow`, there can only be `hold` and `await`",
            ),
            (steps(r#"[{"stop": {}}, {"layout": {"move": []}}]"#), "`layout` can only be the first step"),
            (steps(r#"[{"follow": {"clock": 1}}]"#), "a `clock` is one of a `thread`, which is missing"),
            (steps(r#"[{"follow": {}}]"#), "a point is told by `event`, by `thread` and `clock`, or by `at`"),
            (steps(r#"[{"flip": {"at": "f", "time": 0}}]"#), "`time` is counted from 1"),
            (steps(r#"[{"suppress": {"at": "f", "clock": 3}}]"#), "a `clock` is one of a `thread`, which is missing"),
            (steps(r#"[{"origins": {"thread": 1, "clock": 3, "until": 3}}]"#), "`until` must come after `clock`"),
            (
                steps(r#"[{"writers": {"memory": [{"address": "40c0", "size": 8}]}}]"#),
                "`memory` is told by an `address` in hexadecimal and a `size`",
            ),
            (
                steps(r#"[{"writers": {"memory": [{"address": "0x0", "size": 99999999}]}}]"#),
                "the writers of less than a megabyte can be sought",
            ),
            (
                steps(r#"[{"schedule": {"policy": "random"}}]"#),
                "`run` and `schedule` need to know from where on: put a `follow` step before them",
            ),
        ] {
            assert_eq!(complaint(&text), expected);
        }
        assert!(complaint(r#"{"schema": "whodunit/plan/9", "steps": []}"#).contains("whodunit/plan/9"));
        assert!(complaint(&steps(r#"[{"fly": {}}]"#)).contains("unknown variant `fly`"));
        assert!(complaint("{").contains("EOF"));
    }
}

//! What-if runs as data: the plan that a run is to follow, and the outcome that it had.
//!
//! Places in a plan are words (an address, `function+0x14`, `file.c:12`): whoever carries a plan out resolves them.

mod outcome;
mod plan;

pub use outcome::{
    Accessed, Broken, Changed, Definition, Ending, Frame, Guarded, Left, Origins, Outcome, Output, Relaid, Switch,
    Thread,
};
pub use plan::{Layout, Memory, Passage, Plan, PlanError, Point, PolicyName, Space, Step};

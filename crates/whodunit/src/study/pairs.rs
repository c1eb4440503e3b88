//! The access pairs of a run.

use super::Student;
use super::races::Once;
use analysis::pairs::{Collector, Scope};
use serde_json::json;

pub fn collect(scope: Scope) -> impl Student {
    Once { listener: Some(Collector::new(scope)), conclude: |collector: Collector| json!(collector.into_collected()) }
}

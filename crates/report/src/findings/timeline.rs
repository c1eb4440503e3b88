//! What the threads did, in order: which steps are shown, and which threads get a column.

use std::collections::BTreeSet;

use trace::finding::{Finding, Step};

/// A line of the table.
pub(super) enum Row<'a> {
    /// Steps are numbered from one.
    Step { number: usize, step: &'a Step },
    /// So many steps are left out here.
    Gap(usize),
}

/// The threads that do something, in ascending order.
pub(super) fn threads(finding: &Finding) -> Vec<u32> {
    finding.steps.iter().map(|step| step.thread).collect::<BTreeSet<_>>().into_iter().collect()
}

/// About `limit` steps at most: the first ones, the last ones and guilty ones.
pub(super) fn rows(finding: &Finding, limit: usize) -> Vec<Row<'_>> {
    let steps = &finding.steps;
    let kept = kept(steps, limit);
    let mut rows = Vec::new();
    let mut left_out = 0;
    for (position, step) in steps.iter().enumerate() {
        if !kept.contains(&position) {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            rows.push(Row::Gap(std::mem::take(&mut left_out)));
        }
        rows.push(Row::Step { number: position + 1, step });
    }
    // The last step is always kept, so no gap is pending.
    rows
}

fn kept(steps: &[Step], limit: usize) -> BTreeSet<usize> {
    if steps.len() <= limit {
        return (0..steps.len()).collect();
    }
    let third = (limit / 3).max(1);
    let guilty = (0..steps.len()).filter(|&position| steps[position].guilty).take(third);
    let mut kept: BTreeSet<usize> = guilty.collect();
    kept.extend(0..third);
    kept.extend(steps.len() - third..steps.len());
    kept
}

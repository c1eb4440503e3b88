//! From source lines to the code that was made of them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use gimli::Unit;

use crate::debug_info::DebugInfo;
use crate::elf::Bytes;

/// The code of one line, in the numbering of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCode {
    /// Sorted; adjoining ranges are one.
    pub ranges: Vec<Range<u64>>,
    /// Lines of the same file that have code.
    pub lines_with_code: BTreeSet<u32>,
    /// Whether any file of that name has been seen.
    pub file_known: bool,
}

impl LineCode {
    /// Adds the code of `line` in files whose path ends with `file`.
    pub fn collect(&mut self, debug_info: &DebugInfo, file: &Path, line: u32) {
        let mut seen = BTreeSet::new();
        for number in debug_info.unit_numbers() {
            let Some((_, unit)) = debug_info.unit(number) else {
                continue;
            };
            // Units may share a table, which is then read once.
            let table = unit.line_program.as_ref().map(|program| program.header().offset().0);
            if !seen.insert(table) {
                continue;
            }
            let files = matching_files(debug_info, number, unit, file);
            if !files.is_empty() {
                self.file_known = true;
                self.collect_unit(unit, &files, line);
            }
        }
        self.ranges.sort_by_key(|range| (range.start, range.end));
        self.ranges.dedup_by(|later, first| {
            let adjoining = later.start <= first.end;
            if adjoining {
                first.end = first.end.max(later.end);
            }
            adjoining
        });
    }

    fn collect_unit(&mut self, unit: &Unit<Bytes>, files: &BTreeSet<u64>, line: u32) {
        for_each_row(unit, |row, range| {
            if !files.contains(&row.file) || row.line == 0 {
                return;
            }
            self.lines_with_code.insert(row.line);
            if row.line == line {
                self.ranges.push(range);
            }
        });
    }
}

/// The first address behind the code that sets up a function's frame.
pub(crate) fn end_of_prologue(debug_info: &DebugInfo, unit_number: u32, function: &Range<u64>) -> u64 {
    let mut starts = Vec::new();
    let mut stated = None;
    if let Some((_, unit)) = debug_info.unit(unit_number) {
        for_each_row(unit, |row, range| {
            if function.contains(&range.start) {
                starts.push(range.start);
                if row.prologue_end && stated.is_none() {
                    stated = Some(range.start);
                }
            }
        });
    }
    starts.sort();
    starts.dedup();
    // Compilers that do not say it begin the second row of a function there.
    stated.or_else(|| starts.get(1).copied()).unwrap_or(function.start)
}

struct Row {
    file: u64,
    line: u32,
    prologue_end: bool,
}

/// Every row of the unit's line table with the addresses that it covers.
fn for_each_row(unit: &Unit<Bytes>, mut visit: impl FnMut(&Row, Range<u64>)) {
    let Some(program) = unit.line_program.clone() else {
        return;
    };
    let mut rows = program.rows();
    let mut previous: Option<(u64, Row)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        if let Some((start, earlier)) = previous.take().filter(|(start, _)| *start < row.address()) {
            visit(&earlier, start..row.address());
        }
        if !row.end_sequence() {
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            let current = Row { file: row.file_index(), line, prologue_end: row.prologue_end() };
            previous = Some((row.address(), current));
        }
    }
}

fn matching_files(debug_info: &DebugInfo, number: u32, unit: &Unit<Bytes>, file: &Path) -> BTreeSet<u64> {
    let Some(program) = &unit.line_program else {
        return BTreeSet::new();
    };
    // Files count from one in old versions, from zero in new ones.
    let indices = 0..=program.header().file_names().len() as u64;
    indices.filter(|index| debug_info.file_path(number, *index).is_some_and(|path| path.ends_with(file))).collect()
}

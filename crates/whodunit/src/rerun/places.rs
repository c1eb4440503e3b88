//! From words in a plan to instructions of the recorded program.

use iced_x86::{Decoder, DecoderOptions, Instruction};
use program::space::{AddressSpace, GuestAddress};
use program::variables::{Scope, Variables};
use program::whereabouts::Where;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Which instruction of a place is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The first.
    Start,
    /// The last: whoever has run it has passed the place.
    Passage,
    /// The first conditional branch.
    Branch,
}

const LONGEST_INSTRUCTION: u64 = 15;
/// Lines and functions are not longer.
const LONGEST: u64 = 1 << 20;

pub struct Places {
    variables: Variables,
    /// What stands in the way of names.
    gaps: Vec<String>,
}

impl Places {
    pub fn new(space: &AddressSpace, gaps: Vec<String>) -> Places {
        Places { variables: Variables::new(space), gaps }
    }

    /// The instructions that are meant, any of which will do.
    pub fn find(&self, place: &str, meaning: Meaning) -> Result<Vec<u64>, String> {
        let found = match place.rsplit_once(':') {
            _ if place.starts_with("0x") => self.address(place).map(|address| self.exactly(address, meaning)),
            Some((file, line)) if line.parse::<u32>().is_ok() => self.line(file, line.parse().unwrap_or(0), meaning),
            _ => self.function(place, meaning),
        };
        let found = found.map_err(|problem| self.with_gaps(problem))?;
        if found.is_empty() {
            return Err(match meaning {
                Meaning::Branch => format!("{place} has no conditional branch"),
                Meaning::Start | Meaning::Passage => format!("{place} has no code"),
            });
        }
        Ok(found)
    }

    /// Where a thread has passed a place: the instructions that it must have run; for calls, where they return to.
    pub fn passage(&self, place: &str) -> Result<(Vec<u64>, Vec<u64>), String> {
        let (mut executed, mut returns) = (Vec::new(), Vec::new());
        for address in self.find(place, Meaning::Passage)? {
            let instruction =
                self.instructions(address..address.saturating_add(LONGEST_INSTRUCTION)).into_iter().next();
            match instruction.filter(|instruction| instruction.is_call_near() || instruction.is_call_near_indirect()) {
                Some(call) => returns.push(call.next_ip()),
                None => executed.push(address),
            }
        }
        Ok((executed, returns))
    }

    /// The instruction behind another one.
    pub fn behind(&self, address: u64) -> Option<u64> {
        let range = address..address.saturating_add(LONGEST_INSTRUCTION);
        self.instructions(range).first().map(Instruction::next_ip)
    }

    fn with_gaps(&self, problem: String) -> String {
        match self.gaps.first() {
            Some(gap) => format!("{problem} ({gap})"),
            None => problem,
        }
    }

    fn address(&self, text: &str) -> Result<u64, String> {
        u64::from_str_radix(&text[2..], 16).map_err(|_| format!("`{text}` is no address"))
    }

    /// One instruction; what is not in a file cannot be looked at beforehand.
    fn exactly(&self, address: u64, meaning: Meaning) -> Vec<u64> {
        let first = self.instructions(address..address.saturating_add(LONGEST_INSTRUCTION)).into_iter().next();
        let fits = meaning != Meaning::Branch || first.is_none_or(|first| first.is_jcc_short_or_near());
        if fits { vec![address] } else { Vec::new() }
    }

    fn line(&self, file: &str, line: u32, meaning: Meaning) -> Result<Vec<u64>, String> {
        let ranges = self.variables.code_of_line(Path::new(file), line).map_err(|error| error.to_string())?;
        let ranges = ranges.into_iter().map(|range| range.start.0..range.end.0);
        Ok(match meaning {
            Meaning::Start => ranges.map(|range| range.start).collect(),
            Meaning::Passage => {
                ranges.filter_map(|range| self.instructions(range).last().map(Instruction::ip)).collect()
            }
            Meaning::Branch => ranges.filter_map(|range| self.branch_in(range)).take(1).collect(),
        })
    }

    fn function(&self, text: &str, meaning: Meaning) -> Result<Vec<u64>, String> {
        let (name, offset) = match text.split_once('+') {
            None => (text, None),
            Some((name, offset)) => {
                let digits =
                    offset.strip_prefix("0x").map_or_else(|| offset.parse(), |hex| u64::from_str_radix(hex, 16));
                (name, Some(digits.map_err(|_| format!("`{text}` has no number behind the `+`"))?))
            }
        };
        let functions = self.variables.functions_named(name);
        if functions.is_empty() {
            return Err(self.no_function(name));
        }
        let starts = functions.iter().filter_map(|function| function.code.first());
        Ok(match (offset, meaning) {
            (Some(offset), _) => {
                starts.flat_map(|code| self.exactly(code.start.0.wrapping_add(offset), meaning)).collect()
            }
            (None, Meaning::Branch) => starts.filter_map(|code| self.branch_in(code.start.0..code.end.0)).collect(),
            (None, _) => starts.map(|code| code.start.0).collect(),
        })
    }

    /// The complaint that an expression in the function would get: it offers similar names.
    fn no_function(&self, name: &str) -> String {
        let asked = Where::parse(&format!("{name}:x")).map_err(|error| error.to_string());
        let answer = asked
            .and_then(|place| self.variables.resolve(&place, &Scope::default()).map_err(|error| error.to_string()));
        answer.err().unwrap_or_else(|| format!("there is no function `{name}`"))
    }

    fn branch_in(&self, range: Range<u64>) -> Option<u64> {
        let branch = self.instructions(range).into_iter().find(Instruction::is_jcc_short_or_near);
        branch.map(|instruction| instruction.ip())
    }

    fn instructions(&self, range: Range<u64>) -> Vec<Instruction> {
        let bytes = self.bytes(&range).unwrap_or_default();
        let decoder = Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE);
        decoder.into_iter().take_while(|instruction| !instruction.is_invalid()).collect()
    }

    fn bytes(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let mapping = self.variables.space().mapping_at(GuestAddress(range.start))?;
        let length = range.end.min(mapping.end).checked_sub(range.start).filter(|length| *length <= LONGEST)?;
        let file = File::open(mapping.path.as_ref()?).ok()?;
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(&mut bytes, mapping.offset + (range.start - mapping.start)).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }
}

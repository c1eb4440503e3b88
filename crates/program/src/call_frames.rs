//! Call-frame information: from a function's registers to its caller's.
//!
//! Both `.eh_frame` and `.debug_frame` are read, the first preferred. All registers are followed and expressions may
//! read memory: signal trampolines, realigned stacks and the dynamic loader's lazy binding cannot be passed without.

use std::collections::BTreeMap;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, Encoding, EvaluationResult, Location,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value, X86_64,
};

use crate::elf::{Bytes, Image, SectionBytes};
use crate::registers::{DWARF_NUMBERS, Registers};
use crate::space::FileVma;
use crate::unwind::{Memory, read_word};

/// Generous for any expression a compiler writes; ends those that loop.
const MAX_OPERATIONS: u32 = 10_000;

/// Where one step up the stack leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The caller, with `pc` at the return address.
    Caller(Registers),
    /// Code that a signal interrupted, with `pc` at the instruction to be resumed.
    Interrupted(Registers),
    /// The rules say that nobody called this function.
    Outermost,
}

/// Where a function's frame is, in a part of its code: so many bytes from a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameRow {
    pub code: Range<u64>,
    /// DWARF's number.
    pub register: u16,
    pub offset: i64,
}

/// The call-frame information of one file.
#[derive(Debug, Default)]
pub(crate) struct CallFrames {
    eh_frame: Option<RuleSection<EhFrame<Bytes>>>,
    debug_frame: Option<RuleSection<DebugFrame<Bytes>>>,
}

impl CallFrames {
    pub fn load(image: &Image) -> CallFrames {
        CallFrames { eh_frame: load_eh_frame(image), debug_frame: load_debug_frame(image) }
    }

    /// `None` if nothing is known about the code at `address`, or the rules cannot be followed.
    pub fn step(&self, address: FileVma, registers: &Registers, memory: &dyn Memory) -> Option<Step> {
        let from_eh_frame = self.eh_frame.as_ref().and_then(|rules| rules.step(address, registers, memory));
        from_eh_frame.or_else(|| self.debug_frame.as_ref()?.step(address, registers, memory))
    }
}

impl CallFrames {
    /// Where the frame of the function around an address is, for all of its code where a register tells.
    pub fn rows(&self, address: FileVma) -> Vec<FrameRow> {
        let rows = self.eh_frame.as_ref().map(|rules| rules.rows(address)).filter(|rows| !rows.is_empty());
        rows.or_else(|| self.debug_frame.as_ref().map(|rules| rules.rows(address))).unwrap_or_default()
    }
}

fn load_eh_frame(image: &Image) -> Option<RuleSection<EhFrame<Bytes>>> {
    let section = image.section(".eh_frame").or_else(|| eh_frame_by_header(image))?;
    let text = image.section(".text").map_or(0, |text| text.address);
    let mut eh_frame = EhFrame::from(section.bytes);
    eh_frame.set_address_size(8);
    Some(RuleSection::new(eh_frame, BaseAddresses::default().set_eh_frame(section.address).set_text(text)))
}

/// Without section headers nothing tells where `.eh_frame` ends; it has its own terminator.
fn eh_frame_by_header(image: &Image) -> Option<SectionBytes> {
    let header = image.frame_header()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.address);
    let parsed = EhFrameHdr::from(header.bytes).parse(&bases, 8).ok()?;
    image.tail_of_segment(parsed.eh_frame_ptr().direct().ok()?)
}

fn load_debug_frame(image: &Image) -> Option<RuleSection<DebugFrame<Bytes>>> {
    let mut debug_frame = DebugFrame::from(image.section(".debug_frame")?.bytes);
    debug_frame.set_address_size(8);
    Some(RuleSection::new(debug_frame, BaseAddresses::default()))
}

/// A section of rules, with an index.
#[derive(Debug)]
struct RuleSection<S> {
    section: S,
    bases: BaseAddresses,
    /// Start of a function's rules to their end and their place in the section.
    index: BTreeMap<u64, (u64, usize)>,
}

impl<S: UnwindSection<Bytes>> RuleSection<S> {
    fn new(section: S, bases: BaseAddresses) -> Self {
        let index = index_of(&section, &bases);
        RuleSection { section, bases, index }
    }

    fn step(&self, address: FileVma, registers: &Registers, memory: &dyn Memory) -> Option<Step> {
        let (_, (end, offset)) = self.index.range(..=address.0).next_back()?;
        if address.0 >= *end {
            return None;
        }
        let entry = self.section.fde_from_offset(&self.bases, (*offset).into(), S::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&self.section, &self.bases, &mut context, address.0).ok()?;
        let machine = Machine { section: &self.section, encoding: entry.cie().encoding(), registers, memory };
        let caller = match machine.caller(row)? {
            Some(caller) => caller,
            None => return Some(Step::Outermost),
        };
        Some(if entry.is_signal_trampoline() { Step::Interrupted(caller) } else { Step::Caller(caller) })
    }
}

impl<S: UnwindSection<Bytes>> RuleSection<S> {
    fn rows(&self, address: FileVma) -> Vec<FrameRow> {
        let mut found = Vec::new();
        let _ = self.read_rows(address, &mut found);
        found
    }

    fn read_rows(&self, address: FileVma, found: &mut Vec<FrameRow>) -> Option<()> {
        let (_, (_, offset)) = self.index.range(..=address.0).next_back().filter(|(_, (end, _))| address.0 < *end)?;
        let entry = self.section.fde_from_offset(&self.bases, (*offset).into(), S::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let mut table = entry.rows(&self.section, &self.bases, &mut context).ok()?;
        while let Some(row) = table.next_row().ok()? {
            if let CfaRule::RegisterAndOffset { register, offset } = row.cfa() {
                let code = row.start_address()..row.end_address();
                found.push(FrameRow { code, register: register.0, offset: *offset });
            }
        }
        Some(())
    }
}

/// Stops at the first damaged entry, since nothing tells where the next one starts.
fn index_of<S: UnwindSection<Bytes>>(section: &S, bases: &BaseAddresses) -> BTreeMap<u64, (u64, usize)> {
    let mut index = BTreeMap::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(entry) = partial.parse(S::cie_from_offset) else {
            continue;
        };
        index.entry(entry.initial_address()).or_insert((entry.end_address(), entry.offset()));
    }
    index
}

/// One frame in which rules are evaluated.
struct Machine<'a, S> {
    section: &'a S,
    encoding: Encoding,
    registers: &'a Registers,
    memory: &'a dyn Memory,
}

impl<S: UnwindSection<Bytes>> Machine<'_, S> {
    /// The caller's registers; `Some(None)` if the return address is stated not to exist.
    fn caller(&self, row: &UnwindTableRow<usize>) -> Option<Option<Registers>> {
        let frame_address = self.frame_address(row.cfa())?;
        let return_address = match row.register(X86_64::RA) {
            None | Some(RegisterRule::Undefined) => return Some(None),
            Some(rule) => self.register(&rule, Some(self.registers.pc), frame_address)?,
        };
        let mut caller = self.registers.preserved();
        caller.set_sp(frame_address);
        caller.pc = return_address;
        for (position, number) in DWARF_NUMBERS.iter().enumerate() {
            if let Some(rule) = row.register(*number) {
                let current = self.registers.general[position];
                caller.general[position] = self.register(&rule, current, frame_address);
            }
        }
        Some(Some(caller))
    }

    fn frame_address(&self, rule: &CfaRule<usize>) -> Option<u64> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(self.registers.by_dwarf_number(*register)?.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    fn register(&self, rule: &RegisterRule<usize>, current: Option<u64>, frame_address: u64) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => current,
            RegisterRule::Offset(offset) => read_word(self.memory, frame_address.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(frame_address.wrapping_add_signed(*offset)),
            RegisterRule::Register(register) => self.registers.by_dwarf_number(*register),
            RegisterRule::Expression(expression) => {
                read_word(self.memory, self.evaluate(expression, Some(frame_address))?)
            }
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(frame_address)),
            RegisterRule::Constant(value) => Some(*value),
            _ => None,
        }
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, initial: Option<u64>) -> Option<u64> {
        let mut evaluation = expression.get(self.section).ok()?.evaluation(self.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(value) = initial {
            evaluation.set_initial_value(value);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.by_dwarf_number(register)?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = self.read_sized(address, size)?;
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }

    fn read_sized(&self, address: u64, size: u8) -> Option<u64> {
        let mut word = [0; 8];
        let buffer = word.get_mut(..usize::from(size))?;
        self.memory.read(address, buffer).then(|| u64::from_le_bytes(word))
    }
}

//! `why --silent`: memory corruption that nothing crashes on, by runs with other layouts of memory.
//!
//! Everything that can be overrun is moved to where a guard follows it; where a guard has been written to, a second run
//! with the same layout watches it and ends at the first store that reaches it. A run with the layout as it was is the
//! control. A layout that makes the program end otherwise, without a broken guard, tells nothing.

use super::blame::{self, Overrun};
use super::chain::number;
use super::sites::Sites;
use super::verdict::{deed, place_of, statement, words_for};
use crate::races::Subject;
use crate::recordings::Trouble;
use crate::recordings::text::count;
use crate::rerun::layout::{beside, n_parts, overrun};
use crate::rerun::try_out;
use program::movable::{Movable, MovablePlace, Movables};
use program::variables::Variables;
use session::rerun::{Broken, Ending, Guarded, Layout, Outcome, Plan, Relaid, Space, Step};
use trace::finding::{Address, Cause, Class, Evidence, Finding, Findings, Place, Side, Thread, Variable};

const ALL: [Space; 3] = [Space::Heap, Space::Globals, Space::Stack];
/// So many variables may turn out not to bear being moved.
const MOST_TRIES: usize = 8;
/// So many variables that stay are told of by name.
const MOST_NAMED: usize = 5;
/// So many calls that led to an allocation are told.
const MOST_FRAMES: usize = 8;

/// Looks for memory corruption in a recorded run, however that ended.
pub fn look(subject: &Subject<'_>, findings: &mut Findings) -> Result<(), Trouble> {
    let movables = Movables::of(&Variables::new(&subject.recorded.space));
    let (moved, remarks) = (Relaid::default(), Vec::new());
    let mut search = Search { subject, movables, control: None, n_layouts: 0, moved, remarks };
    let found = search.go()?;
    findings.summary.text = Some(search.summary());
    findings.notes = search.notes();
    if let Some(found) = found {
        findings.push(search.finding(&found));
    }
    Ok(())
}

/// A guard that was watched while it was written to.
struct Found {
    layout: Layout,
    broken: Broken,
    outcome: Outcome,
}

struct Search<'a> {
    subject: &'a Subject<'a>,
    movables: Movables,
    /// How the run with the recorded layout ends.
    control: Option<Ending>,
    n_layouts: usize,
    /// What was moved in all.
    moved: Relaid,
    remarks: Vec<String>,
}

impl Search<'_> {
    fn go(&mut self) -> Result<Option<Found>, Trouble> {
        let control = self.run(&Layout::default())?;
        if let Ending::LeftTheRecording { needs } = control.ending {
            return Err(Trouble::Refused(format!("the recording cannot be run anew: it does not tell {needs}")));
        }
        self.control = Some(control.ending);
        for part in 0..n_parts(&self.movables) {
            let spaces = if part == 0 { ALL.to_vec() } else { vec![Space::Stack] };
            if let Some(found) = self.look(Layout { spaces, part, ..Layout::default() })? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Tries one layout; if the program does not bear it, each of its spaces by itself.
    fn look(&mut self, mut layout: Layout) -> Result<Option<Found>, Trouble> {
        for _ in 0..MOST_TRIES {
            self.n_layouts += 1;
            let outcome = self.run(&layout)?;
            let relaid = outcome.relaid.clone().unwrap_or_default();
            self.note_moved(&relaid);
            if relaid.broken.is_empty() {
                return match self.control.as_ref() == Some(&outcome.ending) {
                    true => Ok(None),
                    false => self.look_apart(&layout, &outcome),
                };
            }
            let Some(found) = self.watch(&layout, &relaid)? else { return Ok(None) };
            match self.is_sure(&found)? {
                true => return Ok(Some(found)),
                false => layout.except.push(found.broken.name),
            }
        }
        Ok(None)
    }

    fn look_apart(&mut self, layout: &Layout, outcome: &Outcome) -> Result<Option<Found>, Trouble> {
        let [space] = layout.spaces.as_slice() else {
            for space in &layout.spaces {
                if let Some(found) = self.look(Layout { spaces: vec![*space], ..layout.clone() })? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        };
        let what = match space {
            Space::Heap => "the heap",
            Space::Globals => "global variables",
            Space::Stack => "variables on the stack",
        };
        self.remarks.push(format!("With {what} elsewhere the program {}: that tells nothing.", ended(&outcome.ending)));
        Ok(None)
    }

    /// The store that reaches one of the broken guards first.
    fn watch(&mut self, layout: &Layout, relaid: &Relaid) -> Result<Option<Found>, Trouble> {
        let watch = relaid.broken.iter().map(|broken| broken.guard).collect();
        let layout = Layout { watch, ..layout.clone() };
        self.n_layouts += 1;
        let outcome = self.run(&layout)?;
        let broken = outcome.relaid.as_ref().and_then(|relaid| relaid.broken.iter().find(|broken| broken.by.is_some()));
        Ok(broken.cloned().map(|broken| Found { layout, broken, outcome }))
    }

    /// Where the end of the variable may be the beginning of another, both meanings must show the same.
    fn is_sure(&mut self, found: &Found) -> Result<bool, Trouble> {
        let is_doubtful = self.variable(&found.broken).is_some_and(|variable| !variable.ends.is_empty());
        if !is_doubtful {
            return Ok(true);
        }
        let Layout { spaces, part, .. } = found.layout.clone();
        let only = Some(found.broken.name.clone());
        self.n_layouts += 1;
        let outcome = self.run(&Layout { spaces, part, only, ends: true, ..Layout::default() })?;
        let broken = outcome.relaid.map_or_else(Vec::new, |relaid| relaid.broken);
        Ok(broken.iter().any(|broken| broken.name == found.broken.name && broken.what == found.broken.what))
    }

    fn variable_of(&self, broken: &Broken) -> Variable {
        let text = match broken.what {
            Guarded::Global | Guarded::Local => beside(broken, "its end", "it"),
            Guarded::Block | Guarded::FreedBlock => beside(broken, "the end of the block", "the block"),
        };
        let name = broken.name.rsplit(':').next().filter(|name| !name.is_empty()).map(str::to_owned);
        let address = match self.variable(broken).map(|variable| variable.place) {
            Some(MovablePlace::Global(address)) => Some(Address(address.0)),
            _ => None,
        };
        Variable {
            name,
            address,
            size: Some(broken.size),
            text: Some(format!("written to {text}")),
            ..Variable::default()
        }
    }

    fn variable(&self, broken: &Broken) -> Option<&Movable> {
        let variables = match broken.what {
            Guarded::Global => &self.movables.globals,
            Guarded::Local => &self.movables.locals,
            Guarded::Block | Guarded::FreedBlock => return None,
        };
        variables.iter().find(|variable| variable.name == broken.name)
    }

    fn run(&self, layout: &Layout) -> Result<Outcome, Trouble> {
        try_out(self.subject.recording.folder(), self.subject.log, &plan(layout))
    }

    fn note_moved(&mut self, relaid: &Relaid) {
        let Relaid { blocks, globals, locals, .. } = &mut self.moved;
        *blocks = relaid.blocks.max(*blocks);
        *globals = relaid.globals.max(*globals);
        *locals = relaid.locals.max(*locals);
    }

    fn summary(&self) -> String {
        let locals = if self.moved.locals > 0 { self.movables.locals.len() } else { 0 };
        format!(
            "{} of memory tried, besides one as recorded; moved: {} of the heap, {}, {} on the stack.",
            count(self.n_layouts, "layout"),
            count(self.moved.blocks as usize, "block"),
            count(self.moved.globals as usize, "global variable"),
            count(locals, "variable")
        )
    }

    /// What stays where it is, and so is not seen to be overrun.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.movables.remarks.iter().map(|remark| sentence(remark)).collect();
        notes.extend(self.remarks.iter().cloned());
        if self.subject.recorded.threads.len() > 1 {
            notes.push("The program has threads: variables on the stack stay where they are.".to_owned());
        }
        let fixed = &self.movables.fixed;
        let named: Vec<String> =
            fixed.iter().take(MOST_NAMED).map(|(name, reason)| format!("`{name}` ({reason})")).collect();
        if !named.is_empty() {
            let more = fixed.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("Not moved: {}{more}.", named.join(", ")));
        }
        notes
    }

    fn finding(&self, found: &Found) -> Finding {
        let Found { layout, broken, outcome } = found;
        let sites = Sites::new(&self.subject.recorded.space);
        let class = match broken.what {
            Guarded::Block => Class::HeapOverflow,
            Guarded::FreedBlock => Class::UseAfterFree,
            Guarded::Global => Class::GlobalOverflow,
            Guarded::Local => Class::StackOverflow,
        };
        let thread = outcome.threads.iter().find(|thread| thread.thread == outcome.thread);
        let stack = thread.map(|thread| thread.stack.as_slice()).unwrap_or_default();
        let place = statement(stack, &sites).unwrap_or_default();
        let title = format!("{} {}", words_for(&place), deed(class));
        let (name, log) = (&self.subject.name, self.subject.log);
        let plan = plan(layout).text();
        let mut finding =
            Finding::proved(class, &title, &format!("whodunit rerun {name} --process {log} --plan '{plan}'"));
        finding.causes = vec![Cause {
            place: place.clone(),
            thread: Some(outcome.thread),
            text: format!("writes {}", overrun(broken)),
        }];
        finding.variable = Some(self.variable_of(broken));
        finding.sides = stack_of_block(broken, outcome.thread, &sites).into_iter().collect();
        let made_by: Vec<u64> = broken.callers.iter().skip(1).map(|caller| number(caller)).collect();
        let overrun = Overrun { thread: outcome.thread, size: broken.size, stack, made_by: &made_by };
        blame::assign(&mut finding, &overrun, &sites);
        finding.threads = vec![Thread { thread: outcome.thread, ..Thread::default() }];
        finding.evidence = Evidence {
            recording: Some(name.clone()),
            process: Some(log),
            plan: serde_json::from_str(&plan).ok(),
            ..Evidence::default()
        };
        finding
    }
}

fn plan(layout: &Layout) -> Plan {
    Plan::new(vec![Step::Layout(layout.clone())])
}

/// Who allocated a block, or gave it back: its size may be the mistake.
fn stack_of_block(broken: &Broken, thread: u32, sites: &Sites) -> Option<Side> {
    let deed = if broken.what == Guarded::FreedBlock { "gave the block back" } else { "allocated the block" };
    // Return addresses lie behind their calls; the first is that of the function itself.
    let pcs = broken.callers.iter().skip(1).map(|caller| number(caller).saturating_sub(1));
    let stack: Vec<Place> = pcs
        .flat_map(|pc| sites.frames(pc).iter().map(|frame| place_of(pc, frame)).collect::<Vec<_>>())
        .take(MOST_FRAMES)
        .collect();
    let side = Side { thread, text: format!("{deed} here"), stack, locks: None, waits_for: None };
    (!side.stack.is_empty()).then_some(side)
}

fn ended(ending: &Ending) -> String {
    match ending {
        Ending::Exited { status } => format!("ends with status {status}"),
        Ending::Killed { name, .. } => format!("ends by {name}"),
        Ending::LeftTheRecording { needs } => format!("needs {needs}, which the recording does not tell"),
        Ending::Limit {} | Ending::Deadlock {} | Ending::OutOfInput {} | Ending::Stopped {} => {
            "does not come to its end".to_owned()
        }
    }
}

fn sentence(remark: &str) -> String {
    let mut letters = remark.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

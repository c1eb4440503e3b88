//! Where a replay meets its plan: following until the plan acts, leaving, and from then on the free run.

use super::channels::tail::Tail;
use super::course::{Course, Due};
use super::free::{Free, Run, end};
use super::kept::{Kept, sent_at};
use super::layout::Laid;
use super::machine::Machine;
use super::outcome::{Ending, Leaving, Rerun};
use super::plan::{Plan, Step};
use super::retelling::Retelling;
use super::rivals::Rival;
use super::scrutiny::Scrutiny;
use super::{Replay, State};
use crate::code::path::decode_at;
use crate::context::{Context, Fault};
use crate::engine::Engine;
use crate::guest_code::LiveCode;
use crate::instructions;
use iced_x86::ConditionCode;
use std::collections::BTreeSet;
use trace::event::{EndKind, Event};

pub struct WhatIf {
    pub course: Course,
    pub kept: Kept,
    pub free: Option<Free>,
    pub scrutiny: Scrutiny,
    pub laid: Option<Laid>,
    pub retelling: Option<Retelling>,
    /// The byte of standard output that ends the run.
    output: Option<u64>,
    /// Instructions that the plan speaks of.
    pub places: BTreeSet<u64>,
    /// Plans that copies of the process will carry out.
    pub rivals: Vec<Rival>,
}

impl WhatIf {
    pub fn new(plan: Plan, rivals: Vec<Plan>) -> WhatIf {
        let places = plan.places().into_iter().collect();
        let output = plan.steps.iter().find_map(|step| match step {
            Step::Output(byte) => Some(*byte),
            _ => None,
        });
        let Plan { steps, layout, policy, limit, structures, retold } = plan;
        let course = Course::new(steps, policy, limit);
        let (laid, retelling) = (layout.map(Laid::new), retold.map(Retelling::new));
        let (kept, scrutiny) = (Kept::default(), Scrutiny::new(structures));
        WhatIf { course, kept, free: None, scrutiny, laid, retelling, output, places, rivals: Rival::all(rivals) }
    }
}

impl WhatIf {
    /// Ends the run if the call has written the byte that the plan waits for.
    fn end_at_output(&mut self, engine: &Engine, context: &Context, event: &Event<'_>, machine: &Machine) {
        let (Some(byte), Event::Call(call)) = (self.output, event) else { return };
        let written = self.kept.written(libc::STDOUT_FILENO);
        if written <= byte || call.arguments.is_none_or(|arguments| arguments[0] != libc::STDOUT_FILENO as u64) {
            return;
        }
        let offset = (written - byte).checked_sub(1).and_then(|behind| (call.result as u64).checked_sub(1 + behind));
        let address = offset.and_then(|offset| sent_at(call, offset));
        let origins = address.and_then(|address| self.scrutiny.told_at(address));
        end(engine, &Rerun { origins, ..as_recorded(machine, self, context, Ending::Stopped) })
    }
}

impl Replay {
    /// The thread stands at an instruction that the plan speaks of. Tells whether it is to run it.
    pub fn place(&self, engine: &Engine, context: &mut Context) -> bool {
        self.state().place(engine, context)
    }

    /// The thread has run the instruction it stood at. Tells whether another one has the turn for that.
    pub fn passed_place(&self, engine: &Engine, context: &mut Context, thread: u32) -> bool {
        self.state().pass(engine, context, thread)
    }
}

impl State {
    pub(super) fn pass(&mut self, engine: &Engine, context: &mut Context, thread: u32) -> bool {
        if let Some(retelling) = self.retelling() {
            retelling.passes(thread);
        }
        if let Some(mut run) = self.free_run(engine, context) {
            run.look_at_watched();
            run.look_at_awaited(thread);
            return run.passed(thread);
        }
        if let Some(what_if) = &mut self.what_if {
            what_if.passed(thread);
        }
        false
    }

    /// The free run, if the recording has been left.
    pub fn free_run<'a>(&'a mut self, engine: &'a Engine, context: &'a mut Context) -> Option<Run<'a>> {
        let WhatIf { course, kept, free, scrutiny, laid, retelling, .. } = self.what_if.as_deref_mut()?;
        let (machine, free) = (&mut self.machine, free.as_mut()?);
        let (laid, retelling) = (laid.as_mut(), retelling.as_mut());
        Some(Run { engine, context, machine, course, kept, free, scrutiny, laid, retelling })
    }

    /// Of the process that is asked for, not of those that it was forked from.
    fn retelling(&mut self) -> Option<&mut Retelling> {
        self.what_if.as_mut().filter(|_| self.legs.is_empty()).and_then(|what_if| what_if.retelling.as_mut())
    }

    pub(super) fn place(&mut self, engine: &Engine, context: &mut Context) -> bool {
        if let Some(retelling) = self.retelling() {
            retelling.arrives(engine, context);
        }
        if let Some(mut run) = self.free_run(engine, context) {
            return !run.answers_here() && run.place();
        }
        let Some(due) = self.due_while_following(engine, context) else { return true };
        if due == Due::Stop {
            self.stop_as_asked(engine, context);
        }
        self.leave(engine, context);
        let thread = context.thread;
        let Some(mut run) = self.free_run(engine, context) else { return true };
        match due {
            Due::Leave => {
                run.set_off();
                run.context.thread == thread && run.place()
            }
            due => run.act(due),
        }
    }

    /// What a plan wants where the thread stands, while the recording is followed.
    fn due_while_following(&mut self, engine: &Engine, context: &Context) -> Option<Due> {
        if !self.may_leave() {
            return None;
        }
        let course = &mut self.what_if.as_mut()?.course;
        let due = course.due_at_place(context.thread, context.pc, context.clock());
        due.filter(|due| *due != Due::Release).or_else(|| self.branch(engine, context))
    }

    /// Does what the plan wants at the current thread's clock. Tells whether the recording was left for that.
    pub fn leaves_at_clock(&mut self, engine: &Engine, context: &mut Context) -> bool {
        if !self.may_leave() {
            return false;
        }
        let Some(what_if) = &self.what_if else { return false };
        match what_if.course.due_at_clock(context.thread, context.clock()) {
            Some(Due::Stop) => self.stop_as_asked(engine, context),
            Some(Due::Leave) => self.leave(engine, context),
            _ => return false,
        }
        if let Some(mut run) = self.free_run(engine, context) {
            run.set_off();
        }
        true
    }

    /// The same at an event of the recording, where it would take effect.
    pub fn leaves_at_event(&mut self, engine: &Engine, context: &mut Context, event: u64) -> bool {
        let Machine { pending, at_stop, faulted, ended, .. } = &self.machine;
        let takes_effect = pending.is_some() || *at_stop || faulted.is_some() || *ended;
        if !takes_effect || !self.is_to_leave_at(event) {
            return false;
        }
        self.leave(engine, context);
        if let Some(mut run) = self.free_run(engine, context) {
            run.set_off();
        }
        true
    }

    /// Some events tell of nothing that the guest does: the recording is then left at the next that does.
    fn is_to_leave_at(&self, event: u64) -> bool {
        let wanted = self.what_if.as_ref().and_then(|what_if| what_if.course.leaves_at_event());
        self.may_leave() && wanted.is_some_and(|wanted| event >= wanted)
    }

    /// Whether the guest is whole: it has begun, no signal is half delivered, no call half made, and no child runs in a
    /// parent's memory. The plan is about the process that is asked for, not about those that it was forked from.
    fn may_leave(&self) -> bool {
        let Machine { begun, delivering, pending, half_called, parents, .. } = &self.machine;
        let is_calling = pending.is_some() && *half_called;
        *begun && !delivering && !is_calling && parents.is_empty() && self.legs.is_empty()
    }

    /// The same where the event is an instruction that asks the machine: the thread runs it first.
    fn leaves_at_instruction(&mut self, engine: &Engine, context: &mut Context) {
        let event = self.cursor.peek().map(|record| record.number);
        if event.is_some_and(|event| self.is_to_leave_at(event)) {
            self.leave(engine, context);
            if let Some(mut run) = self.free_run(engine, context) {
                run.set_off_soon();
            }
        }
    }

    /// From here on the recording only answers.
    pub fn leave(&mut self, engine: &Engine, context: &mut Context) {
        let event = self.cursor.peek().map_or(self.machine.figures.events, |record| record.number);
        let leaving = Leaving { event, thread: context.thread, clock: context.clock(), pc: context.pc };
        let Some(what_if) = &mut self.what_if else { return };
        let files = &mut self.machine.files;
        let retelling = &mut what_if.retelling;
        let Kept { answers, descriptors, waiters, identity, .. } = &mut what_if.kept;
        answers.inputs = descriptors.sources();
        let mut tail = Tail::new(descriptors.kinds(), waiters, identity.pid);
        answers.read(&mut self.cursor, &mut tail, |file| {
            files.learn(file);
            if let Some(retelling) = retelling {
                retelling.follow(&Event::File(*file));
            }
        });
        // What has been read already is nearer to what would be read now.
        tail.contents.append(&mut descriptors.contents);
        descriptors.contents = tail.contents;
        what_if.free = Some(Free::new(leaving, what_if.kept.answers.next_descriptor.max(3)));
        if let Some(mut run) = self.free_run(engine, context) {
            run.begin();
            run.lay_out();
            run.watch_awaited();
        }
    }

    /// What the plan should know of an event that was carried out.
    pub fn note_passed(
        what_if: &mut Option<Box<WhatIf>>,
        engine: &Engine,
        context: &Context,
        event: &Event<'_>,
        machine: &Machine,
    ) {
        if let Some(what_if) = what_if {
            if let Some(retelling) = &mut what_if.retelling {
                retelling.follow(event);
            }
            what_if.kept.passed(engine, context, event, machine.pending);
            what_if.scrutiny.passed(context.thread, event);
            what_if.end_at_output(engine, context, event, machine);
        }
    }

    fn stop_as_asked(&mut self, engine: &Engine, context: &Context) {
        if let Some(what_if) = &mut self.what_if {
            end(engine, &as_recorded(&self.machine, what_if, context, Ending::Stopped));
        }
    }

    /// An instruction asks the machine in a free run.
    pub fn free_instruction(&mut self, engine: &Engine, context: &mut Context) -> Option<Vec<u64>> {
        self.leaves_at_instruction(engine, context);
        let run = self.free_run(engine, context)?;
        let instruction = decode_at(&LiveCode(&engine.world().space), run.context.pc).ok()?;
        let kind = instructions::kind(&instruction)?;
        let thread = run.machine.current;
        let recorded = run.kept.answers.instruction(thread, kind);
        let values = recorded.unwrap_or_else(|| match kind {
            trace::event::InstructionKind::Cpuid | trace::event::InstructionKind::Xgetbv => {
                instructions::ask(&instruction, engine, run.context)
            }
            trace::event::InstructionKind::Rdrand | trace::event::InstructionKind::Rdseed => {
                vec![run.free.random.draw(), 1]
            }
            // A counter that goes on, on the first processor.
            _ => vec![run.free.time, 0],
        });
        if let Some(retelling) = run.retelling {
            retelling.instruction(thread, kind, &values);
        }
        Some(values)
    }
}

/// Tells of a run that came to its recorded end before the plan acted.
pub fn finish(
    engine: &Engine,
    machine: &Machine,
    what_if: &mut WhatIf,
    context: &Context,
    kind: EndKind,
    fault: Option<Fault>,
) {
    let ending = match kind {
        EndKind::Exited(status) => Ending::Exited(status),
        EndKind::Killed(death) => {
            let address = fault.filter(|fault| matches!(fault.signal, libc::SIGSEGV | libc::SIGBUS));
            Ending::Killed { signal: death.signal as i32, address: address.map(|fault| fault.address) }
        }
        EndKind::Aborted(_) => return,
    };
    end(engine, &as_recorded(machine, what_if, context, ending))
}

fn as_recorded(machine: &Machine, what_if: &mut WhatIf, context: &Context, ending: Ending) -> Rerun {
    Rerun {
        origins: what_if.scrutiny.told(context.thread),
        ending,
        thread: context.thread,
        clock: context.clock(),
        threads: machine.facts(context),
        events: machine.figures.events,
        left: None,
        output: std::mem::take(&mut what_if.kept.output),
        turns: Vec::new(),
        spent: 0,
        relaid: None,
        changed: Vec::new(),
        remarks: what_if.scrutiny.take_remarks(),
    }
}

/// Where a thread goes on that does not do what the instruction it stands at says; none if there is no other way.
pub fn other_way(engine: &Engine, context: &Context, due: Due) -> Option<u64> {
    let instruction = decode_at(&LiveCode(&engine.world().space), context.pc).ok()?;
    if due == Due::Suppress {
        return Some(instruction.next_ip());
    }
    let is_branch = instruction.is_jcc_short_or_near();
    let taken = holds(instruction.condition_code(), context.rflags).filter(|_| is_branch)?;
    Some(if taken { instruction.next_ip() } else { instruction.near_branch_target() })
}

/// Whether a condition holds; none for those that are not about flags.
pub fn holds(condition: ConditionCode, flags: u64) -> Option<bool> {
    let flag = |bit: u32| flags >> bit & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
    Some(match condition {
        ConditionCode::None => return None,
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !carry && !zero,
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        ConditionCode::g => !zero && sign == overflow,
    })
}

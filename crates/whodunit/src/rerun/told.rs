//! An outcome with names: functions and lines for program counters, words for signals.

use crate::scene::Scene;
use engine::{Rerun, ThreadFacts};
use program::copies::Copies;
use program::symbols::SourceFrame;
use program::unwind::{CodeAddress, CodeAddressKind};
use session::rerun::{
    Accessed, Broken, Changed, Definition, Ending, Frame, Guarded, Left, Origins, Outcome, Output, Relaid, Switch,
    Thread,
};
use std::sync::Arc;

/// Of a long stack only so much is told.
const MOST_FRAMES: usize = 64;

/// If it is to be brief, a run that ended well is told without names.
pub fn told(rerun: &Rerun, copies: &Arc<Copies>, is_brief: bool) -> Outcome {
    let mut scene = Scene::read(copies);
    let has_names = !(is_brief && matches!(rerun.ending, engine::Ending::Exited(_)));
    let facts: Vec<&ThreadFacts> = rerun.threads.iter().filter(|_| has_names).collect();
    let threads = scene.threads(&facts).into_iter().map(|thread| Thread {
        thread: thread.id,
        state: thread.state,
        stack: thread
            .frames
            .iter()
            .flat_map(|frame| frame.resolved.iter().map(|resolved| told_frame(frame.pc, resolved)))
            .take(MOST_FRAMES)
            .collect(),
    });
    let threads = threads.collect();
    Outcome {
        schema: Outcome::SCHEMA.to_owned(),
        ending: ending(&rerun.ending, || impossible_address(rerun, &scene)),
        thread: rerun.thread,
        clock: rerun.clock,
        events: rerun.events,
        left: rerun.left.as_ref().map(|left| told_leaving(left, has_names.then_some(&mut scene))),
        threads,
        output: rerun.output.iter().map(told_output).collect(),
        schedule: rerun.turns.iter().map(|turn| Switch { from: turn.from, clock: turn.clock, to: turn.to }).collect(),
        spent: rerun.spent,
        origins: rerun.origins.as_ref().map(told_origins),
        relaid: rerun.relaid.as_ref().map(told_layout),
        changed: rerun.changed.iter().map(told_change).collect(),
        remarks: rerun.remarks.clone(),
    }
}

fn told_change(changed: &engine::Changed) -> Changed {
    Changed { thread: changed.thread, clock: changed.clock, pc: format!("{:#x}", changed.pc) }
}

fn told_layout(relaid: &engine::Relaid) -> Relaid {
    let engine::Relaid { blocks, globals, locals, broken } = relaid;
    let broken = broken.iter().map(told_broken).collect();
    Relaid { blocks: *blocks, globals: *globals, locals: *locals, broken }
}

fn told_broken(broken: &engine::Broken) -> Broken {
    let hexadecimal = |number: u64| format!("{number:#x}");
    let (what, site) = match broken.what {
        engine::Guarded::Block { site } => (Guarded::Block, Some(site)),
        engine::Guarded::Freed { site } => (Guarded::FreedBlock, Some(site)),
        engine::Guarded::Global => (Guarded::Global, None),
        engine::Guarded::Local => (Guarded::Local, None),
    };
    Broken {
        guard: broken.number,
        what,
        name: broken.name.clone(),
        object: hexadecimal(broken.object.start),
        size: broken.object.end - broken.object.start,
        address: hexadecimal(broken.address),
        by: broken.by.map(hexadecimal),
        site: site.map(hexadecimal),
        callers: broken.callers.iter().copied().map(hexadecimal).collect(),
    }
}

fn told_origins(origins: &engine::Origins) -> Origins {
    Origins {
        steps: origins.steps,
        suppressed: origins.suppressed,
        failure: origins.failure.as_ref().map(told_definition),
        branches: origins.branches.clone(),
        definitions: origins.definitions.iter().map(told_definition).collect(),
    }
}

fn told_definition(definition: &engine::Definition) -> Definition {
    let memory = Accessed {
        address: format!("{:#x}", definition.address),
        size: definition.size,
        writes: definition.writes,
        from: (definition.from != 0).then(|| format!("{:#x}", definition.from)),
        overwrites: (definition.overwrites != 0).then_some(definition.overwrites),
        return_below: (definition.return_below != 0).then(|| format!("{:#x}", definition.return_below)),
    };
    Definition {
        number: definition.number,
        thread: definition.thread,
        clock: definition.clock,
        pc: format!("{:#x}", definition.pc),
        time: definition.time,
        memory: (definition.size > 0).then_some(memory),
        copies: definition.copies,
        system_call: definition.system_call,
        decided: (definition.decided != 0).then_some(definition.decided),
        value: format!("{:#x}", definition.value),
        values: definition.values.clone(),
        addresses: definition.addresses.clone(),
    }
}

/// Where the thread that failed accessed something that cannot be.
fn impossible_address(rerun: &Rerun, scene: &Scene) -> Option<u64> {
    let thread = rerun.threads.iter().find(|thread| thread.id.0 == rerun.thread)?;
    scene.impossible_access(thread.pc, &thread.registers).map(|(address, _)| address)
}

/// For an access that cannot be, the kernel tells zero: then `impossible` may know better.
fn ending(ending: &engine::Ending, impossible: impl FnOnce() -> Option<u64>) -> Ending {
    match ending {
        engine::Ending::Exited(status) => Ending::Exited { status: *status },
        engine::Ending::Killed { signal, address } => {
            let address = if *address == Some(0) { impossible().or(*address) } else { *address };
            let address = address.map(|address| format!("{address:#x}"));
            Ending::Killed { signal: *signal, name: report::signals::name(*signal), address }
        }
        engine::Ending::Deadlock => Ending::Deadlock {},
        engine::Ending::Limit => Ending::Limit {},
        engine::Ending::OutOfInput => Ending::OutOfInput {},
        engine::Ending::Needs(call) => Ending::LeftTheRecording { needs: call.clone() },
        engine::Ending::Stopped => Ending::Stopped {},
    }
}

fn told_leaving(left: &engine::Leaving, scene: Option<&mut Scene>) -> Left {
    let address = CodeAddress { pc: left.pc, kind: CodeAddressKind::Exact };
    let functions = scene.map(|scene| scene.functions_at(address)).unwrap_or_default();
    let place = functions.first().map_or_else(String::new, |frame| {
        let frame = told_frame(left.pc, frame);
        format!("{} ({})", frame.function.as_deref().unwrap_or("?"), super::text::source(&frame))
    });
    Left { event: left.event, thread: left.thread, clock: left.clock, pc: format!("{:#x}", left.pc), place }
}

fn told_output(written: &engine::Written) -> Output {
    Output {
        descriptor: written.descriptor,
        text: String::from_utf8_lossy(&written.bytes).into_owned(),
        bytes: written.bytes.len() as u64,
    }
}

fn told_frame(pc: u64, frame: &SourceFrame) -> Frame {
    Frame {
        pc: format!("{pc:#x}"),
        function: frame.function.clone(),
        file: frame.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
        line: frame.line,
        module: frame.module.clone(),
        module_offset: format!("{:#x}", frame.module_offset),
    }
}

//! Findings as SARIF 2.1.0, which code hosts and editors read.
//!
//! A class is a rule. The most guilty statement is a result's place, the other ones and the stacks' places are related to
//! it, and the steps are one flow of code with a flow for each thread, held together by the order of execution.

mod fingerprint;
mod locations;

use program::source::SourceCache;
use serde_json::{Map, Value, json};
use trace::finding::{Class, Finding, Findings, Status};

use super::words::{self, Told};
use super::{classes, timeline};
use crate::look::Look;
use fingerprint::Fingerprints;
use locations::Locations;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The name under which readers compare fingerprints; another way of computing them gets another number.
const FINGERPRINT: &str = "whodunitCauses/v1";

pub(super) fn render(findings: &Findings, sources: &mut SourceCache, look: &Look) -> String {
    let rules = rules(findings);
    let mut fingerprints = Fingerprints::default();
    let mut locations = Locations { sources, look };
    let results: Vec<Value> = findings
        .findings
        .iter()
        .map(|finding| {
            let fingerprint = fingerprints.of(finding, locations.sources);
            result(finding, &rules, &fingerprint, &mut locations)
        })
        .collect();
    let mut run = json!({
        "tool": {"driver": {
            "name": findings.tool.name,
            "version": findings.tool.version,
            "rules": rules.iter().map(|class| rule(*class)).collect::<Vec<_>>(),
        }},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {
            "verb": findings.verb,
            "program": findings.program,
            "arguments": findings.arguments,
            "recording": findings.recording,
            "suppressed": findings.summary.suppressed,
            "leftOut": findings.summary.left_out,
            "notes": findings.notes,
        },
    });
    if let Some(bases) = locations.bases() {
        run["originalUriBaseIds"] = bases;
    }
    let log = json!({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]});
    format!("{log:#}\n")
}

/// The classes that occur, in the order of their declaration.
fn rules(findings: &Findings) -> Vec<Class> {
    let occurs = |class: &Class| findings.findings.iter().any(|finding| finding.class == *class);
    Class::ALL.into_iter().filter(occurs).collect()
}

fn rule(class: Class) -> Value {
    let about = classes::about(class);
    json!({
        "id": class.word(),
        "name": pascal_case(class.word()),
        "shortDescription": {"text": words::capitalised(about.name)},
        "fullDescription": {"text": about.meaning},
        "help": {"text": about.meaning},
        "defaultConfiguration": {"level": "error"},
    })
}

fn pascal_case(word: &str) -> String {
    word.split('-').map(words::capitalised).collect()
}

fn result(finding: &Finding, rules: &[Class], fingerprint: &str, locations: &mut Locations<'_>) -> Value {
    let level = match finding.status() {
        Status::Proved => "error",
        Status::Suspected => "warning",
    };
    let mut result = json!({
        "ruleId": finding.class.word(),
        "ruleIndex": rules.iter().position(|class| *class == finding.class),
        "kind": "fail",
        "level": level,
        "message": message(&summary_of(finding, locations.look)),
        "locations": primary(finding, locations),
        "occurrenceCount": finding.count.max(1),
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "properties": {
            "status": finding.status(),
            "evidence": finding.evidence,
            "rerun": finding.rerun(),
            "next": finding.next,
            "notes": finding.notes,
        },
    });
    if !finding.grounds.is_empty() {
        result["properties"]["grounds"] = json!(finding.grounds);
    }
    let related = related(finding, locations);
    add(&mut result, "relatedLocations", related);
    let flows = Vec::from_iter((!finding.steps.is_empty()).then(|| flow(finding, locations)));
    add(&mut result, "codeFlows", flows);
    let stacks = words::stacks(finding, locations.look).into_iter().filter(|told| !told.stack.is_empty());
    let stacks = stacks.map(|told| stack(&told, locations)).collect();
    add(&mut result, "stacks", stacks);
    result
}

/// Arrays that say nothing are left out.
fn add(object: &mut Value, name: &str, values: Vec<Value>) {
    if !values.is_empty() {
        object[name] = Value::Array(values);
    }
}

/// Readers take `[text](target)` for a link, which some names of functions look like.
fn message(text: &str) -> Value {
    json!({"text": text.replace("](", "] (")})
}

/// The title with what one needs where only messages are shown.
fn summary_of(finding: &Finding, look: &Look) -> String {
    let mut text = format!("{} ({})", words::title(finding), words::standing(finding));
    if let Some(failure) = &finding.failure {
        text += &format!("\nFailure: {}", words::failure(finding, failure, look));
    }
    for preemption in &finding.schedule {
        text += &format!("\n{}", words::capitalised(&words::preemption(finding, preemption, look)));
    }
    if let Some(command) = finding.rerun() {
        text += &format!("\nTo see it again: {command}");
    }
    text
}

/// Where the reader is led: the first cause, or else where it failed, or else the innermost frame of the first stack.
fn primary(finding: &Finding, locations: &mut Locations<'_>) -> Vec<Value> {
    let failure = finding.failure.as_ref().and_then(|failure| failure.at.as_ref());
    let side = finding.sides.iter().find_map(|side| side.stack.first());
    let place = finding.causes.first().map(|cause| &cause.place).or(failure).or(side);
    place.map(|place| locations.location(place)).into_iter().collect()
}

/// The other causes, and the innermost place of every side.
fn related(finding: &Finding, locations: &mut Locations<'_>) -> Vec<Value> {
    let mut related = Vec::new();
    for cause in finding.causes.iter().skip(1) {
        let thread = cause.thread.map(|thread| words::thread(finding, thread));
        let texts = [thread.as_deref(), Some(cause.text.as_str()).filter(|text| !text.is_empty())];
        let text = texts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        related.push((&cause.place, text));
    }
    for side in &finding.sides {
        let text = words::side(finding, side, locations.look);
        related.extend(side.stack.first().map(|place| (place, text)));
    }
    let mut values = Vec::new();
    for (position, (place, text)) in related.into_iter().enumerate() {
        let mut value = locations.location(place);
        value["id"] = json!(position + 1);
        if !text.is_empty() {
            value["message"] = message(&text);
        }
        values.push(value);
    }
    values
}

fn flow(finding: &Finding, locations: &mut Locations<'_>) -> Value {
    let threads = timeline::threads(finding);
    let flows: Vec<Value> = threads.into_iter().map(|thread| thread_flow(finding, thread, locations)).collect();
    json!({"message": {"text": "What the threads did, in order of execution"}, "threadFlows": flows})
}

fn thread_flow(finding: &Finding, thread: u32, locations: &mut Locations<'_>) -> Value {
    let mut steps = Vec::new();
    for (position, step) in finding.steps.iter().enumerate().filter(|(_, step)| step.thread == thread) {
        let mut location = locations.location(&step.place);
        if !step.text.is_empty() {
            location["message"] = message(&step.text);
        }
        let importance = if step.guilty { "essential" } else { "important" };
        steps.push(json!({"location": location, "executionOrder": position + 1, "importance": importance}));
    }
    json!({"id": thread.to_string(), "message": message(&words::thread(finding, thread)), "locations": steps})
}

fn stack(told: &Told<'_>, locations: &mut Locations<'_>) -> Value {
    let mut frames = Vec::new();
    for place in told.stack {
        let mut frame = Map::new();
        frame.insert("location".to_owned(), locations.location(place));
        if let Some(thread) = told.thread {
            frame.insert("threadId".to_owned(), json!(thread));
        }
        if let Some(module) = &place.module {
            frame.insert("module".to_owned(), json!(module));
        }
        frames.push(Value::Object(frame));
    }
    json!({"message": message(&told.sentence), "frames": frames})
}

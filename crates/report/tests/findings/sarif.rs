//! The SARIF: what the schema of version 2.1.0 demands of the objects that are used, and what is said in them.

use crate::examples;
use crate::support::{compare, look, sources};
use program::source::SourceCache;
use serde_json::{Value, json};
use std::path::Path;
use trace::finding::{Class, Finding, Findings, Place};

/// An object of the schema: required properties, and others that we use. The schema forbids all that it does not know.
struct Kind {
    name: &'static str,
    required: &'static [&'static str],
    others: &'static [&'static str],
}

const fn kind(name: &'static str, required: &'static [&'static str], others: &'static [&'static str]) -> Kind {
    Kind { name, required, others }
}

/// Objects are recognised by the property that holds them.
const KINDS: &[Kind] = &[
    kind("log", &["version", "runs"], &["$schema"]),
    kind("runs", &["tool"], &["columnKind", "originalUriBaseIds", "properties", "results"]),
    kind("tool", &["driver"], &[]),
    kind("driver", &["name"], &["version", "rules"]),
    kind("rules", &["id"], &["name", "shortDescription", "fullDescription", "help", "defaultConfiguration"]),
    kind("shortDescription", &["text"], &[]),
    kind("fullDescription", &["text"], &[]),
    kind("help", &["text"], &[]),
    kind("defaultConfiguration", &[], &["level"]),
    kind(
        "results",
        &["message"],
        &[
            "ruleId",
            "ruleIndex",
            "kind",
            "level",
            "locations",
            "occurrenceCount",
            "partialFingerprints",
            "relatedLocations",
            "codeFlows",
            "stacks",
            "properties",
        ],
    ),
    kind("message", &["text"], &[]),
    kind("locations", &[], &["id", "physicalLocation", "logicalLocations", "message"]),
    kind("relatedLocations", &[], &["id", "physicalLocation", "logicalLocations", "message"]),
    kind("location", &[], &["id", "physicalLocation", "logicalLocations", "message"]),
    kind("physicalLocation", &["artifactLocation"], &["region", "address"]),
    kind("artifactLocation", &[], &["uri", "uriBaseId"]),
    kind("region", &["startLine"], &["startColumn", "snippet"]),
    kind("snippet", &[], &["text"]),
    kind("address", &[], &["absoluteAddress", "relativeAddress"]),
    kind("logicalLocations", &[], &["fullyQualifiedName", "kind"]),
    kind("codeFlows", &["threadFlows"], &["message"]),
    kind("threadFlows", &["locations"], &["id", "message"]),
    kind("threadFlowLocation", &[], &["location", "executionOrder", "importance"]),
    kind("stacks", &["frames"], &["message"]),
    kind("frames", &[], &["location", "module", "threadId"]),
];

/// Properties with values of their own making.
const FREE: &[&str] = &["properties", "originalUriBaseIds", "partialFingerprints"];

fn validate(value: &Value, holder: &str) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| validate(item, holder)),
        Value::Object(fields) => {
            let kind = KINDS.iter().find(|kind| kind.name == holder).unwrap_or_else(|| panic!("{holder}: {value}"));
            for name in kind.required {
                assert!(fields.contains_key(*name), "{holder} lacks {name}: {value}");
            }
            for (name, part) in fields {
                let name = name.as_str();
                assert!(kind.required.contains(&name) || kind.others.contains(&name), "{holder} has {name}: {value}");
                let is_step = holder == "threadFlows" && name == "locations";
                let is_free = FREE.contains(&name);
                validate_scalar(name, part);
                (!is_free).then(|| validate(part, if is_step { "threadFlowLocation" } else { name }));
            }
        }
        _ => {}
    }
}

/// Types, enumerations and bounds.
fn validate_scalar(name: &str, value: &Value) {
    let one_of = |words: &[&str]| assert!(words.contains(&value.as_str().unwrap()), "{name}: {value}");
    let at_least = |least: i64| assert!(value.as_i64().unwrap() >= least, "{name}: {value}");
    match name {
        "version" | "$schema" | "id" if value.is_string() => assert_ne!(value, ""),
        "level" => one_of(&["none", "note", "warning", "error"]),
        "kind" => one_of(&["fail", "function"]),
        "importance" => one_of(&["important", "essential", "unimportant"]),
        "columnKind" => one_of(&["utf16CodeUnits", "unicodeCodePoints"]),
        "startLine" | "startColumn" | "occurrenceCount" => at_least(1),
        "absoluteAddress" | "relativeAddress" | "executionOrder" | "ruleIndex" | "id" | "threadId" => at_least(-1),
        "uri" => assert!(is_uri(value.as_str().unwrap()), "{value}"),
        "threadFlows" | "frames" => assert!(!value.as_array().unwrap().is_empty(), "{name}"),
        _ => {}
    }
}

fn is_uri(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:@!$&'()*+,;=%".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

fn rendered(findings: &Findings) -> Value {
    let text = report::findings::sarif(findings, &mut sources(), &look(false));
    assert_eq!(text, report::findings::sarif(findings, &mut sources(), &look(true)), "colours reach SARIF");
    let value = serde_json::from_str(&text).unwrap();
    validate(&value, "log");
    value
}

#[test]
fn every_shape() {
    rendered(&examples::everything());
    compare("findings.sarif", &report::findings::sarif(&examples::everything(), &mut sources(), &look(false)));
}

#[test]
fn nothing_found() {
    let log = rendered(&examples::nothing());
    assert_eq!((&log["version"], &log["runs"][0]["results"]), (&json!("2.1.0"), &json!([])));
}

#[test]
fn unwieldy() {
    let log = rendered(&examples::unwieldy());
    let result = &log["runs"][0]["results"][0];
    let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "caf%E9%20%FF/odd.c");
    let message = result["message"]["text"].as_str().unwrap();
    assert!(message.contains("[abi:cxx11] (int)"), "no links: {message}");
}

#[test]
fn rules_are_classes() {
    let log = rendered(&examples::everything());
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!((rules.len(), results.len()), (4, 4));
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }
    let levels: Vec<_> = results.iter().map(|result| &result["level"]).collect();
    assert_eq!(levels, ["error", "error", "error", "warning"]);
}

/// Each thread has a flow, and the order of execution goes through all of them.
#[test]
fn flows() {
    let log = rendered(&examples::findings(vec![examples::schedule()]));
    let result = &log["runs"][0]["results"][0];
    let flows = result["codeFlows"][0]["threadFlows"].as_array().unwrap();
    let order = |flow: &Value| -> Vec<u64> {
        flow["locations"].as_array().unwrap().iter().map(|step| step["executionOrder"].as_u64().unwrap()).collect()
    };
    let told: Vec<_> = flows.iter().map(|flow| (flow["id"].as_str().unwrap(), order(flow))).collect();
    assert_eq!(told, [("1", vec![1]), ("2", vec![2, 5]), ("3", vec![3, 4])]);
    let last = &flows[2]["locations"][1];
    assert_eq!(last["importance"], "essential");
    assert_eq!(last["location"]["physicalLocation"]["region"]["startLine"], 15);
    assert_eq!(last["location"]["message"]["text"], "writes newest = 0 (was 0x550065561040)");
}

/// Columns count characters, whatever the source has before them.
#[test]
fn columns() {
    let mut sources = SourceCache::new();
    sources.insert(Path::new("/s/x.c"), "/* café */ x = 1;\n");
    let mut finding = Finding::suspected(Class::Crash, "t");
    let place = Place { file: Some("/s/x.c".into()), line: Some(1), column: Some(13), ..Place::default() };
    finding.causes = vec![trace::finding::Cause { place, ..Default::default() }];
    let text = report::findings::sarif(&examples::findings(vec![finding]), &mut sources, &look(false));
    let log: Value = serde_json::from_str(&text).unwrap();
    let physical = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "file:///s/x.c");
    assert_eq!(physical["region"]["startColumn"], 12);
}

fn fingerprints(findings: Vec<Finding>, sources: &mut SourceCache) -> Vec<String> {
    let text = report::findings::sarif(&examples::findings(findings), sources, &look(false));
    let log: Value = serde_json::from_str(&text).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let of = |result: &Value| result["partialFingerprints"]["whodunitCauses/v1"].as_str().unwrap().to_owned();
    results.iter().map(of).collect()
}

#[test]
fn fingerprints_outlast_what_differs_between_runs() {
    let mut other = examples::deadlock();
    other.causes.reverse();
    for cause in &mut other.causes {
        cause.thread = Some(9);
        cause.place.pc = None;
    }
    other.title = "differently worded".to_owned();
    let two = fingerprints(vec![examples::deadlock(), other.clone()], &mut sources());
    let (first, second) = (two[0].strip_suffix(":1").unwrap(), two[1].strip_suffix(":2").unwrap());
    assert_eq!(first, second);
    // The same statements, three lines further down.
    let place = Path::new("/home/you/list/src/cache.c");
    let lines: Vec<_> = (1..=40).map_while(|line| sources().source_line(place, line)).collect();
    let mut moved = SourceCache::new();
    moved.insert(place, &format!("\n\n\n{}", lines.join("\n")));
    other.causes.iter_mut().for_each(|cause| cause.place.line = cause.place.line.map(|line| line + 3));
    assert_eq!(fingerprints(vec![other], &mut moved), [two[0].clone()]);
}

#[test]
fn fingerprints_tell_findings_apart() {
    let mut elsewhere = examples::deadlock();
    elsewhere.causes[0].place = examples::cache("first", 21);
    let mut other_class = examples::deadlock();
    other_class.class = Class::Hang;
    let mut all = fingerprints(vec![examples::deadlock(), elsewhere, other_class, examples::race()], &mut sources());
    assert!(all.iter().all(|fingerprint| fingerprint.ends_with(":1")), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
}

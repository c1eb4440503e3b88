//! Many failures, one cause: the diagnoses of several recordings, each cause once.

use super::Diagnosis;
use crate::recordings::Trouble;
use std::path::PathBuf;
use trace::finding::{Address, Class, Finding, Findings};

/// What makes two causes the same: the class, and the statement, or the instruction where no statement is known.
type Key = (Class, Option<String>, Option<PathBuf>, Option<u32>, Option<Address>);

fn key(finding: &Finding) -> Option<Key> {
    let place = &finding.causes.first()?.place;
    let offset = place.module_offset.filter(|_| place.line.is_none());
    Some((finding.class, place.module.clone(), place.file.clone(), place.line, offset))
}

/// How another recording fails by a cause.
fn told(findings: &Findings, finding: &Finding) -> String {
    let name = findings.recording.as_deref().unwrap_or(&findings.program);
    match &finding.failure {
        Some(failure) => format!("`{name}` fails by it too: {}.", failure.text),
        None => format!("`{name}` fails by it too."),
    }
}

/// All diagnoses in one, with the recording of the first. Recordings without one are told in a note each.
pub fn grouped(diagnoses: Vec<(String, Result<Diagnosis, Trouble>)>) -> Result<Diagnosis, Trouble> {
    let n_recordings = diagnoses.len();
    let mut all: Option<Diagnosis> = None;
    let mut refused = Vec::new();
    for (name, diagnosis) in diagnoses {
        match (diagnosis, &mut all) {
            (Err(Trouble::Refused(sentence)), _) => refused.push(format!("{name}: {sentence}.")),
            (Err(trouble), _) => return Err(trouble),
            (Ok(diagnosis), None) => all = Some(diagnosis),
            (Ok(diagnosis), Some(all)) => add(&mut all.findings, diagnosis.findings),
        }
    }
    let Some(mut all) = all else { return Err(Trouble::Refused(refused.join(" "))) };
    let n_causes = all.findings.findings.len();
    let causes = if n_causes == 1 { "cause" } else { "causes" };
    all.findings.recording = None;
    all.findings.summary.text = Some(format!("{n_recordings} recordings, {n_causes} {causes}."));
    all.findings.notes.extend(refused);
    Ok(all)
}

fn add(all: &mut Findings, findings: Findings) {
    for finding in &findings.findings {
        let key = key(finding);
        let same = all.findings.iter_mut().find(|known| key.is_some() && self::key(known) == key);
        match same {
            Some(same) => {
                same.count += 1;
                same.grounds.push(told(&findings, finding));
            }
            None => all.push(finding.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::finding::{Cause, Place};

    fn findings(recording: &str, line: u32) -> Findings {
        let mut findings = Findings::new("why", "server");
        findings.recording = Some(recording.to_owned());
        let mut finding = Finding::suspected(Class::HeapOverflow, "`add` writes beyond a block of the heap");
        let place = Place { file: Some(PathBuf::from("server.c")), line: Some(line), ..Place::default() };
        finding.causes = vec![Cause { place, thread: None, text: String::new() }];
        findings.push(finding);
        findings
    }

    #[test]
    fn recordings_of_one_cause_are_one_finding() {
        let mut all = findings("one", 7);
        add(&mut all, findings("two", 7));
        add(&mut all, findings("three", 9));
        let told: Vec<_> = all.findings.iter().map(|finding| (finding.count, finding.grounds.clone())).collect();
        assert_eq!(told, [(2, vec!["`two` fails by it too.".to_owned()]), (1, Vec::new())]);
    }
}

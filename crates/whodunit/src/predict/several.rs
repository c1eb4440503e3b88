//! The findings of several recordings of one program, as one.

use crate::recordings::Trouble;
use std::collections::BTreeMap;
use trace::finding::{Finding, Findings, Place};

/// What several recordings tell is told once. The findings of each are with the name of its recording.
pub fn combine(first: Findings, others: Vec<Findings>) -> Result<Findings, Trouble> {
    if others.is_empty() {
        return Ok(first);
    }
    let mut combined = first;
    let mut known: BTreeMap<String, usize> =
        combined.findings.iter().enumerate().map(|(number, finding)| (signature(finding), number)).collect();
    let mut texts = vec![said(&combined)];
    for findings in others {
        if findings.program != combined.program {
            return Err(Trouble::Refused(format!(
                "these are recordings of different programs, {} and {}: ask for one program at a time",
                combined.program, findings.program
            )));
        }
        texts.push(said(&findings));
        combined.recording = combined.recording.zip(findings.recording).map(|(one, other)| format!("{one}, {other}"));
        combined.summary.left_out += findings.summary.left_out;
        let new_notes: Vec<String> = findings.notes.into_iter().filter(|note| !combined.notes.contains(note)).collect();
        combined.notes.extend(new_notes);
        for finding in findings.findings {
            match known.get(&signature(&finding)) {
                Some(&number) => combined.findings[number].count += finding.count,
                None => {
                    known.insert(signature(&finding), combined.findings.len());
                    combined.push(finding);
                }
            }
        }
    }
    combined.summary.text = Some(texts.join(" "));
    Ok(combined)
}

/// What was done, with whose it is.
fn said(findings: &Findings) -> String {
    let name = findings.recording.as_deref().unwrap_or_default();
    format!("{name}: {}", findings.summary.text.as_deref().unwrap_or("nothing to try."))
}

/// What fails at the same place is one to people; otherwise the guilty statements tell.
fn signature(finding: &Finding) -> String {
    let place = |place: &Place| format!("{:?} {:?} {:?}", place.file, place.function, place.line);
    match finding.failure.as_ref().and_then(|failure| failure.at.as_ref()) {
        Some(at) => format!("{:?} {}", finding.class, place(at)),
        None => {
            let causes: Vec<String> = finding.causes.iter().map(|cause| place(&cause.place)).collect();
            format!("{:?} {}", finding.class, causes.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::finding::{Cause, Class};

    fn findings(recording: &str, lines: &[u32]) -> Findings {
        let mut findings = Findings::new("predict", "server");
        findings.recording = Some(recording.to_owned());
        findings.summary.text = Some("1 fatal order tried.".to_owned());
        for line in lines {
            let mut finding = Finding::suspected(Class::ConcurrencyNull, "a pointer");
            let place = Place { line: Some(*line), ..Place::default() };
            finding.causes.push(Cause { place, thread: None, text: String::new() });
            findings.push(finding);
        }
        findings
    }

    #[test]
    fn the_same_is_told_once() {
        let combined = combine(findings("a", &[1]), vec![findings("b", &[1, 2])]).ok().expect("findings");
        assert_eq!(combined.findings.iter().map(|finding| finding.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(combined.recording.as_deref(), Some("a, b"));
        assert_eq!(combined.summary.suspected, 2);
        assert_eq!(combined.summary.text.as_deref(), Some("a: 1 fatal order tried. b: 1 fatal order tried."));
    }

    #[test]
    fn programs_are_not_mixed() {
        let mut other = findings("b", &[]);
        other.program = "client".to_owned();
        assert!(
            matches!(combine(findings("a", &[]), vec![other]), Err(Trouble::Refused(text)) if text.contains("client"))
        );
    }
}

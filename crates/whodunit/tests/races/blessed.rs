//! Blessed reports: of what is told of an exhibit's race, the part that does not depend on the machine or the seed, kept in `report.txt`
//! beside the exhibit. `BLESS=1 cargo test --test races` writes them anew.

use crate::exhibit::Exhibit;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// What is blessed of programs that have no race.
pub const NOTHING: &str = "no race\n";

/// Class, variable, and for each side what is done at which marked line, and by which functions.
pub fn report(exhibit: &Exhibit, race: &Value) -> Result<String, String> {
    let marked = exhibit.marked_lines()?;
    let name_of = |line: u64| {
        let mut marks = marked.iter().filter(|(_, lines)| lines.iter().any(|marked| u64::from(*marked) == line));
        marks.next().map(|(mark, _)| mark.as_str())
    };
    let side = |side: &Value| {
        let verb = side["text"].as_str().and_then(|text| text.split(' ').next()).unwrap_or_default();
        let own: Vec<&Value> = side["stack"].as_array().into_iter().flatten().filter(is_own).collect();
        let mark = own.iter().find_map(|place| name_of(place["line"].as_u64()?)).unwrap_or("no mark");
        let functions: Vec<&str> = own.iter().filter_map(|place| place["function"].as_str()).collect();
        format!("{verb} at {mark}, in {}\n", functions.join(" called by "))
    };
    let mut sides: Vec<String> = race["sides"].as_array().into_iter().flatten().map(side).collect();
    sides.sort();
    let (class, variable) = (race["class"].as_str().unwrap_or_default(), variable(race));
    Ok(format!("{class} of {variable}\n{}", sides.concat()))
}

/// Whether a place is in the source of an exhibit.
pub fn is_own(place: &&Value) -> bool {
    place["file"].as_str().is_some_and(|file| file.contains("/museum/"))
}

/// Which of several elements raced first depends on the schedule, so all of an array are one.
fn variable(race: &Value) -> String {
    let variable = &race["variable"];
    let name = variable["name"].as_str().or(variable["text"].as_str()).unwrap_or("memory without a name");
    let mut parts = name.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |told, part| told + "[" + part.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

fn file(exhibit: &Exhibit) -> PathBuf {
    exhibit.folder.join("report.txt")
}

/// Whether one of the reports is what was blessed. To bless is to keep the first.
pub fn is_blessed(exhibit: &Exhibit, reports: &[String]) -> Result<bool, String> {
    let Some(first) = reports.first() else { return Ok(false) };
    let file = file(exhibit);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, first).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let blessed = fs::read_to_string(&file)
        .map_err(|error| format!("{}: {error}; BLESS=1 cargo test --test races writes it", file.display()))?;
    Ok(reports.contains(&blessed))
}

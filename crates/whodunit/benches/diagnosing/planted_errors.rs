//! Errors planted in programs of Debian.

use crate::diagnosed::Recorded;
use crate::exhibit::Class;
use crate::planted::{self, Garden, Growth};
use crate::{Arguments, Claim, Score};

/// Races need a failing schedule, and are no memory errors.
fn is_wanted(exhibit: &planted::Planted, arguments: &Arguments) -> bool {
    exhibit.class != Class::DataRace && arguments.wants(&exhibit.name)
}

pub fn print(arguments: &Arguments, score: &mut Score) -> Result<(), String> {
    if !planted::all()?.iter().any(|exhibit| is_wanted(exhibit, arguments)) {
        return Ok(());
    }
    let garden = Garden::new()?;
    println!("\n| planted in Debian's | class | first corruption | line | executions | |");
    println!("|---|---|---|---|---|---|");
    for exhibit in garden.exhibits.iter().filter(|exhibit| is_wanted(exhibit, arguments)) {
        let lines = garden.marked_lines(exhibit)?.remove("guilty").unwrap_or_default();
        let file = exhibit.source.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let claim = Claim { class: exhibit.class.word(), file: &file, lines: &lines, most_runs: None };
        let recorded = Recorded::new(&exhibit.spec()?, &garden.built(exhibit, Growth::Planted))?;
        let cells = score.tell(&recorded.why(&[])?.diagnosis(), &claim);
        let first: Vec<String> = lines.iter().map(u32::to_string).collect();
        println!("| {} | {} | {} | {cells} |", exhibit.name, claim.class, first.join(", "));
    }
    Ok(())
}

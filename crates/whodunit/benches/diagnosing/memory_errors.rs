//! The memory errors of `museum/memory`.

use crate::diagnosed::{Diagnosis, Recorded};
use crate::exhibit::{LEVELS, Level};
use crate::memory::{self, Build, Input, MemoryExhibit};
use crate::support::build::build;
use crate::{Arguments, Claim, Score, or_dash};

pub fn print(arguments: &Arguments, score: &mut Score) -> Result<(), String> {
    let exhibits: Vec<MemoryExhibit> =
        memory::all()?.into_iter().filter(|exhibit| arguments.wants(&exhibit.name)).collect();
    println!(
        "| exhibit, input | class | first corruption | `-O0`: line | executions | | `-O2`: line | executions | | paper |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    print_rows(&exhibits, false, score)?;
    println!(
        "\n| exhibit, input | class | first corruption | `-O0`: line | layouts | | `-O2`: line | layouts | | paper |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    print_rows(&exhibits, true, score)?;
    count_repaired(&exhibits, score)
}

fn print_rows(exhibits: &[MemoryExhibit], silent: bool, score: &mut Score) -> Result<(), String> {
    for exhibit in exhibits {
        let lines = exhibit.marked_lines()?;
        for input in exhibit.inputs.iter().filter(|input| input.silent.is_some() == silent) {
            let guilty = &lines[&input.guilty];
            let most_runs = if silent { input.paper_reorderings } else { input.paper_executions };
            let claim = Claim { class: exhibit.class.word(), file: "program.c", lines: guilty, most_runs };
            let cells = LEVELS.map(|level| score.tell(&diagnosis(exhibit, input, level), &claim));
            let first: Vec<String> = guilty.iter().map(u32::to_string).collect();
            println!(
                "| {} {} | {} | {} | {} | {} | {} |",
                exhibit.name,
                input.name,
                claim.class,
                first.join(", "),
                cells[0],
                cells[1],
                or_dash(most_runs)
            );
        }
    }
    Ok(())
}

fn diagnosis(exhibit: &MemoryExhibit, input: &Input, level: Level) -> Result<Diagnosis, String> {
    let spec = exhibit.spec(input, Build::Faulty, level)?;
    let options: &[&str] = if input.silent.is_some() { &["--silent"] } else { &[] };
    Recorded::new(&spec, &build(&spec)?)?.why(options)?.diagnosis()
}

/// Looks for corruption in the repaired programs, on all inputs.
fn count_repaired(exhibits: &[MemoryExhibit], score: &mut Score) -> Result<(), String> {
    for exhibit in exhibits {
        for (input, level) in exhibit.inputs.iter().flat_map(|input| LEVELS.map(|level| (input, level))) {
            let spec = exhibit.spec(input, Build::Repaired, level)?;
            let said = Recorded::new(&spec, &build(&spec)?)?.why(&["--silent"])?;
            let is_calm = said.status == 0 && said.findings.is_empty();
            score.calm.add(is_calm);
            if !is_calm {
                println!("repaired, {} {} at {level:?}: {:?}", exhibit.name, input.name, said.diagnosis());
            }
        }
    }
    Ok(())
}

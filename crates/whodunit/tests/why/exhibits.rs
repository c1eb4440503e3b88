//! The memory errors of the museum, and those planted in programs of Debian: `why` names the statement of the first corruption
//! and its class, in no more executions than allowed, and proves it.

use crate::debian;
use crate::diagnosed::{Diagnosis, Recorded};
use crate::exhibit::{Class, LEVELS, Level};
use crate::guest_programs;
use crate::memory::{self, Build, Input, MemoryExhibit};
use crate::planted::{Garden, Growth, Planted};
use crate::support::build::build;

guest_programs! {
    crate::exhibits::is_diagnosed;
    memory_errors {
        axel_redirect bc_arrays copy_chain copy_paste corrupt_condition corrupt_length cvs_directory dangling_session
        esmt_figure_6 gzip_name layout_globals layout_locals man_sections mutt_utf7 mysql_load_data ncompress_path
        pine_address polymorph_name prozilla_header prozilla_mirrors tar_directory tidy_cell unset_help wrong_index
        xv_palette
    }
}

#[test]
fn every_memory_error_is_diagnosed() {
    let exhibits = memory::all().expect("the exhibits' descriptions are readable");
    let present: Vec<&str> = exhibits.iter().map(|exhibit| exhibit.name.as_str()).collect();
    let listed: Vec<&str> = LISTED.iter().map(|(_, name)| *name).collect();
    assert_eq!(present, listed);
}

fn is_diagnosed(_group: &str, name: &str) {
    let exhibit = MemoryExhibit::read(name).expect("its description is readable");
    // The benchmark has all inputs at both levels; here, levels take turns, and each has half of the exhibits' first inputs.
    let first = LISTED.iter().position(|(_, listed)| *listed == name).unwrap_or(0);
    for (input, level) in exhibit.inputs.iter().zip(LEVELS.into_iter().cycle().skip(first % LEVELS.len())) {
        if let Err(problem) = check(&exhibit, input, level) {
            panic!("{name}, input {} at {level:?}: {problem}", input.name);
        }
    }
}

fn check(exhibit: &MemoryExhibit, input: &Input, level: Level) -> Result<(), String> {
    let spec = exhibit.spec(input, Build::Faulty, level)?;
    let recorded = Recorded::new(&spec, &build(&spec)?)?;
    let options: &[&str] = if input.silent.is_some() { &["--silent"] } else { &[] };
    let diagnosis = recorded.why(options)?.diagnosis()?;
    let lines = exhibit.marked_lines()?.remove(&input.guilty).unwrap_or_default();
    is_right(&diagnosis, exhibit.class, "program.c", &lines)?;
    if diagnosis.n_runs > input.most_runs() {
        return Err(format!("{} runs are more than {}", diagnosis.n_runs, input.most_runs()));
    }
    is_proved(&diagnosis)
}

fn is_proved(diagnosis: &Diagnosis) -> Result<(), String> {
    diagnosis.is_proved.then_some(()).ok_or_else(|| "it is only suspected".to_owned())
}

/// The class, and one statement.
fn is_right(diagnosis: &Diagnosis, class: Class, file: &str, lines: &[u32]) -> Result<(), String> {
    let is_guilty = |(theirs, line): &(String, u32)| theirs == file && lines.contains(line);
    match diagnosis.statements.as_slice() {
        [statement] if is_guilty(statement) && diagnosis.class == class.word() => Ok(()),
        _ => Err(format!("{diagnosis:?} is not {} at {file}:{lines:?}", class.word())),
    }
}

#[test]
fn repaired_programs_have_no_finding() {
    for name in ["bc_arrays", "gzip_name", "ncompress_path"] {
        let exhibit = MemoryExhibit::read(name).expect("its description is readable");
        let input = &exhibit.inputs[0];
        let spec = exhibit.spec(input, Build::Repaired, Level::O2).expect("its description is readable");
        let said = build(&spec).and_then(|built| Recorded::new(&spec, &built)?.why(&["--silent"]));
        let said = said.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert_eq!((said.status, said.findings.len()), (0, 0), "{name}: {said:?}");
    }
}

#[test]
fn errors_planted_in_programs_of_debian_are_named() {
    debian::need(&["gcc", "make", "sed", "tar"]);
    let garden = Garden::new().unwrap_or_else(|problem| panic!("{problem}"));
    for exhibit in garden.exhibits.iter().filter(|exhibit| exhibit.class != Class::DataRace) {
        check_planted(&garden, exhibit).unwrap_or_else(|problem| panic!("museum/debian/{}: {problem}", exhibit.name));
    }
}

fn check_planted(garden: &Garden, exhibit: &Planted) -> Result<(), String> {
    let recorded = Recorded::new(&exhibit.spec()?, &garden.built(exhibit, Growth::Planted))?;
    let diagnosis = recorded.why(&[])?.diagnosis()?;
    let lines = garden.marked_lines(exhibit)?.remove("guilty").unwrap_or_default();
    let file = exhibit.source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    is_right(&diagnosis, exhibit.class, &file, &lines)?;
    is_proved(&diagnosis)
}

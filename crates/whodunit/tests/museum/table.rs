//! The tables in `museum/README.md` and `museum/memory/README.md` tell of every exhibit, as its description does.

use std::fs;
use std::path::PathBuf;

use super::exhibit::{self, Exhibit};
use super::memory::{self, Input, MemoryExhibit};

#[test]
fn the_table_is_complete() {
    let exhibits = exhibit::all().expect("the exhibits' descriptions are readable");
    table_is(exhibit::folder().join("README.md"), &exhibits.iter().map(row).collect::<Vec<_>>());
}

#[test]
fn the_table_of_memory_errors_is_complete() {
    let exhibits = memory::all().expect("the memory errors' descriptions are readable");
    let rows = exhibits.iter().flat_map(|exhibit| exhibit.inputs.iter().map(|input| memory_row(exhibit, input)));
    table_is(memory::folder().join("README.md"), &rows.collect::<Vec<_>>());
}

fn table_is(path: PathBuf, expected: &[String]) {
    let text = fs::read_to_string(&path).expect("the museum's README.md is readable");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(rows == expected, "the table in {} should be:\n{}", path.display(), expected.join("\n"));
}

fn row(exhibit: &Exhibit) -> String {
    let source = exhibit.source();
    let file = source.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "| [{name}]({name}/{file}) | {} | {} | {} | {} |",
        exhibit.title,
        exhibit.origin.join(", "),
        exhibit.kind.word(),
        exhibit.failure.map_or("none".to_owned(), |failure| failure.to_string()),
        name = exhibit.name
    )
}

fn memory_row(exhibit: &MemoryExhibit, input: &Input) -> String {
    let number = |count: Option<u32>| count.map_or("-".to_owned(), |count| count.to_string());
    format!(
        "| [{name}]({name}/program.c) {} | {} | {} | {} | {} | {} | {} | {} |",
        input.name,
        exhibit.title,
        input.origin,
        exhibit.class.word(),
        input.failure.map_or("none".to_owned(), |failure| failure.to_string()),
        input.guilty,
        number(input.paper_executions),
        number(input.paper_reorderings),
        name = exhibit.name
    )
}

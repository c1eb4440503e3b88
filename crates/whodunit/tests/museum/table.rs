//! The table in `museum/README.md` tells of every exhibit, as its description does.

use std::fs;

use super::exhibit::{self, Exhibit};

#[test]
fn the_table_is_complete() {
    let exhibits = exhibit::all().expect("the exhibits' descriptions are readable");
    let expected: Vec<String> = exhibits.iter().map(row).collect();
    let text = fs::read_to_string(exhibit::folder().join("README.md")).expect("museum/README.md is readable");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(rows == expected, "the table in museum/README.md should be:\n{}", expected.join("\n"));
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

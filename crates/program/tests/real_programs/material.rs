//! Debug files and sources that belong to a program, and copies that are read in their place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use program::copies::Copies;
use program::material;
use program::source::SourceCache;
use program::space::AddressSpace;
use program::symbols::Symbolizer;
use program::unwind::{CodeAddress, CodeAddressKind};

use super::common::{build, folder, load_at, run, source, symbol};

const BASE: u64 = 0x5000_0000;

/// A program without debug information, its debug file in `.debug` beside it, and what that shares with others, which it
/// names from where it is itself.
fn split(test: &str) -> (PathBuf, PathBuf, PathBuf) {
    let program = build(test, "crash.c", &["-g", "-O0"]);
    let folder = folder(test);
    for name in [".debug", "shared"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let (debug, shared) = (folder.join(".debug/program.debug"), folder.join("shared/common.debug"));
    let [name, debug_name, shared_name] = [&program, &debug, &shared].map(|path| path.to_str().unwrap());
    run("gcc", &["-shared", "-nostdlib", "-Wl,--build-id=0xa1b2c3d4", "-x", "c", "/dev/null", "-o", shared_name]);
    run("objcopy", &["--only-keep-debug", name, debug_name]);
    let link = folder.join("link");
    fs::write(&link, b"../shared/common.debug\0\xa1\xb2\xc3\xd4").unwrap();
    run("objcopy", &[&format!("--add-section=.gnu_debugaltlink={}", link.display()), debug_name]);
    run("objcopy", &["--strip-debug", &format!("--add-gnu-debuglink={debug_name}"), name]);
    (program, debug, shared)
}

#[test]
fn all_files_of_a_program_are_found() {
    let (program, debug, shared) = split("material");
    let found = material::of_file(&program, &program);
    let resolved: Vec<PathBuf> = found.debug_files.iter().map(|path| path.canonicalize().unwrap()).collect();
    assert_eq!(resolved, [debug, shared]);
    let sources: BTreeSet<&Path> = found.sources.iter().map(PathBuf::as_path).collect();
    assert!(sources.contains(source("crash.c").as_path()), "{sources:?}");
    assert!(sources.iter().all(|path| path.is_absolute()), "{sources:?}");
    assert!(sources.iter().any(|path| path.ends_with("stdio.h")), "{sources:?}");
}

#[test]
fn other_files_are_made_of_nothing() {
    let text = source("crash.c");
    assert_eq!(material::of_file(&text, &text), material::Material::default());
    assert_eq!(material::of_file(Path::new("/nowhere"), Path::new("/nowhere")), material::Material::default());
}

/// The originals are gone, and everything is said as if they were not.
#[test]
fn copies_stand_for_what_is_gone() {
    let (program, debug, _) = split("material-copies");
    let copied = folder("material-copies").join("copied");
    fs::create_dir_all(&copied).unwrap();
    let [module, debug_copy, text] = ["1", "2", "3"].map(|name| copied.join(name));
    fs::rename(&program, &module).unwrap();
    fs::rename(&debug, &debug_copy).unwrap();
    fs::write(&text, "only a line\n").unwrap();
    let source_path = source("crash.c");
    let mut copies = Copies::default();
    copies.add_loaded(program.clone(), module.clone());
    copies.add(debug, debug_copy);
    copies.add(source_path.clone(), text);
    let copies = Arc::new(copies);

    let (address, _) = symbol(&module, "gamma_writes");
    let code = CodeAddress { pc: BASE + address, kind: CodeAddressKind::Exact };
    let mappings = load_at(&module, BASE).mappings().to_vec();
    let frames = Symbolizer::new(&AddressSpace::with_copies(mappings.clone(), &copies)).resolve(code);
    let frame = frames.last().unwrap();
    assert_eq!((frame.module.as_str(), frame.file.as_ref()), ("program", Some(&source_path)));
    assert_eq!(frame.function.as_deref(), Some("gamma_writes"));
    let alone = Symbolizer::new(&AddressSpace::new(mappings)).resolve(code);
    assert_eq!((alone[0].module.as_str(), alone[0].file.as_ref()), ("1", None));

    let mut sources = SourceCache::with_copies(copies);
    assert!(sources.has(&source_path) && !sources.has(Path::new("/nowhere/a.c")));
    assert_eq!(sources.source_line(&source_path, 1).as_deref(), Some("only a line"));
}

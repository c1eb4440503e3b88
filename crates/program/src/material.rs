//! What a loadable file was made of, as far as it is on this machine: its debug files and its sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::debug_info::DebugInfo;
use crate::space::Module;

/// What belongs to one program or library.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Material {
    /// Its separate debug file, and the one that this shares with others.
    pub debug_files: Vec<PathBuf>,
    /// The files that its line tables name, whether they exist or not, as [`crate::symbols`] names them. Paths that are not
    /// absolute are left out: they mean something only to whoever compiled.
    pub sources: BTreeSet<PathBuf>,
}

/// Reads the file at `path`, which was loaded as `original`.
pub fn of_file(original: &Path, path: &Path) -> Material {
    let module = Module::unloaded(original, path);
    let debug_files = module.debug_files().map(Path::to_owned).collect();
    let sources = DebugInfo::load(&module).map(|debug_info| sources(&debug_info)).unwrap_or_default();
    Material { debug_files, sources }
}

fn sources(debug_info: &DebugInfo) -> BTreeSet<PathBuf> {
    let units = debug_info.unit_numbers();
    units.flat_map(|unit| debug_info.files_of(unit)).filter(|path| path.is_absolute()).collect()
}

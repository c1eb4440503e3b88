//! DWARF: functions, chains of inlined calls, and source lines.

use std::path::{Path, PathBuf};

use addr2line::Context;
use gimli::{Dwarf, LittleEndian, SectionId};

use crate::elf::{Bytes, Image};
use crate::space::{FileVma, Module};

/// One function of a chain of inlined calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourcePlace {
    pub function: Option<String>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

/// The debug information of one module.
pub(crate) struct LineTables {
    context: Context<Bytes>,
}

impl LineTables {
    /// `None` if the module has no debug information.
    pub fn load(module: &Module) -> Option<LineTables> {
        let image = module.debug_image()?;
        image.section(".debug_line")?;
        let mut dwarf = load_sections(image);
        if let Some(shared) = module.shared_debug_image() {
            dwarf.set_sup(load_sections(shared));
        }
        Context::from_dwarf(dwarf).ok().map(|context| LineTables { context })
    }

    /// The functions at an address, innermost first; empty if the address is not covered. Debug information in `.dwo`
    /// files is not read; lines are still known then, names come from elsewhere.
    pub fn places(&self, address: FileVma) -> Vec<SourcePlace> {
        let mut places = Vec::new();
        let Ok(mut frames) = self.context.find_frames(address.0).skip_all_loads() else {
            return places;
        };
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
            let location = frame.location.as_ref();
            places.push(SourcePlace {
                function,
                file: location.and_then(|location| location.file).map(without_dots),
                line: location.and_then(|location| location.line).filter(|line| *line != 0),
                column: location.and_then(|location| location.column).filter(|column| *column != 0),
            });
        }
        places
    }
}

fn load_sections(image: &Image) -> Dwarf<Bytes> {
    let empty = || Bytes::new([].into(), LittleEndian);
    let load = |id: SectionId| image.section(id.name()).map_or_else(empty, |section| section.bytes);
    let Ok(dwarf) = Dwarf::load(|id| Ok::<_, std::convert::Infallible>(load(id)));
    dwarf
}

/// `/src/./list.c` is `/src/list.c`. Parent folders stay: a symbolic link can make them mean something else.
fn without_dots(file: &str) -> PathBuf {
    Path::new(file).components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_go_and_parents_stay() {
        assert_eq!(without_dots("/src/./a//list.c"), Path::new("/src/a/list.c"));
        assert_eq!(without_dots("/src/../list.c").as_os_str(), "/src/../list.c");
    }
}

//! How a report looks: colours, its width, and paths as seen from a folder.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// No line of a report is wider, unless somebody asks for that.
pub(crate) const WIDTH: usize = 100;

/// Columns get too narrow to read below the first, and lines too long above the second.
const WIDTHS: RangeInclusive<usize> = 60..=180;

#[derive(Clone, Debug)]
pub struct Look {
    colour: bool,
    /// Paths below this folder are shown relative to it.
    folder: Option<PathBuf>,
    width: usize,
}

/// What a piece of text is, as far as colours care.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ink {
    Alarm,
    Strong,
    Function,
    Faint,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::Alarm => "1;31",
            Ink::Strong => "1",
            Ink::Function => "36",
            Ink::Faint => "2",
        }
    }
}

impl Look {
    pub fn new(colour: bool, folder: Option<PathBuf>) -> Look {
        Look { colour, folder, width: WIDTH }
    }

    /// For a terminal of this width, within reason.
    pub fn with_width(self, width: usize) -> Look {
        Look { width: width.clamp(*WIDTHS.start(), *WIDTHS.end()), ..self }
    }

    /// As seen from the current folder.
    pub fn here(colour: bool) -> Look {
        Look::new(colour, std::env::current_dir().ok())
    }

    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        match self.colour {
            true if !text.is_empty() => format!("\x1b[{}m{text}\x1b[0m", ink.code()),
            _ => text.to_owned(),
        }
    }

    /// For what will be indented further.
    pub(crate) fn narrower(&self, columns: usize) -> Look {
        Look { width: self.width - columns, ..self.clone() }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The folder that paths are relative to.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(crate) fn path(&self, path: &Path) -> String {
        self.inside(path).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// The way from the folder to a path below it.
    pub(crate) fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(self.folder.as_ref()?).ok()
    }
}

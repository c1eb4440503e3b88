//! How a report looks: colours, and paths as seen from a folder.

use std::path::{Path, PathBuf};

/// No line of a report is wider.
pub(crate) const WIDTH: usize = 100;

#[derive(Clone, Debug)]
pub struct Look {
    colour: bool,
    /// Paths below this folder are shown relative to it.
    folder: Option<PathBuf>,
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
        Look { colour, folder }
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

    pub(crate) fn path(&self, path: &Path) -> String {
        let relative = self.folder.as_ref().and_then(|folder| path.strip_prefix(folder).ok());
        relative.unwrap_or(path).to_string_lossy().into_owned()
    }
}

//! `whodunit pack`: a recording in one file with all that its replay needs; and opening recordings, packed or not.

mod copies;
pub mod level;
mod material;
mod processor;

pub use copies::copies_of;
pub use processor::warn as warn_of_processor;

use crate::recordings::text::{count, escaped, escaped_bytes, size, wrap};
use crate::recordings::{Trouble, conclude, name_of, print};
use crate::{record, voice};
use clap::Args;
use material::{LeftOut, Wanted};
use session::pack::{Contents, Member, PackError, Packed};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::index::Kind;
use trace::{Recording, Store};

const AFTER_HELP: &str = "\
The file holds the recording, copies of the programs and libraries that it refers to, and
those of their debug files and sources that are on this machine. Other verbs take it in place
of a recording, here and on other machines: they unpack it into the folder of recordings,
where `whodunit ls` shows it, and reports show the source lines that came with it.

EXIT STATUS:
  2  the command line is wrong
  3  the recording cannot be packed

EXAMPLES:
  whodunit pack latest -o crash.wdp
  whodunit replay ./crash.wdp
  whodunit pack server-3 -o server.wdp --no-sources";

/// Of many sources, the first are named.
const SHOWN_SOURCES: usize = 10;

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The recording: a name that `whodunit ls` shows, a path, or `latest`
    #[arg(value_name = "REC")]
    recording: OsString,
    /// The file to write, which must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Overwrite FILE if it exists
    #[arg(long)]
    force: bool,
    /// Leave out debug information that is in files of its own
    #[arg(long)]
    no_debug: bool,
    /// Leave out sources
    #[arg(long, conflicts_with = "max_sources")]
    no_sources: bool,
    /// The most that sources may take before they are compressed, e.g. 500M; those of the system come last
    #[arg(long, value_name = "SIZE", value_parser = record::size, default_value = "64M")]
    max_sources: u64,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    conclude(pack(arguments))
}

fn pack(arguments: &Arguments) -> Result<(), Trouble> {
    let refuse = |error: PackError| Trouble::Refused(error.to_string());
    let recording = open(&arguments.recording).map_err(Trouble::Refused)?;
    let mut contents = Contents::of(&recording).map_err(refuse)?;
    let sources = if arguments.no_sources { 0 } else { arguments.max_sources };
    let left_out = material::gather(&mut contents, &Wanted { debug: !arguments.no_debug, sources });
    let packed = session::pack::pack(&contents, &arguments.output, arguments.force).map_err(refuse)?;
    print(&account(&arguments.output, &contents, &packed, &left_out))
}

/// What went in.
fn account(output: &Path, contents: &Contents, packed: &Packed, left_out: &LeftOut) -> String {
    let mut text = String::new();
    text += &group("recording", packed, None, usize::MAX);
    text += &group("programs and libraries", packed, Some(Kind::Mapped), usize::MAX);
    text += &group("debug files", packed, Some(Kind::Debug), usize::MAX);
    text += &group("sources", packed, Some(Kind::Source), SHOWN_SOURCES);
    left_out.lines().iter().for_each(|line| text += &format!("{line}\n"));
    for (log, why) in &contents.unreadable {
        text += &format!("process {log} is packed as it is: {}\n", escaped(why));
    }
    let processor = escaped(&contents.processor);
    text += &format!("recorded on: {processor}, {}\n", level::of(&contents.features));
    text += &format!("features: {}\n", wrap(&escaped(&contents.features.join(" ")), "features: ".len()));
    let files = count(packed.members.len(), "file");
    text += &format!("{}: {files}, {}, packed {}\n", shown(output), size(packed.bytes), size(packed.packed_bytes));
    text
}

/// The files of one kind, each on a line; of many, the first and how many follow.
fn group(title: &str, packed: &Packed, kind: Option<Kind>, most: usize) -> String {
    let mut members: Vec<&Member> = packed.members.iter().filter(|member| member.kind == kind).collect();
    members.sort_by_key(|member| (material::is_of_the_system(&member.path), &member.path));
    if members.is_empty() {
        return String::new();
    }
    let mut text = format!("{title}:\n");
    for member in members.iter().take(most) {
        text += &format!("{:>9}  {}\n", size(member.bytes), shown(&member.path));
    }
    if let Some(rest) = members.get(most..).filter(|rest| !rest.is_empty()) {
        let bytes = rest.iter().map(|member| member.bytes).sum();
        text += &format!("{:>9}  in {}\n", size(bytes), count(rest.len(), "other"));
    }
    text
}

fn shown(path: &Path) -> String {
    escaped_bytes(path.as_os_str().as_bytes())
}

/// Opens what a user calls a recording: a folder or a pack. A pack that was not seen before becomes a recording of the
/// store, and the user is told.
pub fn open(name: &OsStr) -> Result<Recording, String> {
    let path = Path::new(name);
    // A path needs no store.
    if path.components().count() > 1 && path.is_dir() {
        return Recording::open(path).map_err(|error| error.to_string());
    }
    let store = Store::from_environment().map_err(|error| error.to_string())?;
    let path = store.resolve(name).map_err(|error| error.to_string())?;
    if !path.is_file() {
        return Recording::open(&path).map_err(|error| error.to_string());
    }
    let unpacked = session::pack::unpack(&path, store.root()).map_err(|error| error.to_string())?;
    let recording = Recording::open(&unpacked.folder).map_err(|error| error.to_string())?;
    if unpacked.is_new {
        let name = escaped(&name_of(&store, &unpacked.folder));
        let shown = escaped(&path.to_string_lossy());
        voice::say(&format!("whodunit: {shown} is now the recording {name}; `whodunit rm {name}` removes it\n"));
    }
    Ok(recording)
}

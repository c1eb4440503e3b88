//! `whodunit pack`: a recording in one file with all that its replay needs; and opening recordings, packed or not.

mod level;

use crate::recordings::text::{count, escaped, escaped_bytes, size, wrap};
use crate::recordings::{Trouble, conclude, name_of, print};
use crate::{machine, voice};
use clap::Args;
use session::pack::{Contents, Member, PackError, Packed};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::{Recording, Store};

const AFTER_HELP: &str = "\
The file holds the recording and copies of the programs and libraries that it refers to. Other verbs take it in place of a
recording, here and on other machines: they unpack it into the folder of recordings, where `whodunit ls` shows it.
Separate debug files and sources are not packed.

EXIT STATUS:
  2  the command line is wrong
  3  the recording cannot be packed

EXAMPLES:
  whodunit pack latest -o crash.wdp
  whodunit replay ./crash.wdp";

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
}

pub fn run(arguments: &Arguments) -> ExitCode {
    conclude(pack(arguments))
}

fn pack(arguments: &Arguments) -> Result<(), Trouble> {
    let refuse = |error: PackError| Trouble::Refused(error.to_string());
    let recording = open(&arguments.recording).map_err(Trouble::Refused)?;
    let contents = Contents::of(&recording).map_err(refuse)?;
    let packed = session::pack::pack(&contents, &arguments.output, arguments.force).map_err(refuse)?;
    print(&account(&arguments.output, &contents, &packed))
}

/// What went in.
fn account(output: &Path, contents: &Contents, packed: &Packed) -> String {
    let mut text = String::new();
    let shown = |path: &Path| escaped_bytes(path.as_os_str().as_bytes());
    let line = |member: &Member| format!("{:>9}  {}\n", size(member.bytes), shown(&member.path));
    let (copies, own): (Vec<&Member>, Vec<&Member>) = packed.members.iter().partition(|member| member.is_copy);
    text += "recording:\n";
    own.iter().for_each(|member| text += &line(member));
    text += "programs and libraries:\n";
    copies.iter().for_each(|member| text += &line(member));
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
    if let Some(warning) = missing_features(&recording) {
        voice::say(&format!("whodunit: {warning}\n"));
    }
    Ok(recording)
}

/// The program may have used all that the recording machine had.
fn missing_features(recording: &Recording) -> Option<String> {
    let mut cursor = recording.log(1).ok()?.cursor();
    let Some(trace::Event::Start(start)) = cursor.next().map(|record| record.event) else { return None };
    let features: Vec<String> = start.machine.features.iter().map(str::to_owned).collect();
    let (recorded, here) = (level::of(&features), level::of(&machine::features()));
    (recorded > here).then(|| {
        format!("recorded on {recorded}, and this machine has {here}: the replay may meet instructions that it lacks")
    })
}

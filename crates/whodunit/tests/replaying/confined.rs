//! Recording and replay need no rights: not those of root, and nothing that containers take away.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::{Place, guest, is_verified, text, told};
use crate::support::execute::Ending;
use crate::support::{build, spec, whodunit_binary};

/// The user and group called nobody.
const NOBODY: u32 = 65534;

/// A folder that other users can reach, wherever the tests are.
struct Open(PathBuf);

impl Open {
    /// Holds copies of the command and of a threaded program.
    fn new(name: &str) -> Open {
        let folder = std::env::temp_dir().join(format!("whodunit-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("own")).unwrap();
        let open = Open(folder);
        let threads = spec::find("threads", "primitives").and_then(|spec| build::build(&spec)).unwrap();
        for (from, to) in [(Path::new(&whodunit_binary()), "whodunit"), (&threads.program, "program")] {
            // By another process: what this one has open for writing, children that other tests start meanwhile have too for a
            // moment, and nobody can execute it then.
            let copied = Command::new("cp").arg(from).arg(open.path(to)).status().unwrap();
            assert!(copied.success(), "{}", from.display());
        }
        for reachable in [open.0.clone(), open.path("whodunit"), open.path("program")] {
            fs::set_permissions(reachable, Permissions::from_mode(0o755)).unwrap();
        }
        open
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A verb on a recording in the folder.
    fn whodunit(&self, place: &Place, words: &[&str]) -> Command {
        let mut command = place.command(self.path("whodunit"));
        command.args(words).arg(self.path("own").join("recording")).current_dir(self.path("own"));
        command
    }

    /// Records and looks at the recording, by commands that `confine` has changed.
    fn check(&self, place: &Place, confine: impl Fn(Command) -> Command) {
        let mut record = self.whodunit(place, &["record", "-o"]);
        record.arg("--").arg(self.path("program"));
        let recorded = place.finish(&mut confine(record));
        assert_eq!(recorded.ending, Ending::Exited(0), "{}", told(&recorded));
        let verified = place.finish(&mut confine(self.whodunit(place, &["verify"])));
        assert!(is_verified(&self.path("own").join("recording"), &verified), "{}", told(&verified));
        let replayed = place.finish(&mut confine(self.whodunit(place, &["replay"])));
        assert_eq!(text(&replayed.stdout), text(&recorded.stdout));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As root the test takes root's rights away; whoever else runs it has none.
#[test]
fn an_ordinary_user() {
    let (place, open) = (Place::new("user"), Open::new("user"));
    let is_root = fs::metadata(&open.0).unwrap().uid() == 0;
    if is_root {
        chown(open.path("own"), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    open.check(&place, |mut command| {
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    });
}

#[test]
fn what_containers_refuse() {
    let (place, open) = (Place::new("container"), Open::new("container"));
    let deny = guest("deny").program;
    open.check(&place, |command| {
        let mut confined = place.command(&deny);
        confined.arg(command.get_program()).args(command.get_args());
        confined.current_dir(open.path("own"));
        confined
    });
}

//! A folder with a program, its recording, and stores on two machines that know nothing of each other.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Prints its input, of which nothing is left at the time of the replay, and ends with a status of its own.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    char line[100] = "";
    FILE *file = fopen(argv[1], "r");
    if (!file || !fgets(line, sizeof line, file)) return 1;
    printf("%s at %ld, heap %p\n", line, (long)time(NULL), malloc(10));
    return 7;
}
"#;

pub struct Bench {
    pub folder: PathBuf,
}

impl Bench {
    pub fn new() -> Bench {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("packing-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for name in ["here", "there"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        Bench { folder }
    }

    /// With a recording `rec` of a program that is linked to the C library; gives what the program wrote.
    pub fn with_recording() -> (Bench, String) {
        let bench = Bench::new();
        fs::write(bench.path("prog.c"), SOURCE).unwrap();
        let compiled = Command::new("cc").args(["-g", "-o", "prog", "prog.c"]).current_dir(&bench.folder).status();
        assert!(compiled.unwrap().success());
        fs::write(bench.path("input"), "read once").unwrap();
        let output = bench.here(["record", "-o", "rec", "--", "./prog", "input"]);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        (bench, String::from_utf8(output.stdout).unwrap())
    }

    /// With a pack of it.
    pub fn with_pack() -> (Bench, String) {
        let (bench, output) = Bench::with_recording();
        let packed = bench.here(["pack", "./rec", "-o", "prog.wdp"]);
        assert_eq!(packed.status.code(), Some(0), "{packed:?}");
        (bench, output)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// On the machine where it was recorded.
    pub fn here<Word: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = Word>) -> Output {
        self.whodunit(&self.folder, "here", words)
    }

    /// On another.
    pub fn there<Word: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = Word>) -> Output {
        self.whodunit(&self.path("there"), "there/store", words)
    }

    fn whodunit<Word: AsRef<OsStr>>(
        &self,
        folder: &Path,
        store: &str,
        words: impl IntoIterator<Item = Word>,
    ) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whodunit"));
        command.args(words).current_dir(folder).env("WHODUNIT_DIR", self.path(store)).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// The pack is refused in one line that has these words; nothing is left of it.
    #[track_caller]
    pub fn assert_refused(&self, pack: &str, words: &str) {
        for verb in ["replay", "verify"] {
            let output = self.there([verb, self.path(pack).to_str().unwrap()]);
            refused(&output, words);
        }
        let left: Vec<_> = fs::read_dir(self.path("there/store")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[track_caller]
pub fn refused(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let is_one_line = said.starts_with("whodunit: ") && said.matches('\n').count() == 1;
    assert!(is_one_line && said.contains(words), "expected `{words}` in one line: {said}");
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

//! Runs a built program, as it is or under the engine, and keeps all that can be seen of the run from outside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::build::Built;
use super::spec::Spec;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Killed(i32),
    TimedOut(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub ending: Ending,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Runs the program without the engine.
pub fn natively(spec: &Spec, built: &Built) -> Result<Outcome, String> {
    execute(spec, built, &[])
}

/// Runs the program under `whodunit run OPTIONS --`.
pub fn under_engine(spec: &Spec, built: &Built, options: &[OsString]) -> Result<Outcome, String> {
    execute(spec, built, &engine_prefix(spec, options))
}

/// Runs the program under `whodunit record -o FOLDER OPTIONS --`.
pub fn recorded(spec: &Spec, built: &Built, folder: &Path, options: &[OsString]) -> Result<Outcome, String> {
    recorded_in(&Scratch::new(spec)?, spec, built, folder, options)
}

/// The same in a folder that stays, for those who run the recording again: it may come to want its files.
pub fn recorded_in(
    scratch: &Scratch,
    spec: &Spec,
    built: &Built,
    folder: &Path,
    options: &[OsString],
) -> Result<Outcome, String> {
    let options: Vec<OsString> = ["-o".into(), folder.into()].into_iter().chain(options.iter().cloned()).collect();
    execute_in(scratch, spec, built, &prefix_of("record", spec, &options))
}

fn engine_prefix(spec: &Spec, options: &[OsString]) -> Vec<OsString> {
    prefix_of("run", spec, options)
}

fn prefix_of(verb: &str, spec: &Spec, options: &[OsString]) -> Vec<OsString> {
    let mut prefix = vec![super::whodunit_binary(), verb.into()];
    prefix.extend_from_slice(options);
    if spec.crashes {
        prefix.push("--no-report".into());
    }
    prefix.push("--".into());
    prefix
}

/// The command to type to see the run under the engine once more.
pub fn by_hand(spec: &Spec, built: &Built) -> String {
    let mut words: Vec<String> = spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let prefix = engine_prefix(spec, &[]);
    words.extend(prefix.iter().map(|word| word.to_string_lossy().into_owned()));
    words.push(built.program.to_string_lossy().into_owned());
    words.extend_from_slice(&spec.args);
    words.join(" ")
}

fn execute(spec: &Spec, built: &Built, prefix: &[OsString]) -> Result<Outcome, String> {
    execute_in(&Scratch::new(spec)?, spec, built, prefix)
}

fn execute_in(scratch: &Scratch, spec: &Spec, built: &Built, prefix: &[OsString]) -> Result<Outcome, String> {
    let mut words = prefix.to_vec();
    words.push(built.program.clone().into());
    words.extend(spec.args.iter().map(OsString::from));
    let mut command = shell_around(spec, &words);
    scratch
        .connect(&mut command, spec)
        .map_err(|error| format!("cannot prepare the run of {}: {error}", spec.title()))?;
    let ending = wait_within(&mut command, spec.limit)?;
    Ok(Outcome { ending, stdout: read(&scratch.path("stdout"))?, stderr: read(&scratch.path("stderr"))? })
}

/// A shell around the command gives every run the same limits and lets a header redirect it.
/// The environment is fixed, so that results do not depend on who runs the tests.
fn shell_around(spec: &Spec, words: &[OsString]) -> Command {
    let snippet = spec.run.as_deref().unwrap_or(r#"exec "$@""#);
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("ulimit -S -c 0; ulimit -S -s 8192; {snippet}"))
        .arg("sh")
        .args(words)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LC_ALL", "C")
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .process_group(0);
    command
}

/// Runs any command to its end within the limit; its output goes to files in the scratch folder.
pub fn command(scratch: &Scratch, command: &mut Command, limit: Duration) -> Result<Outcome, String> {
    let create = |name| File::create(scratch.path(name)).map_err(|error| format!("cannot create {name}: {error}"));
    command.stdout(create("stdout")?).stderr(create("stderr")?).process_group(0);
    let ending = wait_within(command, limit)?;
    Ok(Outcome { ending, stdout: read(&scratch.path("stdout"))?, stderr: read(&scratch.path("stderr"))? })
}

/// Waits for the command; past the limit, ends its process group and says so.
fn wait_within(command: &mut Command, limit: Duration) -> Result<Ending, String> {
    let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let group = child.id();
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let _ = sender.send(child.wait());
    });
    let waited = receiver.recv_timeout(limit);
    if waited.is_err() {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status();
    }
    waiter.join().map_err(|_| "the waiting thread panicked".to_owned())?;
    match waited {
        Err(_) => Ok(Ending::TimedOut(limit)),
        Ok(Err(error)) => Err(format!("cannot wait for {command:?}: {error}")),
        Ok(Ok(status)) => Ok(ending_of(status)),
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed(signal.unwrap_or_default()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// A folder for one run, removed afterwards.
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub fn new(spec: &Spec) -> Result<Scratch, String> {
        Scratch::named(&spec.name)
    }

    pub fn named(name: &str) -> Result<Scratch, String> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        // The shell tells the program its folder (PWD), so all names of a test run must be of one length.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("runs")
            .join(format!("{name}-{}-{serial:06}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        Ok(Scratch { folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Gives the command a folder to run in, empty but for the files it asks for, and files for its input and output.
    /// (Files, not pipes: a process that outlives the program cannot hold up the reader.)
    fn connect(&self, command: &mut Command, spec: &Spec) -> std::io::Result<()> {
        fs::create_dir(self.path("cwd"))?;
        for (name, text) in &spec.files {
            fs::write(self.path("cwd").join(name), text)?;
        }
        fs::write(self.path("stdin"), spec.stdin.as_deref().unwrap_or(""))?;
        command
            .current_dir(self.path("cwd"))
            .stdin(Stdio::from(File::open(self.path("stdin"))?))
            .stdout(Stdio::from(File::create(self.path("stdout"))?))
            .stderr(Stdio::from(File::create(self.path("stderr"))?));
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

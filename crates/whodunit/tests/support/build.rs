//! From a program's source to something that can be run, kept between runs by the hash of all that went into it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::spec::Spec;

/// A built program. It lives in a folder of its own, beside its library if it has one.
#[derive(Debug, Clone)]
pub struct Built {
    pub program: PathBuf,
}

/// Builds `spec`, or finds the result of an earlier build of the same bytes.
pub fn build(spec: &Spec) -> Result<Built, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests").join(format!(
        "{}-{:016x}",
        spec.name,
        fingerprint(spec)?
    ));
    let program = folder.join(&spec.name);
    if !program.is_file() {
        build_into(spec, &folder)?;
    }
    Ok(Built { program })
}

/// Builds beside the final folder and renames it, so that nobody ever sees half a build.
fn build_into(spec: &Spec, folder: &Path) -> Result<(), String> {
    // Several tests of one process may build the same program at once.
    static BUILDS: AtomicU64 = AtomicU64::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let staging = folder.with_extension(format!("{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&staging);
    fs::create_dir_all(&staging).map_err(|error| cannot("create", &staging, &error))?;
    if let Some(flags) = &spec.library_flags {
        let mut command = compiler(spec, flags, folder, &staging);
        command
            .args(["-shared", "-fPIC", "-DLIB"])
            .arg(format!("-Wl,-soname,{}", library_name(spec)))
            .arg("-o")
            .arg(staging.join(library_name(spec)));
        succeed(command)?;
    }
    build_program(spec, folder, &staging)?;
    run_post(spec, &staging)?;
    match fs::rename(&staging, folder) {
        // Another test finished the same build first.
        Err(_) if folder.is_dir() => {
            let _ = fs::remove_dir_all(&staging);
            Ok(())
        }
        Err(error) => Err(cannot("rename", &staging, &error)),
        Ok(()) => Ok(()),
    }
}

fn build_program(spec: &Spec, folder: &Path, staging: &Path) -> Result<(), String> {
    let output = staging.join(&spec.name);
    if spec.extension() == "sh" {
        // `cp` keeps the executable bit of the script.
        let mut command = Command::new("cp");
        command.arg("-p").arg(&spec.source).arg(&output);
        return succeed(command);
    }
    let mut command = compiler(spec, &spec.compiler_flags, folder, staging);
    command.arg("-o").arg(&output);
    succeed(command)
}

/// The compiler with the program's own flags last, so that they win over the common ones.
fn compiler(spec: &Spec, flags: &[String], folder: &Path, staging: &Path) -> Command {
    let own_library = staging.join(library_name(spec));
    let flags = flags.iter().map(|flag| flag.replace("{lib}", &own_library.to_string_lossy()));
    if spec.extension() == "rs" {
        let mut command = Command::new("rustc");
        command.args(["--edition", "2021", "-O"]).arg(&spec.source).args(flags);
        return command;
    }
    let language_is_cxx = spec.extension() == "cc";
    let mut command = Command::new(if language_is_cxx { "c++" } else { "cc" });
    command
        .args(["-g", "-O1", "-Wall", "-I"])
        .arg(&spec.include)
        .arg(format!("-DLIB_PATH=\"{}\"", folder.join(library_name(spec)).display()))
        .arg(if language_is_cxx { "-std=c++20" } else { "-std=gnu11" })
        .arg(&spec.source)
        .args(flags);
    if spec.library_flags.is_some() {
        command.arg("-Wl,-rpath,$ORIGIN");
    }
    command
}

fn library_name(spec: &Spec) -> String {
    format!("{}-lib.so", spec.name)
}

fn run_post(spec: &Spec, staging: &Path) -> Result<(), String> {
    let Some(post) = &spec.post else {
        return Ok(());
    };
    let mut command = Command::new("sh");
    command.args(["-c", post]).env("OUT", staging.join(&spec.name)).current_dir(staging);
    succeed(command)
}

/// A hash of the source, the shared headers, the flags and the compilers' versions.
fn fingerprint(spec: &Spec) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    let mut inputs: Vec<PathBuf> = fs::read_dir(&spec.include)
        .map_err(|error| cannot("list", &spec.include, &error))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
        .collect();
    inputs.sort();
    inputs.push(spec.source.clone());
    for input in inputs {
        fs::read(&input).map_err(|error| cannot("read", &input, &error))?.hash(&mut hasher);
    }
    spec.compiler_flags.hash(&mut hasher);
    toolchain().hash(&mut hasher);
    include_str!("build.rs").hash(&mut hasher);
    Ok(hasher.finish())
}

fn toolchain() -> &'static str {
    static VERSIONS: OnceLock<String> = OnceLock::new();
    VERSIONS.get_or_init(|| {
        ["cc", "c++", "rustc"]
            .iter()
            .filter_map(|name| Command::new(name).arg("--version").output().ok())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .collect()
    })
}

fn succeed(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

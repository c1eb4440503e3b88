//! Owns which Debian package brings which command, and installs what is missing.
//!
//! A test or benchmark names the commands it uses; if one is absent, all packages of the table that
//! are absent are installed in a single `apt-get` run, by whichever process takes the lock first.
//! Without root rights (or password-less `sudo`) the caller fails with the command to type.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

use nix::fcntl::{Flock, FlockArg};

/// Where Debian puts commands; locally built replacements elsewhere are not what is compared.
pub const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Command, and the package that brings it.
const PACKAGES: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("bc", "bc"),
    ("busybox", "busybox-static"),
    ("bzip2", "bzip2"),
    ("cmake", "cmake"),
    ("curl", "curl"),
    ("dash", "dash"),
    ("diff", "diffutils"),
    ("fdfind", "fd-find"),
    ("file", "file"),
    ("find", "findutils"),
    ("fzf", "fzf"),
    ("g++", "g++"),
    ("gawk", "gawk"),
    ("gcc", "gcc"),
    ("gdb", "gdb"),
    ("git", "git"),
    ("grep", "grep"),
    ("gron", "gron"),
    ("gzip", "gzip"),
    ("java", "default-jre-headless"),
    ("javac", "default-jdk-headless"),
    ("jq", "jq"),
    ("lua5.4", "lua5.4"),
    ("m4", "m4"),
    ("make", "make"),
    ("memcached", "memcached"),
    ("nginx", "nginx-light"),
    ("ninja", "ninja-build"),
    ("node", "nodejs"),
    ("openssl", "openssl"),
    ("pbzip2", "pbzip2"),
    ("perl", "perl"),
    ("pigz", "pigz"),
    ("python3", "python3"),
    ("redis-cli", "redis-tools"),
    ("redis-server", "redis-server"),
    ("rg", "ripgrep"),
    ("sed", "sed"),
    ("shellcheck", "shellcheck"),
    ("sqlite3", "sqlite3"),
    ("tar", "tar"),
    ("tmux", "tmux"),
    ("valgrind", "valgrind"),
    ("vim", "vim"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
];

/// Installs packages with services kept from starting: while `policy-rc.d` answers 101, Debian's
/// maintainer scripts start nothing. An existing policy is left as it is.
const INSTALL_SCRIPT: &str = r#"
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=300 update
apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
"#;

/// Serialises the threads of this process; the file lock serialises processes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Makes sure that every named command exists.
///
/// # Panics
/// If one is missing and cannot be installed: the message is the command that installs it.
pub fn need(commands: &[&str]) {
    if packages_for(commands).is_empty() {
        return;
    }
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let _lock = lock_across_processes();
    let wanted = packages_for(commands);
    if wanted.is_empty() {
        return;
    }
    let all: Vec<&str> = PACKAGES.iter().map(|(command, _)| *command).collect();
    let trouble = install(&packages_for(&all));
    let missing = packages_for(commands);
    assert!(
        missing.is_empty(),
        "missing packages, install them with: apt-get install --no-install-recommends {}\n{trouble}",
        missing.join(" "),
    );
}

/// The packages that bring those of `commands` that do not exist.
fn packages_for(commands: &[&str]) -> Vec<&'static str> {
    commands.iter().filter(|command| !exists(command)).map(|command| package_of(command)).collect()
}

fn exists(command: &str) -> bool {
    SEARCH_PATH.split(':').any(|folder| Path::new(folder).join(command).exists())
}

fn package_of(command: &str) -> &'static str {
    PACKAGES
        .iter()
        .find(|(known, _)| *known == command)
        .map(|(_, package)| *package)
        .unwrap_or_else(|| panic!("{command} is not in the table of packages"))
}

fn lock_across_processes() -> Flock<std::fs::File> {
    let user = nix::unistd::Uid::effective();
    let path = std::env::temp_dir().join(format!("whodunit-apt-{user}.lock"));
    let file = std::fs::File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Flock::lock(file, FlockArg::LockExclusive).unwrap_or_else(|(_, error)| panic!("{}: {error}", path.display()))
}

/// Returns what went wrong, for the caller to show if a command it needs is still missing.
fn install(packages: &[&str]) -> String {
    let Some(mut shell) = root_shell() else {
        return "neither root nor password-less sudo".to_owned();
    };
    eprintln!("installing {}", packages.join(" "));
    match shell.args(["-c", INSTALL_SCRIPT, "install"]).args(packages).output() {
        Ok(output) => complaints(&output),
        Err(error) => format!("cannot start a root shell: {error}"),
    }
}

fn root_shell() -> Option<Command> {
    if nix::unistd::Uid::effective().is_root() {
        return Some(Command::new("/bin/sh"));
    }
    let allowed = Command::new("sudo").args(["-n", "true"]).output().ok()?.status.success();
    allowed.then(|| {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "/bin/sh"]);
        sudo
    })
}

fn complaints(output: &Output) -> String {
    if output.status.success() {
        return String::new();
    }
    format!("apt-get: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

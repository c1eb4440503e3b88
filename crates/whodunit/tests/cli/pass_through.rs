//! What must come through unchanged: status, signals, words, environment, and who is run by whom.

use super::harness::{Folder, Outcome, WHODUNIT, finish, whodunit};
use std::process::Command;

const CRASH: &str = "int main(void) { *(volatile int *)0 = 1; }";

fn in_shell(line: &str) -> Outcome {
    whodunit(["run", "--", "sh", "-c", line])
}

#[test]
fn exit_status() {
    for status in [0, 1, 7, 124, 255] {
        let outcome = in_shell(&format!("exit {status}"));
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(status), ""));
    }
}

#[test]
fn ending_by_a_signal() {
    for (name, number) in [("KILL", 9), ("TERM", 15), ("USR1", 10), ("PIPE", 13)] {
        let outcome = in_shell(&format!("echo before; kill -{name} $$; echo after"));
        assert_eq!((outcome.signal(), outcome.stdout.as_str()), (Some(number), "before\n"), "{outcome:?}");
    }
}

#[test]
fn ending_by_a_fault() {
    let folder = Folder::new("fault");
    folder.compile("crash", CRASH, &[]);
    assert_eq!(folder.whodunit(["run", "./crash"]).signal(), Some(11));
}

#[test]
fn script_with_its_arguments() {
    let folder = Folder::new("script");
    folder.file("script", b"#!/bin/sh -e\necho \"$0|$1|$2\"\nfalse\necho not reached\n", 0o755);
    let outcome = folder.whodunit(["run", "./script", "one", "two words"]);
    assert_eq!((outcome.stdout.as_str(), outcome.code()), ("./script|one|two words\n", Some(1)));
}

#[test]
fn programs_are_searched_in_the_path() {
    let folder = Folder::new("path");
    let tool = folder.file("tool", b"#!/bin/sh\necho found $0\n", 0o755);
    let search =
        |path: &str| finish(Command::new(WHODUNIT).args(["run", "tool"]).env("PATH", path).current_dir(&folder.0));
    let outcome = search(&format!("/nonexistent:{}", folder.0.display()));
    assert_eq!(outcome.stdout, format!("found {}\n", tool.display()));
    assert_eq!(search("/nonexistent:").stdout, "found ./tool\n");
    search("/nonexistent").assert_refused(127, "tool: command not found");
}

/// Executes its arguments with an environment that only a program can make.
const WITH_ODD_ENVIRONMENT: &str = r#"
#include <unistd.h>
int main(int argc, char **argv) {
    char *environment[] = {"odd", "A=1", "A=2", "", "=x", 0};
    execve(argv[1], argv + 1, environment);
    return 1;
}"#;

const SHOW_ENVIRONMENT: &str = r#"
#include <stdio.h>
extern char **environ;
int main(void) { for (char **entry = environ; *entry; entry++) printf("[%s]", *entry); }"#;

#[test]
fn environment_is_untouched() {
    let folder = Folder::new("environment");
    let launcher = folder.text("launcher");
    let show = folder.text("show");
    folder.compile("launcher", WITH_ODD_ENVIRONMENT, &[]);
    folder.compile("show", SHOW_ENVIRONMENT, &[]);
    let expected = "[odd][A=1][A=2][][=x]";
    assert_eq!(finish(Command::new(&launcher).args([WHODUNIT, "run", &show])).stdout, expected);
    assert_eq!(whodunit(["run", &launcher, &show]).stdout, expected);
}

/// The engine puts the stack of a program elsewhere than the kernel does.
const WHO_RUNS_ME: &str = r#"
#include <stdio.h>
int main(void) { int local; puts((unsigned long)&local >> 40 == 0x7f ? "the kernel" : "the engine"); }"#;

#[test]
fn executed_programs_are_followed_or_not() {
    let folder = Folder::new("follow");
    folder.compile("child", WHO_RUNS_ME, &[]);
    let run = |flags: &[&str]| {
        let words = [&["run"], flags, &["sh", "-c", "./child; ./child; exec ./child"]].concat();
        folder.whodunit(words).stdout
    };
    let (engine, kernel) = ("the engine\n".repeat(3), "the kernel\n".repeat(3));
    assert_eq!(run(&[]), engine);
    assert_eq!(run(&["--no-follow", "--follow"]), engine);
    assert_eq!(run(&["--no-follow"]), kernel);
    assert_eq!(run(&["--follow", "--no-follow"]), kernel);
}

#[test]
fn followed_programs_inherit_the_settings() {
    let folder = Folder::new("inherit");
    folder.compile("crash", CRASH, &[]);
    let line = "./crash; echo $?";
    let loud = folder.whodunit(["run", "sh", "-c", line]);
    let silent = folder.whodunit(["run", "--no-report", "sh", "-c", line]);
    assert_eq!((loud.stdout.as_str(), silent.stdout.as_str()), ("139\n", "139\n"));
    assert!(loud.stderr.contains("invalid write to 0x0"), "{}", loud.stderr);
    assert!(!silent.stderr.contains("invalid write"), "{}", silent.stderr);
}

/// The compiler proper is large: a small cache holds only a part of it at a time.
#[test]
fn a_full_code_cache_is_emptied_and_filled_again() {
    let folder = Folder::new("cache");
    let compiler = finish(Command::new("gcc").arg("-print-prog-name=cc1")).stdout;
    let mut source = String::new();
    for index in 0..40 {
        source += &format!(
            "int f{index}(int *p, int n) {{ int s = {index}; while (n--) s = s * 3 ^ p[n % 7]; return s; }}\n"
        );
    }
    std::fs::write(folder.path("many.c"), source).unwrap();
    let words = |out: &str| {
        let program = compiler.trim().to_owned();
        [program, "-quiet".into(), "-O2".into(), folder.text("many.c"), "-o".into(), folder.text(out)]
    };
    let native = words("native.s");
    assert!(finish(Command::new(&native[0]).args(&native[1..])).status.success());
    let stats = format!("--stats={}", folder.text("figures.json"));
    let options = ["run", "--cache-size", "4", &stats, "--"].map(str::to_owned);
    let outcome = whodunit(options.into_iter().chain(words("engine.s")));
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (Some(0), ""));
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
    assert_eq!(read("native.s"), read("engine.s"));
    let figures: serde_json::Value = serde_json::from_str(&read("figures.json")).unwrap();
    assert!(figures["flushes"].as_u64().unwrap() > 0, "{figures}");
}

/// Says who loads it, and what the loader was told.
const PRELOADED: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
    dprintf(1, "%s: %s\n", program_invocation_short_name, getenv("LD_BIND_NOW"));
}
"#;

/// Programs that the guest executes are started by another whodunit, whose loader must not obey the guest's variables.
#[test]
fn preloaded_libraries_reach_the_guest_alone() {
    let folder = Folder::new("preload");
    folder.compile("preloaded.so", PRELOADED, &["-shared", "-fPIC", "-D_GNU_SOURCE"]);
    let library = folder.0.join("preloaded.so");
    let run = |line: &str| {
        let mut command = Command::new(WHODUNIT);
        finish(command.args(["run", "--", "sh", "-c", line]).env("LD_BIND_NOW", "1").current_dir(&folder.0))
    };
    let line = format!("LD_PRELOAD={} env true; ldd /bin/true | grep -c libc.so", library.display());
    let outcome = run(&line);
    assert_eq!((outcome.stdout.as_str(), outcome.code()), ("env: 1\ntrue: 1\n1\n", Some(0)), "{outcome:?}");
}

/// Starting again must not look like an inheritance.
#[test]
fn what_whodunit_was_given_outlives_its_second_start() {
    let line = "echo $LD_BIND_NOW; kill -PIPE $$; echo ignored";
    let outcome = finish(Command::new(WHODUNIT).args(["run", "--", "sh", "-c", line]).env("LD_BIND_NOW", "1"));
    assert_eq!((outcome.stdout.as_str(), outcome.signal()), ("1\n", Some(13)), "{outcome:?}");
}

// Rust's std::process: output, pipes, environment, current directory, exit codes, signals, errors.
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

fn main() {
    let output = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().unwrap();
    println!("{:?} {:?} {:?}", output.status.code(), output.stdout.escape_ascii().to_string(), output.stderr.escape_ascii().to_string());
    let error = Command::new("/no/such/program").spawn().unwrap_err();
    println!("missing: {:?}", error.kind());
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || (0..20000).for_each(|n| writeln!(stdin, "line {n}").unwrap()));
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    writer.join().unwrap();
    println!("cat gave {} lines, {}", text.lines().count(), child.wait().unwrap());
    let status = Command::new("sh").args(["-c", "kill -KILL $$"]).status().unwrap();
    println!("killed by {:?}", status.signal());
    let output = Command::new("sh").args(["-c", "echo $NAME; pwd"]).env_clear().env("NAME", "value").current_dir("/").output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    println!("running {}", sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    println!("{:?}", sleeper.wait().unwrap().signal());
    std::process::exit(101);
}

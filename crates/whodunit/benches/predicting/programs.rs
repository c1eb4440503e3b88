//! Threaded programs of Debian, recorded under a bounded load.

use crate::answers::{Answer, ask, reports};
use crate::support::whodunit_binary;
use crate::{Arguments, debian};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What compressors are given: text that is not too easy.
const INPUT: &str = "seq 1 60000 | awk '{print $1*$1*7919 % 100003, \"line\", $1}' | head -c 400000 >input";

/// No program has so many pairs of instructions to try.
const ALL: &str = "10000";

struct Load {
    name: &'static str,
    needs: &'static [&'static str],
    /// A script that runs the program behind `$run`, in a folder with `input`.
    script: &'static str,
}

const REDIS: &str = r#"SERVER_RUN=$run python3 serve.py 'redis-server --port $PORT --bind 127.0.0.1 --save "" --io-threads 2' '
    seq 1 200 | sed "s/.*/SET key:& value&/" | redis-cli -p $PORT --pipe
    redis-benchmark -q -p $PORT -n 300 -c 8 -r 1 -t incr,lpush,hset
    redis-cli -p $PORT flushall async; redis-cli -p $PORT shutdown nosave'"#;

const LOADS: [Load; 6] = [
    Load { name: "pbzip2", needs: &["pbzip2"], script: "$run pbzip2 -p2 -b1 -1 -k -c input" },
    Load { name: "pigz", needs: &["pigz"], script: "$run pigz -p 2 -b 128 -c input" },
    Load { name: "xz", needs: &["xz"], script: "head -c 60000 input >part; $run xz -T2 --block-size=32KiB -c part" },
    Load { name: "zstd", needs: &["zstd"], script: "$run zstd -q -T2 -B131072 -c input" },
    Load {
        name: "memcached",
        needs: &["memcached", "python3"],
        script: "SERVER_RUN=$run python3 serve.py 'memcached -u root -l 127.0.0.1 -p $PORT -U 0 -t 3 -m 32' 'python3 -B memcache.py'",
    },
    Load { name: "redis", needs: &["redis-server", "redis-cli", "python3"], script: REDIS },
];

pub fn print(arguments: &Arguments, place: &Path) -> Result<(), String> {
    println!("\n{:12}{:>8}{:>10}{:>10}{:>6}{:>6}", "program", "alarms", "time", "memory", "race", "atom");
    prepare(place)?;
    for load in LOADS.iter().filter(|load| arguments.common.wants(load.name)) {
        debian::need(load.needs);
        let row = measure(load, place).unwrap_or_else(|reason| format!("  {reason}"));
        println!("{:12}{row}", load.name);
    }
    Ok(())
}

/// A program that computes for a second natively and has 24 fatal orders: how long it takes to try them.
pub fn print_validation(arguments: &Arguments, place: &Path) -> Result<(), String> {
    if !arguments.common.wants("tables") {
        return Ok(());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/predicting/programs/tables.c");
    shell(place, &format!("cc -g -O1 -pthread -o tables {} && $run ./tables", source.display()), &record("tables"))?;
    let (began, recording) = (Instant::now(), recording("tables"));
    ask(place, "fatal", &["--most", "0", &recording])?;
    let detected = began.elapsed().as_secs_f64();
    let Answer { findings, .. } = ask(place, "fatal", &[&recording])?;
    let tried = began.elapsed().as_secs_f64() - 2.0 * detected;
    let n_proved: u64 = findings.iter().filter_map(|finding| finding["count"].as_u64()).sum();
    println!("\ntables: {n_proved} orders proved in {tried:.1} s, after {detected:.1} s for the detectors");
    Ok(())
}

fn recording(name: &str) -> String {
    format!("{name}.recording")
}

/// What records the program behind it.
fn record(name: &str) -> String {
    format!("{} record --no-report -o {} --", whodunit_binary().to_string_lossy(), recording(name))
}

fn prepare(place: &Path) -> Result<(), String> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fixtures/servers");
    for name in ["serve.py", "memcache.py"] {
        std::fs::copy(fixtures.join(name), place.join(name)).map_err(|error| format!("{name}: {error}"))?;
    }
    shell(place, INPUT, "")
}

fn measure(load: &Load, place: &Path) -> Result<String, String> {
    let recording = recording(load.name);
    shell(place, load.script, &record(load.name))?;
    let Answer { run, findings, summary } = ask(place, "fatal", &["--most", ALL, &recording])?;
    let (race, atom) = (reports(place, "race", &[&recording]), reports(place, "atom", &[&recording]));
    let (n_alarms, megabytes) = (findings.len(), run.peak as f64 / 1e6);
    Ok(format!("{n_alarms:>8}{:>8.1} s{megabytes:>7.0} MB{race:>6}{atom:>6}   {summary}", run.cpu))
}

fn shell(place: &Path, script: &str, run: &str) -> Result<(), String> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(place).env("run", run).env("TMPDIR", place);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the load ended with {status}")),
        Err(error) => Err(error.to_string()),
    }
}

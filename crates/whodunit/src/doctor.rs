//! `whodunit doctor`: does this machine suit, and if not, what has to change?
//!
//! One line a check. What the checks look at is read first, in one place, from `/proc` and the processor; the
//! judgement is a pure function of it. A file that cannot be read is a note and never a refusal: the engine itself
//! does not need it.

use std::fmt;
use std::fs;
use std::io::{self, Write};

/// The first kernel that lets programs change their segment bases.
const KERNEL_WANTED: (u32, u32) = (5, 9);
/// The first kernel that can map memory at an address only if nothing is there.
const KERNEL_NEEDED: (u32, u32) = (4, 17);
const AUXV_HWCAP2: u64 = 26;
const HWCAP2_FSGSBASE: u64 = 1 << 1;

/// The kernel's default. Each unit of memory that is protected by itself takes one mapping.
const MAP_COUNT_WANTED: u64 = 65530;
const ADDRESS_SPACE_WANTED: u64 = 64 << 30;
const OPEN_FILES_WANTED: u64 = 1024;
const PROCESSES_WANTED: u64 = 256;
const STACK_WANTED: u64 = 1 << 20;

/// Writes a line for each check and a verdict; true if programs can be run here.
pub fn run(out: &mut dyn Write) -> io::Result<bool> {
    let findings = examine(&Machine::read());
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    let (verdict, suits) = verdict(&findings);
    writeln!(out, "{verdict}")?;
    Ok(suits)
}

/// All that the checks look at; `None` where it could not be read.
struct Machine {
    kernel_release: Option<String>,
    auxiliary_vector: Option<Vec<u8>>,
    cpuinfo: Option<String>,
    status: Option<String>,
    limits: Option<String>,
    max_map_count: Option<String>,
    overcommit_memory: Option<String>,
    has_xsave: bool,
    has_xsaveopt: bool,
    has_bmi2: bool,
}

impl Machine {
    fn read() -> Machine {
        Machine {
            kernel_release: fs::read_to_string("/proc/sys/kernel/osrelease").ok(),
            auxiliary_vector: fs::read("/proc/self/auxv").ok(),
            cpuinfo: fs::read_to_string("/proc/cpuinfo").ok(),
            status: fs::read_to_string("/proc/self/status").ok(),
            limits: fs::read_to_string("/proc/self/limits").ok(),
            max_map_count: fs::read_to_string("/proc/sys/vm/max_map_count").ok(),
            overcommit_memory: fs::read_to_string("/proc/sys/vm/overcommit_memory").ok(),
            has_xsave: std::arch::is_x86_feature_detected!("xsave"),
            has_xsaveopt: std::arch::is_x86_feature_detected!("xsaveopt"),
            has_bmi2: std::arch::is_x86_feature_detected!("bmi2"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Note,
    Fail,
}

struct Finding {
    level: Level,
    subject: &'static str,
    found: String,
    /// What to change; absent where nothing needs changing.
    advice: Option<String>,
}

impl Finding {
    fn ok(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding { level: Level::Ok, subject, found: found.into(), advice: None }
    }

    fn note(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { level: Level::Note, subject, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { level: Level::Fail, subject, found: found.into(), advice: Some(advice.into()) }
    }

    fn unknown(subject: &'static str) -> Finding {
        Finding::note(subject, "cannot be told", "mount /proc to have it checked")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Fail => "FAIL",
        };
        write!(out, "{level:<5} {:<17} {}", self.subject, self.found)?;
        match &self.advice {
            Some(advice) => write!(out, ": {advice}"),
            None => Ok(()),
        }
    }
}

fn examine(machine: &Machine) -> Vec<Finding> {
    let limits = machine.limits.as_deref();
    vec![
        Finding::ok("processor", "x86-64"),
        check_kernel(machine.kernel_release.as_deref()),
        check_fsgsbase(machine.auxiliary_vector.as_deref()),
        check_xsave(machine.has_xsave, machine.has_xsaveopt),
        check_bmi2(machine.has_bmi2),
        check_address_bits(machine.cpuinfo.as_deref()),
        check_seccomp(machine.status.as_deref()),
        check_map_count(machine.max_map_count.as_deref()),
        check_overcommit(machine.overcommit_memory.as_deref()),
        check_limit(limits, &ADDRESS_SPACE),
        check_limit(limits, &OPEN_FILES),
        check_limit(limits, &PROCESSES),
        check_limit(limits, &STACK),
        Finding::ok("not needed", "ptrace, performance counters, kernel modules, privileges"),
    ]
}

fn verdict(findings: &[Finding]) -> (String, bool) {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    match (count(Level::Fail), count(Level::Note)) {
        (0, 0) => ("This machine suits whodunit.".to_owned(), true),
        (0, 1) => ("This machine suits whodunit; there is 1 note above.".to_owned(), true),
        (0, n_notes) => (format!("This machine suits whodunit; there are {n_notes} notes above."), true),
        (n_fails, _) => (format!("This machine does not suit whodunit: see the lines marked FAIL ({n_fails})."), false),
    }
}

fn check_kernel(release: Option<&str>) -> Finding {
    let Some((release, version)) = release.and_then(|text| Some((text.trim(), parse_release(text)?))) else {
        return Finding::unknown("kernel");
    };
    let (major, minor) = KERNEL_WANTED;
    if version >= KERNEL_WANTED {
        Finding::ok("kernel", release)
    } else if version >= KERNEL_NEEDED {
        let advice = format!("older than {major}.{minor}; it serves only if FSGSBASE is enabled (next line)");
        Finding::note("kernel", release, advice)
    } else {
        Finding::fail("kernel", release, format!("too old; use Linux {major}.{minor} or newer"))
    }
}

fn check_fsgsbase(auxiliary_vector: Option<&[u8]>) -> Finding {
    match auxiliary_vector {
        None => Finding::unknown("FSGSBASE"),
        Some(vector) if parse_hwcap2(vector) & HWCAP2_FSGSBASE != 0 => Finding::ok("FSGSBASE", "enabled"),
        Some(_) => Finding::fail(
            "FSGSBASE",
            "not enabled",
            "use Linux 5.9 or newer without nofsgsbase on its command line, on a processor made since 2015",
        ),
    }
}

fn check_xsave(has_xsave: bool, has_xsaveopt: bool) -> Finding {
    match (has_xsave, has_xsaveopt) {
        (true, true) => Finding::ok("XSAVE", "XSAVE and XSAVEOPT"),
        (true, false) => Finding::fail(
            "XSAVE",
            "the processor has no XSAVEOPT",
            "in a virtual machine pass the host's processor features through (qemu: -cpu host)",
        ),
        (false, _) => Finding::fail(
            "XSAVE",
            "the processor has no XSAVE, or the kernel does not use it",
            "remove noxsave from the kernel's command line; in a virtual machine pass the host's processor features through",
        ),
    }
}

fn check_bmi2(has_bmi2: bool) -> Finding {
    if has_bmi2 {
        return Finding::ok("BMI2", "the processor has it");
    }
    Finding::fail(
        "BMI2",
        "the processor has no BMI2",
        "use a processor of 2013 or later; in a virtual machine pass the host's processor features through",
    )
}

fn check_address_bits(cpuinfo: Option<&str>) -> Finding {
    match cpuinfo.and_then(parse_virtual_bits) {
        None => Finding::unknown("address space"),
        // Half of the addresses are the kernel's, and without a hint Linux gives programs no more than 47 bits.
        Some(bits) if bits >= 48 => Finding::ok("address space", "47 bits"),
        Some(bits) => Finding::fail(
            "address space",
            format!("{bits} bits with the kernel's half"),
            "use a processor with 48 bits of virtual addresses",
        ),
    }
}

fn check_seccomp(status: Option<&str>) -> Finding {
    match status.and_then(|text| parse_field(text, "Seccomp:")) {
        None => Finding::unknown("seccomp"),
        Some(0) => Finding::ok("seccomp", "no filter"),
        Some(_) => Finding::note(
            "seccomp",
            "a filter is active, as in most containers",
            "what it forbids fails for programs under whodunit too; to run what they execute, whodunit needs execveat(2)",
        ),
    }
}

fn check_map_count(text: Option<&str>) -> Finding {
    match text.and_then(parse_number) {
        None => Finding::unknown("max_map_count"),
        Some(count) if count >= MAP_COUNT_WANTED => Finding::ok("max_map_count", count.to_string()),
        Some(count) => Finding::note(
            "max_map_count",
            count.to_string(),
            format!("large programs may run out of mappings; sysctl vm.max_map_count={MAP_COUNT_WANTED}"),
        ),
    }
}

fn check_overcommit(text: Option<&str>) -> Finding {
    match text.and_then(parse_number) {
        None => Finding::unknown("overcommit_memory"),
        Some(2) => Finding::note(
            "overcommit_memory",
            "2 (strict)",
            "reserved memory counts as used; if programs do not start, sysctl vm.overcommit_memory=0",
        ),
        Some(mode) => Finding::ok("overcommit_memory", mode.to_string()),
    }
}

/// What is expected of one line in `/proc/self/limits`.
struct LimitCheck {
    subject: &'static str,
    line: &'static str,
    wanted: u64,
    shell_flag: &'static str,
    /// What `ulimit` counts in.
    shell_unit: u64,
    consequence: &'static str,
}

const ADDRESS_SPACE: LimitCheck = LimitCheck {
    subject: "RLIMIT_AS",
    line: "Max address space",
    wanted: ADDRESS_SPACE_WANTED,
    shell_flag: "-v",
    shell_unit: 1024,
    consequence: "translated code and its tables reserve addresses next to the program's",
};

const OPEN_FILES: LimitCheck = LimitCheck {
    subject: "RLIMIT_NOFILE",
    line: "Max open files",
    wanted: OPEN_FILES_WANTED,
    shell_flag: "-n",
    shell_unit: 1,
    consequence: "whodunit keeps a few descriptors of its own above the program's",
};

const PROCESSES: LimitCheck = LimitCheck {
    subject: "RLIMIT_NPROC",
    line: "Max processes",
    wanted: PROCESSES_WANTED,
    shell_flag: "-u",
    shell_unit: 1,
    consequence: "programs with many threads may fail to start them",
};

const STACK: LimitCheck = LimitCheck {
    subject: "RLIMIT_STACK",
    line: "Max stack size",
    wanted: STACK_WANTED,
    shell_flag: "-s",
    shell_unit: 1024,
    consequence: "the program's arguments and environment may not fit",
};

fn check_limit(limits: Option<&str>, check: &LimitCheck) -> Finding {
    match limits.and_then(|text| parse_limit(text, check.line)) {
        None => Finding::unknown(check.subject),
        Some(SoftLimit::Unlimited) => Finding::ok(check.subject, "unlimited"),
        Some(SoftLimit::At(limit)) if limit >= check.wanted => Finding::ok(check.subject, limit.to_string()),
        Some(SoftLimit::At(limit)) => Finding::note(
            check.subject,
            limit.to_string(),
            format!("{}; ulimit {} {}", check.consequence, check.shell_flag, check.wanted / check.shell_unit),
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SoftLimit {
    Unlimited,
    At(u64),
}

/// Major and minor number of a release such as `6.1.0-13-amd64` or `5.9-rc1`.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The second word of hardware capabilities; zero if the kernel gives none.
fn parse_hwcap2(auxiliary_vector: &[u8]) -> u64 {
    let (words, _) = auxiliary_vector.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.chunks_exact(2).find(|entry| entry[0] == AUXV_HWCAP2).map_or(0, |entry| entry[1])
}

/// From `address sizes : 48 bits physical, 48 bits virtual`.
fn parse_virtual_bits(cpuinfo: &str) -> Option<u32> {
    let line = cpuinfo.lines().find(|line| line.starts_with("address sizes"))?;
    let (_, sizes) = line.split_once(',')?;
    sizes.split_whitespace().next()?.parse().ok()
}

/// The number after `key` in `/proc/self/status`.
fn parse_field(status: &str, key: &str) -> Option<u64> {
    parse_number(status.lines().find_map(|line| line.strip_prefix(key))?)
}

fn parse_number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn parse_limit(limits: &str, name: &str) -> Option<SoftLimit> {
    let columns = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match columns.split_whitespace().next()? {
        "unlimited" => Some(SoftLimit::Unlimited),
        number => number.parse().ok().map(SoftLimit::At),
    }
}

#[cfg(test)]
mod tests;

//! Parsing of sample texts, and the judgement over made-up machines.

use super::*;

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max stack size            8388608              unlimited            bytes     
Max processes             96343                96343                processes 
Max open files            256                  1048576              files     
Max address space         unlimited            unlimited            bytes     
";

const STATUS: &str = "Name:\tcat\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n";

fn auxiliary_vector(entries: &[(u64, u64)]) -> Vec<u8> {
    entries.iter().flat_map(|(key, value)| [key.to_le_bytes(), value.to_le_bytes()]).flatten().collect()
}

fn good_machine() -> Machine {
    Machine {
        kernel_release: Some("6.1.0-13-amd64\n".to_owned()),
        auxiliary_vector: Some(auxiliary_vector(&[(6, 4096), (26, 2), (0, 0)])),
        cpuinfo: Some("processor\t: 0\naddress sizes\t: 46 bits physical, 57 bits virtual\n".to_owned()),
        status: Some("Seccomp:\t0\n".to_owned()),
        limits: Some(LIMITS.replace(" 256 ", " 20000 ")),
        max_map_count: Some("65530\n".to_owned()),
        overcommit_memory: Some("0\n".to_owned()),
        has_xsave: true,
        has_xsaveopt: true,
        has_bmi2: true,
    }
}

/// The one finding that is not `ok`.
fn only_complaint(machine: Machine) -> Finding {
    let mut complaints = examine(&machine);
    complaints.retain(|finding| finding.level != Level::Ok);
    assert_eq!(complaints.len(), 1);
    let complaint = complaints.remove(0);
    assert!(complaint.advice.is_some());
    complaint
}

fn check(machine: Machine, level: Level, subject: &str) {
    let complaint = only_complaint(machine);
    assert_eq!((complaint.level, complaint.subject), (level, subject));
}

#[test]
fn releases() {
    assert_eq!(parse_release("6.18.44-fc\n"), Some((6, 18)));
    assert_eq!(parse_release("5.9-rc1"), Some((5, 9)));
    assert_eq!(parse_release("4.17"), Some((4, 17)));
    assert_eq!(parse_release("unknown"), None);
    assert_eq!(parse_release(""), None);
}

#[test]
fn hardware_capabilities() {
    assert_eq!(parse_hwcap2(&auxiliary_vector(&[(16, 7), (26, 3), (0, 0)])), 3);
    assert_eq!(parse_hwcap2(&auxiliary_vector(&[(7, 26), (16, 7)])), 0);
    assert_eq!(parse_hwcap2(&[26, 0, 0]), 0);
}

#[test]
fn virtual_address_bits() {
    assert_eq!(parse_virtual_bits("address sizes\t: 48 bits physical, 48 bits virtual\n"), Some(48));
    assert_eq!(parse_virtual_bits("address sizes\t: none\n"), None);
    assert_eq!(parse_virtual_bits(""), None);
}

#[test]
fn status_fields() {
    assert_eq!(parse_field(STATUS, "Seccomp:"), Some(2));
    assert_eq!(parse_field(STATUS, "Speculation:"), None);
}

#[test]
fn soft_limits() {
    assert_eq!(parse_limit(LIMITS, "Max stack size"), Some(SoftLimit::At(8 << 20)));
    assert_eq!(parse_limit(LIMITS, "Max open files"), Some(SoftLimit::At(256)));
    assert_eq!(parse_limit(LIMITS, "Max address space"), Some(SoftLimit::Unlimited));
    assert_eq!(parse_limit(LIMITS, "Max locked memory"), None);
}

#[test]
fn good_machine_has_no_complaints() {
    let findings = examine(&good_machine());
    assert!(findings.iter().all(|finding| finding.level == Level::Ok));
    assert_eq!(verdict(&findings), ("This machine suits whodunit.".to_owned(), true));
}

#[test]
fn each_shortcoming_is_named() {
    let good = good_machine;
    let text = |text: &str| Some(text.to_owned());
    check(Machine { kernel_release: text("4.16.1"), ..good() }, Level::Fail, "kernel");
    check(Machine { kernel_release: text("5.4.0"), ..good() }, Level::Note, "kernel");
    check(Machine { auxiliary_vector: Some(Vec::new()), ..good() }, Level::Fail, "FSGSBASE");
    check(Machine { has_xsaveopt: false, ..good() }, Level::Fail, "XSAVE");
    check(Machine { has_bmi2: false, ..good() }, Level::Fail, "BMI2");
    check(Machine { has_xsave: false, has_xsaveopt: false, ..good() }, Level::Fail, "XSAVE");
    check(
        Machine { cpuinfo: text("address sizes : 36 bits physical, 39 bits virtual"), ..good() },
        Level::Fail,
        "address space",
    );
    check(Machine { status: text(STATUS), ..good() }, Level::Note, "seccomp");
    check(Machine { max_map_count: text("1000"), ..good() }, Level::Note, "max_map_count");
    check(Machine { overcommit_memory: text("2"), ..good() }, Level::Note, "overcommit_memory");
    check(Machine { limits: text(LIMITS), ..good() }, Level::Note, "RLIMIT_NOFILE");
}

#[test]
fn machine_without_proc_gets_notes_only() {
    let blind = Machine {
        kernel_release: None,
        auxiliary_vector: None,
        cpuinfo: None,
        status: None,
        limits: None,
        max_map_count: None,
        overcommit_memory: None,
        has_xsave: true,
        has_xsaveopt: true,
        has_bmi2: true,
    };
    let (text, suits) = verdict(&examine(&blind));
    assert_eq!(text, "This machine suits whodunit; there are 10 notes above.");
    assert!(suits);
}

#[test]
fn failure_decides_the_verdict() {
    let machine = Machine { has_xsaveopt: false, overcommit_memory: None, ..good_machine() };
    let (text, suits) = verdict(&examine(&machine));
    assert_eq!(text, "This machine does not suit whodunit: see the lines marked FAIL (1).");
    assert!(!suits);
}

#[test]
fn lines_say_what_to_change() {
    let complaint = only_complaint(Machine { limits: Some(LIMITS.to_owned()), ..good_machine() });
    assert_eq!(
        complaint.to_string(),
        "note  RLIMIT_NOFILE     256: whodunit keeps a few descriptors of its own above the program's; ulimit -n 1024"
    );
}

#[test]
fn run_writes_one_line_a_check_and_a_verdict() {
    let mut out = Vec::new();
    run(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), examine(&good_machine()).len() + 1);
    assert!(lines.last().unwrap().starts_with("This machine "));
}

//! `whodunit run` is invisible: every guest program in `conformance/` behaves under the engine as it does natively.
//!
//! Each program is one test. It is run twice, without and with the engine, and both runs must agree in every byte of
//! standard output and standard error and in the exit status or the terminating signal.

mod support;

use support::{build, compare, execute, spec};

fn same_under_engine(group: &str, name: &str) {
    if let Err(problem) = compare_runs(group, name) {
        panic!("{group}::{name}\n{problem}");
    }
}

fn compare_runs(group: &str, name: &str) -> Result<(), String> {
    let spec = spec::find(group, name)?;
    let built = build::build(&spec)?;
    let native = execute::natively(&spec, &built)?;
    let complaints = compare::own_complaints(&native);
    if !complaints.is_empty() {
        return Err(format!("  the program fails without the engine already:\n    {}\n", complaints.join("\n    ")));
    }
    if let execute::Ending::TimedOut(_) = native.ending {
        return Err(format!("  native run: {}\n", compare::describe(native.ending)));
    }
    let engine = execute::under_engine(&spec, &built, &[])?;
    let native = compare::Named("native", &native);
    let engine = compare::Named("engine", &engine);
    match compare::difference(native, engine) {
        None => Ok(()),
        Some(difference) => Err(format!("{difference}  by hand: {}\n", execute::by_hand(&spec, &built))),
    }
}

#[test]
fn every_program_is_listed() {
    let specs = spec::all().expect("the programs' headers are readable");
    let mut present: Vec<(&str, &str)> = specs.iter().map(|spec| (spec.group.as_str(), spec.name.as_str())).collect();
    let mut listed = LISTED.to_vec();
    present.sort_unstable();
    listed.sort_unstable();
    assert_eq!(present, listed, "the programs in tests/conformance and the list in conformance.rs differ");
}

guest_programs! {
    super::same_under_engine;
    elf {
        argv0 auxv constructors execstack fixed huge_bss ifunc large_environment pie script
        script_argument start_state static_fixed static_pie stripped tls_dynamic tls_initial
    }
    unwind {
        backtrace coroutines exceptions exceptions_library exceptions_threads forced longjmp
        panics terminate terminate_handler
    }
    insn {
        atomics avx bits_crypto branches division flags_flow misc mxcsr odd_places red_zone
        rip_relative segment sse stack strings syscall_abi tight_loops traps vector_threads x87
        x87_pointer
    }
    threads {
        c11_threads cancellation channels clear_address create_join exit_in_thread futexes
        large_transfers local_destructors main_exits mutex_processes mutexes named_semaphores openmp
        preempted_state primitives race_detector raw_clone remaining_time rust_threads socket_waits spinning standstill
        std_threads timed_waits timers
    }
    signals {
        alternate_stack async_state blocked_faults children crash_abrt crash_bus crash_fpe crash_handler_returns
        crash_ill crash_in_handler crash_null_call crash_segv crash_term crash_thread crash_trap
        default_actions dispositions during_vfork fault_kinds fault_registers from_outside interrupted
        limited_waits longjmp_repeated new_thread threads_directed timers_computing waiting
    }
    process {
        beside controls exec exec_threads filters fork_basic fork_threads leaks no_leaks rust_process
        shared_listener spawn spawn_beside_threads vfork
    }
    memory {
        brk code_beside_data code_threads dlopen_repeated kernel_pointers large mmap_forms mremap_mprotect own_code
        self_modifying shared_memory stack_overflow
    }
    proc {
        clocks closed_input closed_output cmdline descriptors files identity limits sockets
        stdin_pipe stdin_text
    }
}

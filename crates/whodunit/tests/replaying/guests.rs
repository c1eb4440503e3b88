//! Every program of `conformance/`: recorded it behaves as natively, and its recording runs again the same way.

use super::exceptions::{self, Fault, GUESTS};
use super::place::{Place, logs};
use crate::guest_programs;
use crate::support::compare::{self, Named};
use crate::support::execute::{self, Outcome};
use crate::support::{build, spec};

fn recorded_and_replayed(group: &str, name: &str) {
    let found = match record_and_replay(group, name) {
        Ok(()) => None,
        Err((fault, problem)) => Some((fault, format!("{group}::{name}: {fault:?}\n{problem}"))),
    };
    match (exceptions::find(GUESTS, group, name), found) {
        (None | Some((Fault::MayDiverge | Fault::MayShow, _)), None) => {}
        (Some((Fault::MayDiverge, _)), Some((Fault::Diverges, _))) => {}
        (Some((Fault::MayShow, _)), Some((Fault::Shows, _))) => {}
        (Some((expected, _)), Some((fault, _))) if expected == fault => {}
        (_, Some((_, problem))) => panic!("{problem}"),
        (Some((_, reason)), None) => {
            panic!("{group}::{name} is well now; take it from the exceptions, which say: {reason}")
        }
    }
}

fn record_and_replay(group: &str, name: &str) -> Result<(), (Fault, String)> {
    let shows = |problem| (Fault::Shows, problem);
    let diverges = |problem| (Fault::Diverges, problem);
    let spec = spec::find(group, name).map_err(shows)?;
    let built = build::build(&spec).map_err(shows)?;
    let place = Place::new(name);
    let recording = place.path("recording");
    let native = execute::natively(&spec, &built).map_err(shows)?;
    let recorded = execute::recorded(&spec, &built, &recording, &[]).map_err(shows)?;
    same(("native", &native), ("recorded", &recorded)).map_err(shows)?;
    place.not_verified(&recording).map_or(Ok(()), Err).map_err(diverges)?;
    // What several processes write comes out of several replays.
    if logs(&recording) > 1 {
        return Ok(());
    }
    same(("recorded", &recorded), ("replayed", &place.replay(&recording))).map_err(diverges)
}

fn same(left: (&str, &Outcome), right: (&str, &Outcome)) -> Result<(), String> {
    compare::difference(Named(left.0, left.1), Named(right.0, right.1)).map_or(Ok(()), Err)
}

#[test]
fn every_program_is_listed() {
    let specs = spec::all().expect("the programs' headers are readable");
    let mut present: Vec<(&str, &str)> = specs.iter().map(|spec| (spec.group.as_str(), spec.name.as_str())).collect();
    let mut listed = LISTED.to_vec();
    present.sort_unstable();
    listed.sort_unstable();
    assert_eq!(present, listed, "the programs in tests/conformance and the list in replaying/guests.rs differ");
}

#[test]
fn exceptions_exist() {
    for (group, name, ..) in GUESTS {
        assert!(LISTED.contains(&(group, name)), "there is no {group}::{name} any more");
    }
}

guest_programs! {
    super::recorded_and_replayed;
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

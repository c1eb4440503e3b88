//! What the engine's end-to-end tests share: guest programs and how they are described, built, run and compared.
//!
//! A guest program is one file in `tests/conformance/GROUP/`. Its header lines say how to build and run it
//! (see `spec.rs` for the list). Nothing here knows what a program is about.
#![allow(dead_code, reason = "each test binary compiles this module and uses its own part of it")]

pub mod build;
pub mod compare;
pub mod execute;
pub mod spec;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder that holds the guest programs, one sub-folder a group.
pub fn programs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// The command under test. `WHODUNIT_BIN` names another one, for example a stand-in that runs the program as it is.
pub fn whodunit_binary() -> OsString {
    std::env::var_os("WHODUNIT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_whodunit").into())
}

/// Turns a list of programs into one test each, named `group::program`, and a constant `LISTED` of all of them.
#[macro_export]
macro_rules! guest_programs {
    ($check:path; $($group:ident { $($program:ident)* })*) => {
        const LISTED: &[(&str, &str)] = &[$($((stringify!($group), stringify!($program)),)*)*];
        $(mod $group {
            $(#[test]
            fn $program() {
                $check(stringify!($group), stringify!($program));
            })*
        })*
    };
}

/// All programs of `conformance/`, a test each, and one that none is missing.
#[macro_export]
macro_rules! every_guest_program {
    ($check:path) => {
        $crate::guest_programs! {
            $check;
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
                alternate_stack async_state before_calls blocked_faults children crash_abrt crash_bus crash_fpe crash_handler_returns
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
                stdin_pipe stdin_text strange_requests
            }
        }

        #[test]
        fn every_program_is_listed() {
            let specs = $crate::support::spec::all().expect("the programs' headers are readable");
            let mut present: Vec<(&str, &str)> =
                specs.iter().map(|spec| (spec.group.as_str(), spec.name.as_str())).collect();
            let mut listed = LISTED.to_vec();
            present.sort_unstable();
            listed.sort_unstable();
            assert_eq!(present, listed, "the programs in tests/conformance and the list in support/mod.rs differ");
        }
    };
}

//! The museum of bugs (`museum/` at the root of the tree): every exhibit is what it claims to be.
//!
//! A bug, with its guilty order forced, fails as stated, natively and under the engine; repaired, it passes in spite of that;
//! left to the round-robin schedule, it passes. A look-alike passes whatever the schedule, and ThreadSanitizer sees no race.
//! A memory error fails as stated on its inputs, or is as silent as stated, without and with optimisation.

mod support;

/// The table of Debian packages.
#[path = "programs/debian.rs"]
#[allow(dead_code, reason = "only a part of what the tests of programs need")]
mod debian;

mod museum {
    mod claims;
    mod exhibit;
    mod memory;
    mod memory_claims;
    mod planted;
    mod planted_claims;
    mod table;

    pub use claims::check;
    pub use exhibit::{Exhibit, all};
    pub use memory::all as all_memory_errors;
    pub use memory_claims::check as check_memory_error;
}

use museum::Exhibit;

fn claims_hold(group: &str, name: &str) {
    let check = if group == "memory" { museum::check_memory_error } else { museum::check };
    if let Err(problem) = check(name) {
        panic!("{group}, {name}: {problem}");
    }
}

#[test]
fn every_exhibit_is_listed() {
    let exhibits = museum::all().expect("the exhibits' descriptions are readable");
    let memory_errors = museum::all_memory_errors().expect("the memory errors' descriptions are readable");
    let mut present: Vec<(&str, &str)> = exhibits.iter().map(|exhibit| (group_of(exhibit), &*exhibit.name)).collect();
    present.extend(memory_errors.iter().map(|exhibit| ("memory", &*exhibit.name)));
    present.sort_unstable();
    let mut listed = LISTED.to_vec();
    listed.sort_unstable();
    assert_eq!(present, listed, "the exhibits in museum/ and the list in tests/museum.rs differ");
}

fn group_of(exhibit: &Exhibit) -> &'static str {
    if exhibit.failure.is_some() { "bugs" } else { "calm" }
}

guest_programs! {
    super::claims_hold;
    bugs {
        aba_stack accidental_order aget_offsets apache_cache_evict apache_cache_size
        apache_idle_workers apache_log_buffer apache_log_overflow apache_reference_count b_account
        c_list cherokee_buffer cleared_request closed_connection ctrace_double_free ctrace_id deep_propagation
        eintr_ignored endless_loop esmt_figure_4 event_set_twice fft_end_time fmm_timestamp full_queues
        gist_figure_11 join_with_lock left_frame l_proc_sweep locon_figure_3 locon_figure_4 lost_wakeup_flag
        malloc_unchecked memcached_increment memcached_reply mozilla_current_script mozilla_file_names
        mozilla_property mozilla_shutdown mozilla_statistics mysql_log_closed mysql_new_log
        mysql_proc_info mysql_table_log mysql_two_sections nested_monitor opposite_writes
        pbzip2_condition pbzip2_dangling pbzip2_queue philosophers resource_limit ring_election
        rwlock_upgrade s_buffer s_counter short_write smcm_two_writes spurious_wakeup sqlite_recursive_lock stale_cache
        stolen_item switch_table trace_switched_on transfer_deadlock transmission_bandwidth
        two_delays
    }
    calm {
        benign_disjoint_bits benign_redundant_write benign_valid_values calm_barrier calm_condition
        calm_double_checked calm_join calm_local_then_merged calm_lock_overwrite calm_once
        calm_queue_ownership calm_read_copy_update calm_recycled_address calm_ring_buffer
        calm_rwlock_cache calm_semaphore calm_spin_flag calm_third_thread
    }
    memory {
        axel_redirect bc_arrays copy_chain copy_paste corrupt_condition corrupt_length cvs_directory dangling_session
        esmt_figure_6 gzip_name layout_globals layout_locals man_sections mutt_utf7 mysql_load_data ncompress_path
        pine_address polymorph_name prozilla_header prozilla_mirrors tar_directory tidy_cell unset_help wrong_index
        xv_palette
    }
}

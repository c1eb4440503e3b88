//! What the LOCON paper says of each bug.

/// A bug of the paper, and the exhibit that has its shape.
pub struct Published {
    pub exhibit: &'static str,
    /// Its number in table 3, or another place where it is described.
    pub bug: &'static str,
    /// How many pairs, or sets of coupled pairs, LOCON reports.
    pub m: Option<u32>,
    /// What Falcon makes of it.
    pub falcon: &'static str,
}

const fn of(exhibit: &'static str, bug: &'static str, m: Option<u32>, falcon: &'static str) -> Published {
    Published { exhibit, bug, m, falcon }
}

pub const PUBLISHED: [Published; 25] = [
    of("s_counter", "1, type 5", Some(2), "rank 1"),
    of("b_account", "2", Some(2), "rank 1"),
    of("c_list", "3", Some(6), "missed"),
    of("s_buffer", "4", Some(1), "missed"),
    of("l_proc_sweep", "5, type 6", Some(1), "rank 1"),
    of("mysql_table_log", "6, type 12", Some(1), "missed"),
    of("mysql_new_log", "7, figure 6", Some(1), "rank 1"),
    of("pbzip2_queue", "8", Some(1), "rank 1"),
    of("transmission_bandwidth", "9, figure 1", Some(60), "missed"),
    of("fft_end_time", "10, type 2", Some(7), "missed"),
    of("aget_offsets", "11", Some(1), "missed"),
    of("apache_reference_count", "12", Some(1), "rank 9"),
    of("apache_log_buffer", "13", Some(2), "rank 1"),
    of("apache_idle_workers", "14", Some(1), "missed"),
    of("mysql_log_closed", "15, type 7", Some(2), "rank 1"),
    of("mysql_proc_info", "16", Some(1), "rank 1"),
    of("locon_figure_3", "figure 3", None, "-"),
    of("locon_figure_4", "figure 4", None, "-"),
    of("accidental_order", "type 3", None, "-"),
    of("mozilla_current_script", "type 4", None, "-"),
    of("stale_cache", "type 8", None, "-"),
    of("smcm_two_writes", "type 13", None, "-"),
    of("cleared_request", "type 14", None, "-"),
    of("opposite_writes", "type 11, 15", None, "-"),
    of("ring_election", "type 9", None, "-"),
];

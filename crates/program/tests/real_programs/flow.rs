//! Graphs of compiled functions.

use crate::common::{build, load_at, symbol};
use program::flow::{Flows, Graph};
use program::space::GuestAddress;
use std::sync::Arc;

const FLAGS: [&[&str]; 4] = [&["-O0"], &["-O2"], &["-O0", "-no-pie", "-fno-pie"], &["-O2", "-no-pie", "-fno-pie"]];

/// The graph of a function, however the program is built.
fn graphs(test: &str, function: &str) -> Vec<(Arc<Graph>, u64)> {
    let built = FLAGS.iter().enumerate().map(|(number, flags)| {
        let program = build(&format!("flow-{test}-{number}"), "flow.c", flags);
        let base = if flags.contains(&"-no-pie") { 0 } else { 0x7000_0000_0000 };
        let space = load_at(&program, base);
        let start = base + symbol(&program, function).0;
        (Flows::new(&space).around(GuestAddress(start)).expect("a graph"), start)
    });
    built.collect()
}

#[test]
fn tables_of_switches_are_read() {
    for (graph, start) in graphs("tables", "choose") {
        assert_eq!(graph.unread_jumps(), []);
        // The symbol may be that of the part that runs rarely, `choose.cold`: it belongs to the function.
        assert!(graph.block_of(GuestAddress(start)).is_some());
        // Seven cases, of which compilers may make one of some.
        let widest = graph.blocks().iter().map(|block| block.successors.len()).max();
        assert!(widest >= Some(5), "{:x?}", graph.blocks());
        assert!(graph.loops().is_empty());
    }
}

#[test]
fn nested_loops_are_found() {
    for (graph, _) in graphs("loops", "nested") {
        let depths: Vec<usize> = graph.loops().iter().map(|found| found.depth).collect();
        assert_eq!(depths, [0, 1]);
    }
}

#[test]
fn calls_of_abort_do_not_return() {
    for (graph, start) in graphs("abort", "checked") {
        // Only the way past the check comes back.
        assert_eq!(graph.immediate_post_dominator(GuestAddress(start)), None);
    }
}

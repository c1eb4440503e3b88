//! Shells: processes, pipes, signals and redirections driven from scripts.

use nix::sys::signal::Signal;

use super::harness::check;
use super::line::{Family, guest};

#[test]
fn bash() {
    let family = Family { name: "bash", needs: &["bash"], setup: "" };
    check(
        &family,
        &[
            guest("bash loops.sh"),
            guest("bash traps.sh").exits(9),
            guest("bash substitution.sh"),
            guest("bash background.sh"),
            guest("bash -c 'kill -TERM $$; echo unreachable'").dies_by(Signal::SIGTERM),
            guest("bash -c 'ulimit -c 0; kill -SEGV $$'").dies_by(Signal::SIGSEGV),
            guest("bash -c 'exit 200'").exits(200),
            guest("bash -c 'no-such-command'").exits(127),
            guest("bash -c 'read -t 0.1 line < <(sleep 5); echo status $?'"),
            guest("bash -c 'yes | head -n 1000 | wc -l; echo ${PIPESTATUS[@]}'"),
            guest(
                "bash -c 'exec 3>fd.txt; echo to three >&3; exec 3>&-; coproc cat; echo hi >&${COPROC[1]}; \
                   read line <&${COPROC[0]}; echo got $line'",
            ),
            guest("bash -ec 'false; echo unreachable'").exits(1),
        ],
    );
}

#[test]
fn dash() {
    let family = Family { name: "dash", needs: &["dash"], setup: "" };
    check(
        &family,
        &[
            guest("dash pipeline.sh"),
            guest("dash -c 'trap \"echo caught; exit 5\" USR1; kill -USR1 $$; echo unreachable'").exits(5),
            guest("dash -c 'exec 2>/dev/null; sleep 30 & kill -9 $!; wait $!; echo $?'"),
            guest("dash -c 'set -u; echo $undefined'").exits(2),
        ],
    );
}

/// A static executable: no interpreter, no shared libraries.
#[test]
fn busybox() {
    let family = Family { name: "busybox", needs: &["busybox"], setup: "seq 1 3000 >numbers.txt" };
    check(
        &family,
        &[
            guest("busybox sh -c 'for i in 1 2 3; do echo $i; done | busybox tac'"),
            guest("busybox awk '{ s += $1 } END { print s }' numbers.txt"),
            guest("busybox gzip -9 -k numbers.txt").leaving_out(&["numbers.txt.gz"]),
            guest("busybox md5sum numbers.txt"),
            guest("busybox vi --no-such-option").exits(1),
        ],
    );
}

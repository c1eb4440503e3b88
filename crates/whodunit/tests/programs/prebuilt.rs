//! Programs of Debian whose language brings a run-time system of its own: Go, Rust and Haskell.

use super::harness::check;
use super::line::{Family, guest};

const TREE: &str = "mkdir -p tree/a tree/b tree/.hidden
    for i in 1 2 3 4 5 6 7 8 9; do seq $i 700 >tree/a/file$i.txt; seq 1 $i 900 >tree/b/file$i.log; done
    echo secret >tree/.hidden/x.txt; echo '*.log' >tree/.ignore";

#[test]
fn go() {
    let setup = "seq 1 400 | awk 'BEGIN { print \"[\" } { \
        printf \"%s{\\\"id\\\": %d, \\\"tags\\\": [\\\"t%d\\\", null]}\\n\", \
        (NR > 1 ? \",\" : \"\"), $1, $1 % 7 } END { print \"]\" }' >rows.json; seq 1 20000 >numbers.txt";
    let family = Family { name: "go", needs: &["gron", "fzf"], setup };
    check(
        &family,
        &[
            guest("gron rows.json"),
            guest("gron --ungron statements.gron").after("gron rows.json >statements.gron"),
            guest("gron broken.json").exits(3).after("head -c 500 rows.json >broken.json"),
            guest("fzf --filter 19 <numbers.txt"),
            guest("fzf --version"),
        ],
    );
}

#[test]
fn rust() {
    let family = Family { name: "rust", needs: &["rg", "fdfind"], setup: TREE };
    check(
        &family,
        &[
            guest(r"rg --sort path -n '^[1-4](\d)7$|66' tree"),
            guest("rg -j 3 --count-matches --no-ignore 77 tree/a/file1.txt"),
            guest("rg absent tree").exits(1),
            guest("sh -c 'rg -j 2 -l 699 tree | sort'"),
            guest("sh -c 'fdfind -j 2 -H -e txt . tree | sort'"),
        ],
    );
}

#[test]
fn haskell() {
    let family = Family { name: "haskell", needs: &["shellcheck"], setup: "" };
    check(
        &family,
        &[
            guest("shellcheck careless.sh").exits(1),
            guest("shellcheck --format=json1 careless.sh").exits(1),
            guest("shellcheck --version"),
        ],
    );
}

#[test]
fn tmux() {
    let family = Family { name: "tmux", needs: &["tmux"], setup: "" };
    check(&family, &[guest("tmux -V"), guest("tmux -S no-such-socket list-sessions").exits(1)]);
}

//! Small filters and file tools: coreutils and the classic text programs.

use nix::sys::signal::Signal;

use super::harness::check;
use super::line::{Family, guest};

const NUMBERS: &str = "seq 1 7 40000 | awk '{ print ($1 * 7919) % 10007, \"word\" $1 % 97 }' >numbers.txt";

#[test]
fn coreutils() {
    let setup = "
        seq 1 7 40000 | awk '{ print ($1 * 7919) % 10007, \"word\" $1 % 97 }' >numbers.txt
        mkdir -p tree/deep/deeper
        printf 'alpha\\n' >tree/a; printf 'beta\\n' >tree/deep/b; : >tree/deep/deeper/empty
        ln -s ../a tree/deep/link; chmod 640 tree/deep/b; chmod 4755 tree/a
        find tree -depth -exec touch -h -d '2001-02-03 04:05:06.789 UTC' {} +";
    let family = Family { name: "coreutils", needs: &[], setup };
    check(
        &family,
        &[
            guest("ls -lR --time-style=full-iso tree"),
            guest("ls -la --color=always tree/deep"),
            guest("ls no-such-file").exits(2),
            guest("sort -k2,2 -k1,1nr numbers.txt"),
            guest("sort --parallel=4 -S 64K -u -o sorted.txt numbers.txt"),
            guest("wc numbers.txt tree/a"),
            guest("sha256sum numbers.txt tree/a tree/deep/b"),
            guest("sh -c 'seq 999999999900 999999999999 | factor'"),
            guest("split -l 1000 -d -a 3 numbers.txt piece-"),
            guest("tr a-z0-9 A-Zx <numbers.txt"),
            guest("od -A x -t x1z -v numbers.txt"),
            guest("stat --format='%n %A %s %F %Y %N' tree/a tree/deep tree/deep/link"),
            guest("dd if=numbers.txt of=copy.bin bs=777 skip=3 count=20 conv=swab status=none"),
            guest("timeout 0.2 sleep 30").exits(124),
            guest("timeout -s KILL --preserve-status 0.2 sleep 30").dies_by(Signal::SIGKILL),
            guest("env -i FIRST=1 SECOND=two env"),
            guest("tee one.txt two.txt <numbers.txt"),
            guest("xargs -P 3 -n 25 sh -c 'cat \"$@\" >out-${1#in/}' _ <names.txt")
                .after("mkdir in; (cd in; seq 1 200 | split -l 1); ls -d in/* >names.txt"),
            guest("cp -a tree copy"),
            guest("comm -12 left.txt right.txt").after("seq 1 3 3000 | sort >left.txt; seq 1 5 3000 | sort >right.txt"),
            guest("paste -d: numbers.txt numbers.txt"),
            guest("uniq -c words.txt counts.txt").after("cut -d' ' -f2 numbers.txt | sort >words.txt"),
            guest("nl -ba -w8 numbers.txt"),
            guest("date -u -d @1234567890 '+%A %c %s %j %G-%V'"),
            guest("cksum numbers.txt"),
            guest("numfmt --to=iec 1024 123456 987654321 18446744073709551615"),
            guest("test -d tree -a ! -L tree"),
            guest("false").exits(1),
        ],
    );
}

#[test]
fn sed() {
    let family = Family { name: "sed", needs: &["sed"], setup: NUMBERS };
    check(
        &family,
        &[
            guest(r"sed -E 's/([0-9]+) word([0-9]+)/\2 \1/; /^9/d; $!N; P; D' numbers.txt"),
            guest("sed -i.orig -e '1~3y/123/abc/' -e '/word7$/,/word9$/s/^/> /' numbers.txt"),
            guest("sed 's/(/' numbers.txt").exits(1),
        ],
    );
}

#[test]
fn gawk() {
    let family = Family { name: "gawk", needs: &["gawk"], setup: NUMBERS };
    check(
        &family,
        &[
            guest(
                "gawk '{ sum[$2] += $1; n[$2]++ } END { PROCINFO[\"sorted_in\"] = \"@ind_str_asc\"; \
                 for (w in sum) printf \"%s %d %.6f\\n\", w, sum[w], sum[w] / n[w] }' numbers.txt",
            ),
            guest(
                "gawk 'BEGIN { while ((\"sort -n numbers.txt\" | getline line) > 0) last = line; print last; \
                 print toupper(substr(\"translated\", 3)), sqrt(2), strftime(\"%F\", 86400, 1); exit 3 }'",
            )
            .exits(3),
        ],
    );
}

#[test]
fn grep() {
    let family = Family { name: "grep", needs: &["grep"], setup: NUMBERS };
    check(
        &family,
        &[
            guest(r"grep -nP '^(\d)(\d)\d*\2\1 (?=word[13579]+$)' numbers.txt"),
            guest(r"grep -cE '(12|34)+.*word(1|2)' numbers.txt"),
            guest("grep -rlw word96 ."),
            guest("grep -q absent numbers.txt").exits(1),
        ],
    );
}

#[test]
fn find() {
    let setup = "mkdir -p a/b/c d; seq 1 500 >a/b/big; : >a/b/c/empty; ln -s a d/link; chmod 700 d";
    let family = Family { name: "find", needs: &["find"], setup };
    check(
        &family,
        &[
            guest("sh -c 'find . -mindepth 1 -printf \"%p %y %m %s %l\\n\" | sort'"),
            guest("find a -depth -type f -size +0 -exec sha1sum {} ';' -delete"),
        ],
    );
}

#[test]
fn diff() {
    let setup = "seq 1 5000 >old.txt; sed -e '100,120d' -e 's/^4.*7$/changed &/' old.txt >new.txt";
    let family = Family { name: "diff", needs: &["diff"], setup };
    check(
        &family,
        &[
            guest("diff -u --label old --label new old.txt new.txt").exits(1),
            guest("diff --side-by-side --suppress-common-lines old.txt new.txt").exits(1),
            guest("cmp old.txt new.txt").exits(1),
        ],
    );
}

#[test]
fn bc() {
    let family = Family { name: "bc", needs: &["bc"], setup: "" };
    check(&family, &[guest("bc -l -q pi.bc"), guest("bc -q primes.bc")]);
}

#[test]
fn m4() {
    let family = Family { name: "m4", needs: &["m4"], setup: "" };
    check(&family, &[guest("m4 -DLIMIT=18 fibonacci.m4"), guest("m4 -P --fatal-warnings no-such-file.m4").exits(1)]);
}

#[test]
fn jq() {
    let setup = "seq 1 3000 | awk '{ printf \"{\\\"id\\\":%d,\\\"group\\\":\\\"g%d\\\",\\\"x\\\":%.3f}\\n\", \
        $1, $1 % 13, $1 / 7 }' >rows.json";
    let family = Family { name: "jq", needs: &["jq"], setup };
    check(
        &family,
        &[
            guest("jq -s 'group_by(.group) | map({(.[0].group): (map(.x) | add / length)}) | add' rows.json"),
            guest("jq -r 'select(.id % 50 == 0) | [.id, .group, (.x | floor)] | @csv' rows.json"),
            guest("jq . broken.json").exits(4).after("echo '{\"a\": [1, 2' >broken.json"),
        ],
    );
}

#[test]
fn file() {
    let setup = "echo text >plain; printf '#!/bin/sh\\n' >script; gzip -nc plain >packed.gz; cp /bin/true program";
    let family = Family { name: "file", needs: &["file"], setup };
    check(&family, &[guest("file plain script packed.gz program absent"), guest("file --mime plain packed.gz")]);
}

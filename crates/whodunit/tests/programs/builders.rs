//! Compilers, build tools and what surrounds them: trees of processes that write many files.

use nix::sys::signal::Signal;

use super::harness::check;
use super::line::{Family, guest};

#[test]
fn gcc() {
    let family = Family { name: "gcc", needs: &["gcc", "make"], setup: "" };
    check(
        &family,
        &[
            guest("gcc -O2 -g -Wall -o calculator main.c parser.c stack.c"),
            guest("gcc -O1 -S -fverbose-asm parser.c"),
            guest("gcc -c broken.c").exits(1),
            guest("make -j2 run"),
            guest("make --always-make --dry-run run"),
            guest("./calculator '(1 + 2) * -3 / 4'").after("gcc -O2 -o calculator main.c parser.c stack.c"),
            guest("./calculator '1 +'").exits(2).after("gcc -static -o calculator main.c parser.c stack.c"),
            guest("./calculator '2 * (3 + 4)'").after("gcc -no-pie -o calculator main.c parser.c stack.c"),
            guest("objdump -d --no-show-raw-insn stack.o").after("gcc -O2 -c stack.c"),
            guest("nm -n calculator").after("gcc -o calculator main.c parser.c stack.c"),
        ],
    );
}

#[test]
fn cplusplus() {
    let family = Family { name: "cplusplus", needs: &["g++"], setup: "" };
    check(
        &family,
        &[
            guest("g++ -std=c++17 -O1 -Wall -pthread -o templates templates.cc"),
            guest("./templates 12").exits(4).after("g++ -std=c++17 -O2 -pthread -o templates templates.cc"),
            guest("./templates throw")
                .dies_by(Signal::SIGABRT)
                .after("g++ -std=c++17 -O0 -pthread -o templates templates.cc"),
            guest("g++ -std=c++17 -fsyntax-only broken.cc").exits(1),
        ],
    );
}

/// The compiler that built this suite; it links with gcc.
#[test]
fn rustc() {
    let family = Family { name: "rustc", needs: &["gcc"], setup: "" };
    check(
        &family,
        &[
            guest("$RUSTC --edition 2021 -C opt-level=1 -o words words.rs"),
            guest("./words").after("$RUSTC --edition 2021 -C opt-level=2 -o words words.rs"),
            guest("./words panic").exits(101).after("$RUSTC --edition 2021 -o words words.rs"),
            guest("$RUSTC --edition 2021 broken.rs").exits(1),
        ],
    );
}

#[test]
fn cmake() {
    let family = Family { name: "cmake", needs: &["cmake", "ninja", "make", "gcc"], setup: "" };
    check(
        &family,
        &[
            // The configure log holds times and the names of temporary folders.
            guest("cmake -S . -B build -G Ninja").leaving_out(&[
                "build/CMakeFiles/CMakeConfigureLog.yaml",
                "build/CMakeFiles/CMakeOutput.log",
                "build/.ninja_deps",
            ]),
            guest("cmake --build build --parallel 2")
                .after("cmake -S . -B build -G 'Unix Makefiles'")
                .leaving_out(&["build/CMakeFiles"]),
        ],
    );
}

#[test]
fn ninja() {
    let family = Family { name: "ninja", needs: &["ninja", "gcc"], setup: "" };
    check(
        &family,
        &[guest("ninja -j 2 --quiet").leaving_out(&[".ninja_log", ".ninja_deps"]), guest("ninja -t commands")],
    );
}

#[test]
fn gdb() {
    let family = Family { name: "gdb", needs: &["gdb", "gcc"], setup: "gcc -g -O0 -o program program.c" };
    check(
        &family,
        &[
            guest("gdb --version"),
            guest("gdb -nx -batch -ex 'info line main' -ex 'ptype struct point' -ex 'list area' program"),
            guest(
                "gdb -nx -batch -ex 'disassemble area' -ex 'print sizeof(struct point)' -ex 'info scope main' program",
            ),
        ],
    );
}

#[test]
fn git() {
    let setup = "
        cat >.gitconfig <<-'END'
		[user]
			name = Somebody
			email = somebody@example.org
		[init]
			defaultBranch = trunk
		END
        mkdir project";
    let repository = "
        export GIT_AUTHOR_DATE='2005-04-07T22:13:13Z' GIT_COMMITTER_DATE='2005-04-07T22:13:13Z'
        cd project; git init -q; seq 1 300 >numbers; git add .; git commit -qm first
        git branch side; sed -i 's/^1/one/' numbers; git commit -qam second
        git checkout -q side; echo more >>numbers; git commit -qam third; git checkout -q trunk";
    let family = Family { name: "git", needs: &["git"], setup };
    // The index holds the times and inode numbers of files.
    check(
        &family,
        &[
            guest("git init project"),
            guest("bash commit.sh").leaving_out(&["project/.git/index"]),
            guest("git -C project log --graph --stat --all").after(repository).leaving_out(&["project/.git/index"]),
            guest("git -C project diff trunk side").after(repository).leaving_out(&["project/.git/index"]),
            guest("git -C project status --porcelain --branch").after(repository).leaving_out(&["project/.git/index"]),
            guest("git -C project -c pack.threads=2 gc --quiet --prune=now")
                .after(repository)
                .leaving_out(&["project/.git/index"]),
            guest("env GIT_COMMITTER_DATE=2005-04-07T22:13:13Z git -c pack.threads=2 clone --no-local project copy")
                .after(repository)
                .leaving_out(&["project/.git/index", "copy/.git/index"]),
            guest("git -C project fsck --full --strict").after(repository).leaving_out(&["project/.git/index"]),
            guest("git -C project blame numbers").after(repository).leaving_out(&["project/.git/index"]),
            guest("git -C project rev-parse nothing-of-this-name")
                .exits(128)
                .after(repository)
                .leaving_out(&["project/.git/index"]),
        ],
    );
}

#[test]
fn vim() {
    let family = Family { name: "vim", needs: &["vim"], setup: "seq 1 2000 >numbers.txt" };
    check(
        &family,
        &[
            guest(r"vim -u NONE -i NONE -n -es -c '%s/\v(\d)(\d)$/\2\1/e' -c 'g/7/d' -c 'sort n' -c 'wq' numbers.txt"),
            guest("vim -u NONE -i NONE -n -es -S script.vim numbers.txt"),
            guest("vim --version"),
        ],
    );
}

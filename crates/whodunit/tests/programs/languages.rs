//! Interpreters and virtual machines, with their threads, children, signals and just-in-time compilers.

use nix::sys::signal::Signal;

use super::harness::check;
use super::line::{Family, guest};

#[test]
fn perl() {
    let family = Family { name: "perl", needs: &["perl"], setup: "" };
    check(
        &family,
        &[
            guest("perl words.pl"),
            guest("perl processes.pl").exits(21),
            guest("perl threads.pl"),
            guest("perl -e 'local $SIG{ALRM} = sub { die qq(alarm\\n) }; alarm 1; 1 while 1'").exits(255),
            guest(
                "perl -MDigest::SHA=sha256_hex -MPOSIX \
                 -e 'print sha256_hex(join q(,), 1 .. 50000), qq(\\n); POSIX::_exit(77)'",
            )
            .exits(77),
            guest("perl -e 'kill KILL => $$'").dies_by(Signal::SIGKILL),
        ],
    );
}

#[test]
fn python() {
    let family = Family { name: "python", needs: &["python3"], setup: "export PYTHONDONTWRITEBYTECODE=1" };
    check(
        &family,
        &[
            guest("/usr/bin/python3 -B thread_queue.py"),
            guest("/usr/bin/python3 -B children.py"),
            guest("/usr/bin/python3 -B pools.py fork"),
            guest("/usr/bin/python3 -B pools.py spawn"),
            guest("/usr/bin/python3 -B alarms.py").dies_by(Signal::SIGTERM),
            guest("/usr/bin/python3 -B database.py"),
            guest("/usr/bin/python3 -B formats.py"),
            guest("/usr/bin/python3 -B loopback.py"),
            guest("/usr/bin/python3 -B callbacks.py"),
            guest("/usr/bin/python3 -B recursion.py").exits(1),
            guest("/usr/bin/python3 -c 'import os; os.abort()'").dies_by(Signal::SIGABRT),
            guest("/usr/bin/python3 -c 'raise SystemExit(\"with a message\")'").exits(1),
            guest("/usr/bin/python3 -c 'import ctypes; ctypes.string_at(0)'").dies_by(Signal::SIGSEGV),
        ],
    );
}

#[test]
fn lua() {
    let family = Family { name: "lua", needs: &["lua5.4"], setup: "" };
    check(
        &family,
        &[
            guest("lua5.4 coroutines.lua").exits(1),
            guest("lua5.4 -e 'error({})'").exits(1),
            guest("lua5.4 -e 'os.exit(12)'").exits(12),
        ],
    );
}

#[test]
fn sqlite() {
    let family = Family { name: "sqlite", needs: &["sqlite3"], setup: "" };
    let filled = "sqlite3 rows.db <rows.sql";
    check(
        &family,
        &[
            guest("sqlite3 rows.db <rows.sql"),
            guest("sqlite3 rows.db '.dump'").after(filled),
            guest("sqlite3 -header -column rows.db <queries.sql").after(filled),
            guest("sqlite3 rows.db 'SELECT * FROM absent'").exits(1).after(filled),
        ],
    );
}

#[test]
fn node() {
    let family = Family { name: "node", needs: &["node"], setup: "" };
    check(
        &family,
        &[
            guest("node timers.js").exits(5),
            guest("node workers.js"),
            guest("node buffers.js"),
            guest("node children.js"),
            guest("node hot.js").exits(1),
            guest("node -e 'process.exitCode = 6; setTimeout(() => console.log(\"last\"), 5)'").exits(6),
        ],
    );
}

#[test]
fn java() {
    let family = Family { name: "java", needs: &["java", "javac"], setup: "javac -d classes *.java" };
    check(
        &family,
        &[
            guest("java -Xmx256m -cp classes Threads"),
            guest("java -Xmx256m -cp classes Collect"),
            guest("java -Xmx256m -cp classes Hot"),
            guest("java -Xint -cp classes Fail").exits(1),
            guest("java -Xmx256m -XX:+UseSerialGC -cp classes Garbage"),
            guest("java -Xmx256m -XX:+UseG1GC -cp classes Garbage"),
        ],
    );
}

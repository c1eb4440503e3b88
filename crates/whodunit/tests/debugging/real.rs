//! Programs as Debian ships them, without symbols of their own.

use super::session::record_real;

#[test]
fn sqlite_writes_its_answer() {
    crate::debian::need(&["sqlite3"]);
    let statement = "create table t(a); insert into t values(6),(7); select 'product', max(a) * min(a) from t;";
    let recorded = record_real("sqlite", &["sqlite3", ":memory:", statement]);
    let session = recorded.debug(
        "set breakpoint pending on\nbreak write\ncontinue\nprintf \"to %d, %d bytes\\n\", $rdi, $rdx\nx/s $rsi\nmonitor when\n\
         break strlen\nreverse-continue\ndelete 2\ncontinue\nx/s $rsi\ndelete\ncontinue\n",
    );
    session.shows(&[
        "Breakpoint 1, ",
        "to 1, 11 bytes",
        "product|42",
        "event ",
        "Breakpoint 2",
        "Breakpoint 1, ",
        "product|42",
        "No more reverse-execution history",
    ]);
    assert!(session.server.contains("product|42\n"), "{}", session.server);
}

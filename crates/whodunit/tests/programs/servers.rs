//! Servers and clients on the loopback interface, with one of the two under whodunit.
//!
//! `fixtures/servers/serve.py` chooses the port, waits until the server answers, and stops it.

use super::harness::check;
use super::line::{Family, Line, driver, guest};

const SITE: &str = "mkdir site; for i in $(seq 1 20); do seq $i 97 $((i * 20000)) >site/file$i.txt; done";

fn family(needs: &'static [&'static str], setup: &'static str) -> Family {
    Family { name: "servers", needs, setup }
}

/// Runs the server under whodunit and the client natively.
fn under_server(server: &str, client: &str) -> Line {
    driver(&format!("SERVER_RUN=$run exec /usr/bin/python3 serve.py '{server}' '{client}'"))
}

/// Runs the server natively, and what the client puts `$run` before under whodunit.
fn under_client(server: &str, client: &str) -> Line {
    driver(&format!("CLIENT_RUN=$run exec /usr/bin/python3 serve.py '{server}' '{client}'"))
}

#[test]
fn openssl_sessions() {
    let setup = "
        openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -days 2 -subj /CN=localhost -out certificate.pem
        seq 1 40000 >page.txt";
    let server = "openssl s_server -quiet -WWW -accept 127.0.0.1:$PORT -cert certificate.pem -key key.pem";
    let curl = "curl -sS --cacert certificate.pem --resolve localhost:$PORT:127.0.0.1 https://localhost:$PORT/page.txt";
    let openssl = "printf \"GET /page.txt HTTP/1.0\\r\\n\\r\\n\" | \
        $run openssl s_client -quiet -verify_quiet -verify_return_error \
        -CAfile certificate.pem -connect 127.0.0.1:$PORT";
    // The certificate is made anew for every run.
    let left_out: &[&str] = &["key.pem", "certificate.pem"];
    check(
        &family(&["openssl", "curl", "python3"], setup),
        &[
            under_server(server, curl).leaving_out(left_out),
            under_client(server, openssl).leaving_out(left_out),
            under_client(server, &format!("$run {curl}")).leaving_out(left_out),
        ],
    );
}

const HTTP_SERVER: &str = "/usr/bin/python3 -B -m http.server --bind 127.0.0.1 --directory site $PORT";

#[test]
fn curl() {
    let fetch = |arguments: &str| under_client(HTTP_SERVER, &format!("$run curl -sS {arguments}; echo status $?"));
    check(
        &family(&["curl", "python3"], SITE),
        &[
            fetch("http://127.0.0.1:$PORT/file[1-20].txt -o got#1.txt"),
            fetch("--no-progress-meter --parallel http://127.0.0.1:$PORT/file[1-9].txt -o got#1.txt"),
            fetch("--fail http://127.0.0.1:$PORT/absent"),
            fetch("--range 100-299 http://localhost:$PORT/file3.txt"),
            guest("curl -sS file:///no/such/file").exits(37),
            guest("curl -sS nonsense://example").exits(1),
        ],
    );
}

#[test]
fn python_http_server() {
    let client = "curl -sS --no-progress-meter --parallel http://127.0.0.1:$PORT/file[1-20].txt -o got#1.txt
        curl -sS http://127.0.0.1:$PORT/";
    check(&family(&["curl", "python3"], SITE), &[under_server(HTTP_SERVER, client)]);
}

#[test]
fn redis() {
    let client = "redis-cli -p $PORT ping
        seq 1 2000 | sed \"s/.*/SET key:& value&/\" | redis-cli -p $PORT --pipe | grep replies
        redis-benchmark -q -p $PORT -n 3000 -c 8 -r 1 -t incr,lpush,hset >/dev/null
        redis-cli -p $PORT eval \"local s = 0 for i = 1, 1000 do s = s + i * i end return s\" 0
        redis-cli -p $PORT zadd board 3 c 1 a 2 b
        redis-cli -p $PORT zrange board 0 -1 withscores
        redis-cli -p $PORT save
        redis-cli -p $PORT debug reload
        redis-cli -p $PORT dbsize
        redis-cli -p $PORT debug digest
        redis-cli -p $PORT get counter:000000000000";
    let server = "redis-server --port $PORT --bind 127.0.0.1 --save \"\" --io-threads 2 --enable-debug-command yes";
    check(
        &family(&["redis-server", "redis-cli", "python3"], ""),
        // The snapshot holds its time of creation.
        &[under_server(server, client).leaving_out(&["dump.rdb"])],
    );
}

#[test]
fn memcached() {
    let server = "memcached -u root -l 127.0.0.1 -p $PORT -U 0 -t 3 -m 32";
    check(&family(&["memcached", "python3"], ""), &[under_server(server, "/usr/bin/python3 -B memcache.py")]);
}

#[test]
fn nginx() {
    let client = "curl -sS http://127.0.0.1:$PORT/file[1-20].txt -o got#1.txt
        curl -sS --no-progress-meter --parallel --compressed http://127.0.0.1:$PORT/file[1-8].txt -o packed#1.txt
        curl -sS http://127.0.0.1:$PORT/proxied/file4.txt -o proxied.txt
        curl -sS -o /dev/null -w \"%{http_code} %{size_download}\\n\" http://127.0.0.1:$PORT/redirect
        curl -sS -H \"Range: bytes=10-49\" http://127.0.0.1:$PORT/file9.txt
        curl -sS http://127.0.0.1:$PORT/absent";
    check(&family(&["nginx", "curl", "python3"], SITE), &[under_server("sh nginx.sh", client)]);
}

//! Archivers, compressors (several with threads) and the computations of openssl.

use super::harness::check;
use super::line::{Family, Line, guest};

/// About 3 MB of text that neither repeats nor is random.
const CORPUS: &str = "awk 'BEGIN { s = 1; for (i = 0; i < 60000; i++) { line = i; for (j = 0; j < 8; j++) { \
    s = (s * 16807) % 2147483647; line = line \" w\" (s % (1 + s % 4000)) } print line } }' >corpus.txt";

/// An Ed25519 key of known bytes: its signatures are the same every time.
const KEY: &str = r"
    printf '\060\056\002\001\000\060\005\006\003\053\145\160\004\042\004\040' >key.der
    printf 'thirty-two bytes of no secrecy!!' >>key.der
    openssl pkey -inform DER -in key.der -out key.pem";

fn check_archiver(name: &'static str, needs: &'static [&'static str], lines: &[Line]) {
    check(&Family { name, needs, setup: CORPUS }, lines);
}

#[test]
fn tar() {
    let setup = "mkdir -p tree/sub; seq 1 9000 >tree/numbers; echo hidden >tree/sub/.dot; ln -s numbers tree/link
        ln tree/numbers tree/sub/hard; touch -h -d '2010-01-01 UTC' tree/link";
    let family = Family { name: "tar", needs: &["tar", "gzip", "xz"], setup };
    let archive = "tar --sort=name --mtime=@0 --owner=0 --group=0 -cf archive.tar tree";
    check(
        &family,
        &[
            guest("tar --sort=name --mtime=@0 --owner=0 --group=0 -cf archive.tar tree"),
            guest(
                "tar --sort=name --mtime=@0 --owner=0 --group=0 --use-compress-program='gzip -n' -cf archive.tgz tree",
            ),
            guest("tar -tvf archive.tar").after(archive),
            guest("tar -xvJf archive.tar.xz -C out")
                .after("tar --sort=name --mtime=@0 -cJf archive.tar.xz tree; mkdir out"),
            guest("tar -xf missing.tar").exits(2),
        ],
    );
}

#[test]
fn gzip() {
    check_archiver(
        "gzip",
        &["gzip"],
        &[
            guest("gzip -n -6 -k corpus.txt"),
            guest("gzip -d -c packed.gz").after("gzip -nc corpus.txt >packed.gz"),
            guest("gzip -t broken.gz").exits(1).after("gzip -nc corpus.txt | head -c 50000 >broken.gz"),
        ],
    );
}

#[test]
fn bzip2() {
    check_archiver(
        "bzip2",
        &["bzip2"],
        &[guest("bzip2 -9 -k corpus.txt"), guest("bunzip2 packed.bz2").after("bzip2 -c corpus.txt >packed.bz2")],
    );
}

#[test]
fn xz() {
    check_archiver(
        "xz",
        &["xz"],
        &[
            guest("xz -T2 -1 --block-size=512KiB -k corpus.txt"),
            guest("xz -d -T2 packed.xz").after("xz -1 -T2 --block-size=512KiB -c corpus.txt >packed.xz"),
            guest("xz --robot --list packed.xz").after("xz -1 -c corpus.txt >packed.xz"),
        ],
    );
}

#[test]
fn zstd() {
    check_archiver(
        "zstd",
        &["zstd"],
        &[
            guest("zstd -q -T2 -B512K -9 -k corpus.txt"),
            guest("zstd -q -d packed.zst -o plain.txt").after("zstd -q corpus.txt -o packed.zst"),
            guest("zstd -q --train samples/* -o dictionary").after("mkdir samples; split -l 200 corpus.txt samples/s"),
        ],
    );
}

#[test]
fn pigz() {
    check_archiver(
        "pigz",
        &["pigz"],
        &[
            guest("pigz -n -p 3 -k corpus.txt"),
            guest("pigz -p 3 -n -c -11 small").after("head -c 40000 corpus.txt >small"),
        ],
    );
}

#[test]
fn pbzip2() {
    check_archiver(
        "pbzip2",
        &["pbzip2"],
        &[
            guest("pbzip2 -p3 -b2 -k corpus.txt"),
            guest("pbzip2 -d -p3 packed.bz2").after("pbzip2 -p2 -b3 -c corpus.txt >packed.bz2"),
        ],
    );
}

#[test]
fn openssl() {
    let family = Family { name: "openssl", needs: &["openssl"], setup: CORPUS };
    check(
        &family,
        &[
            guest("openssl dgst -sha512 corpus.txt"),
            guest("openssl dgst -blake2b512 -r corpus.txt"),
            guest("openssl dgst -sha3-256 -hmac key corpus.txt"),
            guest(
                "openssl enc -aes-256-ctr -K 00112233445566778899aabbccddeeff -iv 0102030405060708 \
                 -in corpus.txt -out secret.bin",
            ),
            guest(
                "openssl enc -chacha20 -pbkdf2 -iter 20000 -S 0011223344556677 -pass pass:word \
                 -in corpus.txt -out secret.bin",
            ),
            guest("openssl pkey -in key.pem -text").after(KEY),
            guest("openssl pkeyutl -sign -rawin -inkey key.pem -in corpus.txt -out signature").after(KEY),
            guest("openssl prime -hex FFFFFFFFFFFFFFC5"),
            guest("openssl base64 -e -in corpus.txt"),
        ],
    );
}

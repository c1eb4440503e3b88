//! The first line of a script, read exactly as the kernel's `binfmt_script` reads it.
//!
//! The kernel looks at the first 256 bytes as at one C buffer padded with NUL bytes, and a few odd results follow
//! from that: a NUL ends a word, a script that ends in blanks without a newline passes one empty argument, and `#!`
//! alone names the empty path. They are kept, so that a script fails or works here as it does there.

/// How much of a file the kernel looks at.
pub const HEAD_SIZE: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang {
    /// Path of the program to run; empty if the file ends before it, which Linux answers with ENOENT.
    pub interpreter: Vec<u8>,
    /// Everything after the interpreter, blanks inside included, as one argument.
    pub argument: Option<Vec<u8>>,
}

/// Reads the `#!` line at the start of `head`, the first [`HEAD_SIZE`] bytes of a file or all of a shorter one.
/// `None` means that the kernel would not take the file for a script.
pub fn parse_shebang(head: &[u8]) -> Option<Shebang> {
    let mut buffer = [0; HEAD_SIZE];
    let n_bytes = head.len().min(HEAD_SIZE);
    buffer[..n_bytes].copy_from_slice(&head[..n_bytes]);
    if !buffer.starts_with(b"#!") {
        return None;
    }

    let mut end = line_end(&buffer)?;
    while is_blank(buffer[end - 1]) {
        end -= 1;
    }
    let name_start = find(&buffer, 2, end, |byte| !is_blank(byte)).filter(|&start| start != end)?;
    let separator = find(&buffer, name_start, end, is_terminator);
    let argument_start =
        separator.filter(|&at| buffer[at] != 0).and_then(|at| find(&buffer, at, end, |byte| !is_blank(byte)));
    Some(Shebang {
        interpreter: word(&buffer[name_start..separator.unwrap_or(end)]),
        argument: argument_start.map(|start| word(&buffer[start..end])),
    })
}

/// Where the line ends, exclusive. Without a newline the name must at least be whole, while an argument may be cut.
fn line_end(buffer: &[u8; HEAD_SIZE]) -> Option<usize> {
    let newline = buffer.iter().position(|&byte| byte == b'\n' || byte == 0);
    if let Some(at) = newline.filter(|&at| buffer[at] == b'\n') {
        return Some(at);
    }
    let last = HEAD_SIZE - 1;
    let name_start = find(buffer, 2, last, |byte| !is_blank(byte))?;
    find(buffer, name_start, last, is_terminator)?;
    Some(last)
}

/// First index in `from..=last` whose byte `matches`.
fn find(buffer: &[u8; HEAD_SIZE], from: usize, last: usize, matches: impl Fn(u8) -> bool) -> Option<usize> {
    (from..=last).find(|&at| matches(buffer[at]))
}

/// `bytes` up to the first NUL.
fn word(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|&byte| byte != 0).collect()
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn is_terminator(byte: u8) -> bool {
    is_blank(byte) || byte == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], expected: Option<(&str, Option<&str>)>) {
        let found = parse_shebang(head);
        let expected = expected.map(|(interpreter, argument)| Shebang {
            interpreter: interpreter.as_bytes().to_vec(),
            argument: argument.map(|argument| argument.as_bytes().to_vec()),
        });
        assert_eq!(found, expected, "head {:?}", String::from_utf8_lossy(head));
    }

    #[test]
    fn ordinary_lines() {
        check(b"#!/bin/sh\necho hello\n", Some(("/bin/sh", None)));
        check(b"#!/usr/bin/env python3\n", Some(("/usr/bin/env", Some("python3"))));
        check(b"#! \t/bin/sh\t -e \t\n", Some(("/bin/sh", Some("-e"))));
        check(b"#!/bin/awk -f  -v\tx \n", Some(("/bin/awk", Some("-f  -v\tx"))));
        check(b"#!/bin/sh", Some(("/bin/sh", None)));
        check(b"#!/bin/sh -e", Some(("/bin/sh", Some("-e"))));
        check(b"#!/bin/sh\r\n", Some(("/bin/sh\r", None)));
    }

    #[test]
    fn not_scripts() {
        for head in [&b""[..], b"#", b"\x7fELF", b" #!/bin/sh\n", b"#!\n/bin/sh", b"#! \t \n"] {
            check(head, None);
        }
    }

    #[test]
    fn odd_ends() {
        check(b"#!", Some(("", None)));
        check(b"#!  ", Some(("", None)));
        check(b"#!/bin/sh  ", Some(("/bin/sh", Some(""))));
        check(b"#!/bin/sh\0-e\n", Some(("/bin/sh", None)));
        check(b"#!/bin/sh -a\0b\n", Some(("/bin/sh", Some("-a"))));
        check(b"#!/bin/sh \0\n", Some(("/bin/sh", Some(""))));
    }

    #[test]
    fn only_the_first_256_bytes_count() {
        let name = format!("/{}", "n".repeat(252));
        check(format!("#!{name}\n").as_bytes(), Some((&name, None)));
        check(format!("#!{name}n\n").as_bytes(), None);
        check(format!("#!{}\n", " ".repeat(300)).as_bytes(), None);

        let argument = "a".repeat(400);
        let kept = &argument[..HEAD_SIZE - 1 - "#!/bin/sh ".len()];
        check(format!("#!/bin/sh {argument}\n").as_bytes(), Some(("/bin/sh", Some(kept))));
    }
}

//! The text of `/proc/PID/maps`, as mappings.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::space::Mapping;

/// Parses the text of `/proc/PID/maps`. Lines that do not look like a mapping are passed over.
pub fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

/// One line: `start-end perms offset device inode   path`.
fn parse_line(line: &str) -> Option<Mapping> {
    let (range, rest) = next_field(line)?;
    let (permissions, rest) = next_field(rest)?;
    let (offset, rest) = next_field(rest)?;
    let (_device, rest) = next_field(rest)?;
    let (_inode, rest) = next_field(rest).unwrap_or((rest, ""));
    let (start, end) = range.split_once('-')?;
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(offset)?,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        path: parse_path(rest.trim_start()),
    })
}

fn next_field(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// The kernel writes a line feed inside a path as `\012`, and nothing else in escapes.
fn parse_path(text: &str) -> Option<PathBuf> {
    if text.is_empty() {
        return None;
    }
    let bytes = text.replace("\\012", "\n").into_bytes();
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
00400000-00401000 r--p 00000000 08:01 1234                               /opt/my prog
00401000-00402000 r-xp 00001000 08:01 1234                               /opt/my prog
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7ffc8d4f1000-7ffc8d512000 rw-p 00000000 00:00 0                          [stack]
not a mapping
7f0000100000-7f0000101000 r--s 00002000 00:05 9                          /tmp/a\\012b (deleted)
";

    #[test]
    fn every_kind_of_line() {
        let mappings = parse_maps(TEXT);
        let paths: Vec<_> = mappings.iter().map(|m| m.path.as_deref().map(|p| p.to_str().unwrap())).collect();
        assert_eq!(
            paths,
            [Some("/opt/my prog"), Some("/opt/my prog"), None, Some("[stack]"), Some("/tmp/a\nb (deleted)")]
        );
        assert_eq!(
            mappings[1],
            Mapping {
                start: 0x401000,
                end: 0x402000,
                offset: 0x1000,
                executable: true,
                path: Some("/opt/my prog".into())
            }
        );
        assert!(!mappings[0].executable);
        assert_eq!(mappings[4].offset, 0x2000);
    }
}

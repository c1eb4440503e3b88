//! Finds a program by its name, as the C library's `execvp` does.

use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What is searched where `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The path of the program called `name`; `None` if there is no such file in any folder of `search_path`.
///
/// If there are only files that may not be executed, the first of them is given: whoever tries it can say why.
pub fn find(name: &OsStr, search_path: Option<&OsStr>) -> Option<OsString> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.to_owned());
    }
    if name.is_empty() {
        return None;
    }
    let mut forbidden = None;
    for folder in search_path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|&byte| byte == b':') {
        let path = join(folder, name);
        match look_at(Path::new(&path)) {
            Sight::Program => return Some(path),
            Sight::Forbidden => forbidden = forbidden.or(Some(path)),
            Sight::Nothing => {}
        }
    }
    forbidden
}

/// An empty folder name means the current folder.
fn join(folder: &[u8], name: &OsStr) -> OsString {
    let mut path = if folder.is_empty() { b".".to_vec() } else { folder.to_vec() };
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    OsString::from_vec(path)
}

enum Sight {
    Program,
    /// Executing it gives `EACCES`.
    Forbidden,
    Nothing,
}

fn look_at(path: &Path) -> Sight {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && access(path, AccessFlags::X_OK).is_ok() => Sight::Program,
        Ok(_) => Sight::Forbidden,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Sight::Forbidden,
        Err(_) => Sight::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A fresh folder with files, each with its mode.
    fn folder(name: &str, files: &[(&str, u32)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("whodunit-search-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (file, mode) in files {
            fs::write(folder.join(file), "").unwrap();
            fs::set_permissions(folder.join(file), fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    fn search(name: &str, folders: &[&Path]) -> Option<PathBuf> {
        let words: Vec<&OsStr> = folders.iter().map(|folder| folder.as_os_str()).collect();
        find(OsStr::new(name), Some(&words.join(OsStr::new(":")))).map(PathBuf::from)
    }

    #[test]
    fn first_executable_file_wins_over_forbidden_ones() {
        let first = folder("first", &[("tool", 0o644), ("plain", 0o644)]);
        let second = folder("second", &[("tool", 0o755)]);
        let third = folder("third", &[("tool", 0o755), ("plain", 0o600)]);
        let all: [&Path; 4] = [Path::new("/nowhere"), &first, &second, &third];
        assert_eq!(search("tool", &all), Some(second.join("tool")));
        assert_eq!(search("plain", &all), Some(first.join("plain")));
        assert_eq!(search("absent", &all), None);
        assert_eq!(search("", &all), None);
        for folder in [first, second, third] {
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn folders_are_no_programs() {
        let outer = folder("outer", &[]);
        fs::create_dir(outer.join("tool")).unwrap();
        let inner = folder("inner", &[("tool", 0o755)]);
        assert_eq!(search("tool", &[&outer, &inner]), Some(inner.join("tool")));
        fs::remove_dir_all(outer).unwrap();
        fs::remove_dir_all(inner).unwrap();
    }

    #[test]
    fn empty_element_means_the_current_folder() {
        assert_eq!(join(b"", OsStr::new("tool")), "./tool");
        // Tests run in the folder of their crate.
        assert_eq!(search("Cargo.toml", &[Path::new("")]), Some(PathBuf::from("./Cargo.toml")));
    }

    #[test]
    fn names_with_a_slash_are_taken_as_they_are() {
        assert_eq!(search("./no/such", &[]), Some(PathBuf::from("./no/such")));
    }

    #[test]
    fn without_a_path_the_system_folders_are_searched() {
        assert_eq!(find(OsStr::new("sh"), None), Some(OsString::from("/bin/sh")));
    }
}

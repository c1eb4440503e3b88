//! Finds and checks the files of a program: scripts' interpreters, the program itself, its dynamic loader.

use crate::kernel;
use crate::launch::Program;
use guest::elf::{self, Image, ReadAt, Unfit};
use guest::script;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Why a program could not be started, in one line that says what to do.
#[derive(Debug)]
pub struct LaunchError {
    message: String,
    status: u8,
}

impl LaunchError {
    const NOT_FOUND: u8 = 127;
    const CANNOT_EXECUTE: u8 = 126;
    const MACHINE: u8 = 3;

    fn new(status: u8, message: String) -> LaunchError {
        LaunchError { message, status }
    }

    /// As a shell would exit: 127 not found, 126 not executable; 3 if the machine is the reason.
    pub fn status(&self) -> u8 {
        self.status
    }

    pub fn machine(feature: &str) -> LaunchError {
        let message = format!("this machine has no {feature}, which whodunit needs; see: whodunit doctor");
        LaunchError::new(Self::MACHINE, message)
    }

    pub fn memory(error: std::io::Error) -> LaunchError {
        let advice = "free memory or raise the address-space limit (ulimit -v)";
        LaunchError::new(Self::MACHINE, format!("cannot reserve memory: {error}; {advice}"))
    }

    pub fn descriptors(error: std::io::Error) -> LaunchError {
        LaunchError::new(
            Self::MACHINE,
            format!("cannot open the descriptors that whodunit needs: {error}; raise the limit (ulimit -n)"),
        )
    }

    fn open(path: &Path, error: &std::io::Error) -> LaunchError {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                LaunchError::new(Self::NOT_FOUND, format!("{}: no such file; check the path", path.display()))
            }
            _ => LaunchError::new(Self::CANNOT_EXECUTE, format!("{}: {error}", path.display())),
        }
    }
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LaunchError {}

/// An ELF file that was found fit to run.
pub struct Opened {
    pub file: File,
    pub image: Image,
}

/// All files and words that a start needs.
pub struct Files {
    pub program: Opened,
    pub interpreter: Option<Opened>,
    pub arguments: Vec<OsString>,
    pub environment: Vec<OsString>,
    /// The path as it was asked for, which the guest finds in its auxiliary vector.
    pub path: OsString,
    pub real_path: Vec<u8>,
}

struct FileBytes<'a>(&'a File, u64);

impl ReadAt for FileBytes<'_> {
    fn size(&self) -> u64 {
        self.1
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

/// Resolves scripts and opens everything.
pub fn open(program: &Program) -> Result<Files, LaunchError> {
    let mut path = program.path.clone();
    let mut arguments = program.arguments.clone();
    let asked = path.clone();
    for _ in 0..5 {
        let file = open_executable(Path::new(&path))?;
        let mut head = [0u8; script::HEAD_SIZE];
        let length = file.read_at(&mut head, 0).unwrap_or(0);
        let Some(shebang) = script::parse_shebang(&head[..length]) else {
            return finish(program, file, path, asked, arguments);
        };
        // interpreter, its one argument, the script's path, then the script's own arguments
        let interpreter = OsString::from_vec(shebang.interpreter);
        let mut words = vec![interpreter.clone()];
        words.extend(shebang.argument.map(OsString::from_vec));
        words.push(path);
        words.extend(arguments.into_iter().skip(1));
        arguments = words;
        path = interpreter;
    }
    let message = format!("{}: too many levels of script interpreters", Path::new(&asked).display());
    Err(LaunchError::new(LaunchError::CANNOT_EXECUTE, message))
}

fn finish(
    program: &Program,
    file: File,
    path: OsString,
    asked: OsString,
    arguments: Vec<OsString>,
) -> Result<Files, LaunchError> {
    let shown = Path::new(&path);
    let opened = parse(file, shown)?;
    refuse_setuid(&opened.file, shown)?;
    let interpreter = match &opened.image.interpreter {
        Some(name) => {
            let name = OsString::from_vec(name.clone());
            let file = open_executable(Path::new(&name)).map_err(|error| {
                let advice = "install the C library it was linked with, or link it statically";
                let message = format!("{}: its dynamic loader is missing: {error}; {advice}", shown.display());
                LaunchError::new(LaunchError::NOT_FOUND, message)
            })?;
            Some(parse(file, Path::new(&name))?)
        }
        None => None,
    };
    let real_path =
        std::fs::canonicalize(shown).map_or_else(|_| path.as_bytes().to_vec(), |path| path.into_os_string().into_vec());
    Ok(Files {
        program: opened,
        interpreter,
        arguments,
        environment: program.environment.clone(),
        path: asked,
        real_path,
    })
}

fn open_executable(path: &Path) -> Result<File, LaunchError> {
    let refuse = |why: &str| LaunchError::new(LaunchError::CANNOT_EXECUTE, format!("{}: {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| LaunchError::open(path, &error))?;
    if metadata.is_dir() {
        return Err(refuse("is a directory; name a program in it"));
    }
    if !metadata.is_file() {
        return Err(refuse("is not a regular file"));
    }
    if !may_execute(path) {
        return Err(refuse("permission denied; make it executable (chmod +x)"));
    }
    File::open(path).map_err(|error| LaunchError::open(path, &error))
}

fn may_execute(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    let arguments = [libc::AT_FDCWD as i64 as u64, path.as_ptr() as u64, libc::X_OK as u64, 0, 0, 0];
    kernel::call(libc::SYS_faccessat as u64, arguments) == 0
}

fn parse(file: File, path: &Path) -> Result<Opened, LaunchError> {
    let size = file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
    match elf::parse(&FileBytes(&file, size)) {
        Ok(image) => Ok(Opened { file, image }),
        Err(unfit) => Err(unfit_program(path, &unfit)),
    }
}

fn unfit_program(path: &Path, unfit: &Unfit) -> LaunchError {
    LaunchError::new(LaunchError::CANNOT_EXECUTE, format!("{}: {unfit}", path.display()))
}

/// The kernel would give a setuid program other rights, which only the kernel can do.
fn refuse_setuid(file: &File, path: &Path) -> Result<(), LaunchError> {
    let Ok(metadata) = file.metadata() else { return Ok(()) };
    let mine = |number: i64| kernel::call(number as u64, [0; 6]) as u32;
    let other_user = metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != mine(libc::SYS_geteuid);
    let other_group = metadata.mode() & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP
        && metadata.gid() != mine(libc::SYS_getegid);
    if other_user || other_group {
        let advice = "run whodunit as that user, or copy the program without the bit";
        let message = format!("{}: is setuid or setgid and would need other rights; {advice}", path.display());
        return Err(LaunchError::new(LaunchError::CANNOT_EXECUTE, message));
    }
    Ok(())
}

impl Files {
    pub fn command_line(&self) -> Vec<u8> {
        self.arguments.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect()
    }

    /// Names the main thread after the program, as `execve` does.
    pub fn name_thread(&self) {
        let path = self.path.as_bytes();
        let base = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let mut name = base.to_vec();
        name.truncate(15);
        name.push(0);
        kernel::call(libc::SYS_prctl as u64, [libc::PR_SET_NAME as u64, name.as_ptr() as u64, 0, 0, 0, 0]);
    }
}

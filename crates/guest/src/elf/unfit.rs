//! Why a file cannot be run, in words that follow the file's name.

use std::error::Error;
use std::fmt;
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    NotElf,
    /// Something that the headers speak of lies beyond the end of the file.
    Truncated,
    /// i386 or x32.
    ThirtyTwoBit,
    ForeignMachine {
        machine: u16,
    },
    BigEndian,
    /// An object file, a core dump or something stranger.
    NotExecutable,
    NoLoadableSegment,
    /// The headers contradict themselves; Linux refuses such a file as well.
    Malformed(&'static str),
    /// The file itself could not be read.
    Unreadable(io::ErrorKind),
}

impl Error for Unfit {}

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::NotElf => out.write_str(
                "is neither an ELF program nor a script: give a 64-bit x86 program, or a script that starts with #!",
            ),
            Unfit::Truncated => {
                out.write_str("is cut short: parts that its headers name are missing; build it or copy it again")
            }
            Unfit::ThirtyTwoBit => out.write_str(
                "is a 32-bit program; whodunit runs 64-bit x86 programs only: rebuild it without -m32 or -mx32",
            ),
            Unfit::ForeignMachine { machine } => write!(
                out,
                "is built for {}; whodunit runs 64-bit x86 programs only: rebuild it for x86-64",
                Machine(*machine)
            ),
            Unfit::BigEndian => out.write_str(
                "is built for a big-endian machine; whodunit runs 64-bit x86 programs only: rebuild it for x86-64",
            ),
            Unfit::NotExecutable => out
                .write_str("is an ELF file but not a program (an object file or a core dump): give the linked program"),
            Unfit::NoLoadableSegment => {
                out.write_str("has nothing to load: give the program itself, linked and not only its debug information")
            }
            Unfit::Malformed(what) => write!(out, "is damaged: {what}; build it or copy it again"),
            Unfit::Unreadable(kind) => write!(out, "cannot be read ({kind}): check the file and the disk it is on"),
        }
    }
}

/// An ELF machine number, named where it is common.
struct Machine(u16);

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.0 {
            8 => "MIPS",
            20 => "PowerPC",
            21 => "64-bit PowerPC",
            22 => "IBM Z",
            40 => "32-bit ARM",
            43 => "SPARC",
            183 => "64-bit ARM",
            243 => "RISC-V",
            258 => "LoongArch",
            machine => return write!(out, "another processor (ELF machine {machine})"),
        })
    }
}

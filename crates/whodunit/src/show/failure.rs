//! Why a process ended, with the stack and the source line where the recording tells them.
//!
//! Names come from the files that were mapped, and only if they are still what they were when recorded. Of a file that is
//! gone or has changed, addresses are shown as offsets in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use program::copies::Copies;
use program::source::SourceCache;
use program::space::{AddressSpace, Mapping};
use program::symbols::{SourceFrame, Symbolizer, UNMAPPED};
use program::unwind::{CodeAddress, CodeAddressKind};
use report::signals;
use trace::Recording;
use trace::event::{Death, EndKind};

use super::checksums;
use super::image::{Image, Stop};
use super::mappings::{Mappings, RecordedFile};
use crate::pack;
use crate::recordings::ends;
use crate::recordings::text::{Ink, Paint, escaped, keep_start, width};

/// Of a long stack both ends are shown.
const INNERMOST: usize = 40;
const OUTERMOST: usize = 10;
/// Lines of source around the one that matters.
const CONTEXT: u32 = 2;
const LONGEST_NAME: usize = 44;
const LONGEST_HEADLINE_NAME: usize = 60;
/// Files there are rarely to blame.
const SYSTEM: &str = "/usr";

/// What is known of an end that was not a success.
pub struct Failure {
    pub headline: String,
    pub particulars: String,
    /// The functions of the stack, inlined ones too, innermost first; at their program counters.
    pub frames: Vec<(u64, SourceFrame)>,
    /// How many program counters were passed over, and behind how many frames.
    left_out: Option<(usize, usize)>,
    /// What stands in the way of names.
    pub gaps: Vec<String>,
    suspect: Option<usize>,
}

impl Failure {
    /// None for a process that ended as it should, or did not end.
    pub fn of(image: &Image, recording: &Recording, sources: &mut SourceCache) -> Option<Failure> {
        let stop = image.stop.as_ref().filter(|stop| is_failure(stop))?;
        let copies = Arc::clone(sources.copies());
        let mut files = Files::new(&image.mappings, recording, &copies);
        let (frames, left_out) = resolve(&stop.backtrace, &image.mappings, &mut files);
        let suspect = suspect(&frames, sources);
        Some(Failure {
            headline: headline(stop, suspect.or(Some(0)).and_then(|position| frames.get(position))),
            particulars: particulars(image, stop),
            gaps: files.gaps(),
            frames,
            left_out,
            suspect,
        })
    }

    pub fn lines(&self, sources: &mut SourceCache, paint: Paint) -> Vec<String> {
        let mut lines = vec![paint.paint(Ink::Alarm, &self.headline), paint.paint(Ink::Faint, &self.particulars)];
        if let Some((_, frame)) = self.suspect.and_then(|position| self.frames.get(position)) {
            lines.push(String::new());
            lines.extend(excerpt(frame, sources, paint));
        }
        if !self.frames.is_empty() {
            lines.push(String::new());
            lines.extend(self.stack(paint));
        }
        lines.extend(self.gaps.iter().map(|gap| paint.paint(Ink::Faint, &format!("  {gap}"))));
        lines
    }

    fn stack(&self, paint: Paint) -> Vec<String> {
        let names: Vec<String> = self.frames.iter().map(|(_, frame)| name(frame)).collect();
        let widest = names.iter().map(|name| width(name)).filter(|width| *width <= LONGEST_NAME).max().unwrap_or(0);
        let digits = self.frames.len().saturating_sub(1).to_string().len();
        let mut lines = Vec::new();
        for (position, ((_, frame), name)) in self.frames.iter().zip(&names).enumerate() {
            if let Some((count, _)) = self.left_out.filter(|(_, behind)| *behind == position) {
                lines.push(format!("      ... {count} frames left out ..."));
            }
            let padding = " ".repeat(widest.saturating_sub(width(name)));
            let painted = paint.paint(Ink::Function, name);
            lines.push(format!("  #{position:<digits$}  {painted}{padding}  {}", place(frame)));
        }
        lines
    }
}

fn is_failure(stop: &Stop) -> bool {
    match stop.kind {
        EndKind::Killed(_) => true,
        EndKind::Exited(0) => false,
        EndKind::Exited(_) | EndKind::Aborted(_) => !stop.backtrace.is_empty(),
    }
}

/// `SIGSEGV: invalid access to 0x10 in `list_push` at list.c:41`
fn headline(stop: &Stop, frame: Option<&(u64, SourceFrame)>) -> String {
    let event = match stop.kind {
        EndKind::Killed(death) => format!("{}: {}", ends::end_words(stop.kind), cause(death)),
        EndKind::Exited(_) | EndKind::Aborted(_) => ends::end_words(stop.kind),
    };
    let Some((_, frame)) = frame.filter(|(_, frame)| frame.module != UNMAPPED) else { return event };
    let function = frame.function.as_deref().map(|name| keep_start(&escaped(name), LONGEST_HEADLINE_NAME));
    let within = function.map(|name| format!(" in `{name}`")).unwrap_or_default();
    format!("{event}{within} at {}", place(&SourceFrame { column: None, ..frame.clone() }))
}

fn cause(death: Death) -> String {
    let signal = ends::signal_number(death.signal);
    let code = signals::code(signal, death.code);
    match signal {
        // Codes above are not of a fault at an address.
        signals::SIGSEGV | signals::SIGBUS if (1..0x80).contains(&death.code) => {
            format!("invalid access to {:#x}", death.address)
        }
        signals::SIGFPE | signals::SIGILL => code.map_or(signals::meaning(signal), |(_, meaning)| meaning).to_owned(),
        _ => signals::meaning(signal).to_owned(),
    }
}

fn particulars(image: &Image, stop: &Stop) -> String {
    let pid = image.begin.as_ref().map(|begin| format!(" (pid {})", begin.pid)).unwrap_or_default();
    let code = match stop.kind {
        EndKind::Killed(death) => signals::code(ends::signal_number(death.signal), death.code),
        EndKind::Exited(_) | EndKind::Aborted(_) => None,
    };
    let code = code.map(|(name, meaning)| format!("; {name}: {meaning}")).unwrap_or_default();
    let (log, thread, clock, event) = (image.log, stop.thread, stop.clock, stop.event);
    format!("  process {log}{pid}, thread {thread}, clock {clock}, event {event}{code}")
}

type Frames = Vec<(u64, SourceFrame)>;

/// The functions at the two ends of a stack, and what lies between.
fn resolve(backtrace: &[u64], mappings: &Mappings, files: &mut Files<'_>) -> (Frames, Option<(usize, usize)>) {
    let gap_start = INNERMOST.min(backtrace.len());
    let gap_end = backtrace.len().saturating_sub(OUTERMOST).max(gap_start);
    let shown: Vec<(usize, u64)> = backtrace.iter().copied().enumerate().collect();
    let (inner, outer) = (&shown[..gap_start], &shown[gap_end..]);
    let wanted = || inner.iter().chain(outer).map(|&(position, pc)| (pc, code_address(position, pc)));
    let space = address_space(wanted().map(|(_, address)| address.for_lookup().0), mappings, files);
    let mut symbolizer = Symbolizer::new(&space);
    let mut frames: Frames = Vec::new();
    let mut inner_frames = 0;
    for (count, (pc, address)) in wanted().enumerate() {
        let functions = functions(address, mappings, files, &mut symbolizer);
        frames.extend(functions.into_iter().map(|frame| (pc, frame)));
        if count < gap_start {
            inner_frames = frames.len();
        }
    }
    let left_out = gap_end - gap_start;
    (frames, (left_out > 0).then_some((left_out, inner_frames)))
}

fn code_address(position: usize, pc: u64) -> CodeAddress {
    let kind = if position == 0 { CodeAddressKind::Exact } else { CodeAddressKind::ReturnAddress };
    CodeAddress { pc, kind }
}

/// Only of the files that the addresses lie in: there is no need to read others.
fn address_space(addresses: impl Iterator<Item = u64>, mappings: &Mappings, files: &mut Files<'_>) -> AddressSpace {
    let ids: BTreeSet<u32> = addresses.filter_map(|address| file_at(mappings, address)).map(|(id, _)| id).collect();
    let mut known = Vec::new();
    for region in mappings.regions() {
        let Some((id, offset)) = region.file.filter(|(id, _)| ids.contains(id)) else { continue };
        if let Ok(path) = files.find(id) {
            let (start, end, executable) = (region.start, region.end, region.executable);
            known.push(Mapping { start, end, offset, executable, path: Some(path) });
        }
    }
    AddressSpace::with_copies(known, files.copies)
}

/// The file at an address, and the offset in it.
fn file_at(mappings: &Mappings, address: u64) -> Option<(u32, u64)> {
    let region = mappings.region_at(address)?;
    let (id, offset) = region.file?;
    Some((id, offset.wrapping_add(address - region.start)))
}

fn functions(
    address: CodeAddress,
    mappings: &Mappings,
    files: &mut Files<'_>,
    symbolizer: &mut Symbolizer,
) -> Vec<SourceFrame> {
    let lookup = address.for_lookup().0;
    let Some((id, offset)) = file_at(mappings, lookup) else {
        return symbolizer.resolve(address);
    };
    let module = files.name(id);
    match files.find(id) {
        // A copy has another name than the file.
        Ok(_) => {
            let frames = symbolizer.resolve(address).into_iter();
            frames.map(|frame| SourceFrame { module: module.clone(), ..frame }).collect()
        }
        Err(_) => {
            let module_offset = offset.wrapping_add(address.pc.wrapping_sub(lookup));
            vec![SourceFrame {
                function: None,
                file: None,
                line: None,
                column: None,
                inlined: false,
                module,
                module_offset,
            }]
        }
    }
}

/// Every file that is mapped, and what stands in the way of names.
pub fn whole_space(mappings: &Mappings, recording: &Recording) -> (AddressSpace, Vec<String>) {
    let copies = pack::copies_of(recording);
    let mut files = Files::new(mappings, recording, &copies);
    let code = mappings.regions().filter(|region| region.executable && region.file.is_some());
    let starts: Vec<u64> = code.map(|region| region.start).collect();
    let space = address_space(starts.into_iter(), mappings, &mut files);
    (space, files.gaps())
}

/// Where the files of a recording are now; each is looked at once.
struct Files<'a> {
    mappings: &'a Mappings,
    recording: &'a Recording,
    copies: &'a Arc<Copies>,
    found: BTreeMap<u32, Result<PathBuf, String>>,
}

impl<'a> Files<'a> {
    fn new(mappings: &'a Mappings, recording: &'a Recording, copies: &'a Arc<Copies>) -> Files<'a> {
        Files { mappings, recording, copies, found: BTreeMap::new() }
    }

    fn find(&mut self, id: u32) -> Result<PathBuf, String> {
        let look = || match self.mappings.file(id) {
            Some(file) => locate(file, self.recording),
            None => Err(format!("file {id} is not known to the recording")),
        };
        self.found.entry(id).or_insert_with(look).clone()
    }

    fn name(&self, id: u32) -> String {
        let Some(file) = self.mappings.file(id) else { return format!("file {id}") };
        let path = Path::new(OsStr::from_bytes(&file.path));
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    fn gaps(&self) -> Vec<String> {
        self.found.values().filter_map(|found| found.as_ref().err()).map(|gap| escaped(gap)).collect()
    }
}

/// The recording's own copy, or the file where it was if it is still the same.
fn locate(file: &RecordedFile, recording: &Recording) -> Result<PathBuf, String> {
    let copy = file.checksum.map(|checksum| recording.file_copy(checksum));
    if let Some(copy) = copy.filter(|copy| is_same(file, copy).is_ok_and(|same| same)) {
        return Ok(fs::canonicalize(&copy).unwrap_or(copy));
    }
    let path = PathBuf::from(OsStr::from_bytes(&file.path));
    let shown = path.display();
    match is_same(file, &path) {
        Ok(true) if path.is_absolute() => Ok(path),
        Ok(true) => Err(format!("{shown} is not a full path; its functions have no names here")),
        Ok(false) => Err(format!("{shown} has changed since it was recorded; its functions have no names here")),
        Err(error) => Err(format!("{shown} cannot be read ({error}); its functions have no names here")),
    }
}

fn is_same(file: &RecordedFile, path: &Path) -> std::io::Result<bool> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() != file.size {
        return Ok(false);
    }
    match file.checksum {
        Some(checksum) => Ok(checksums::of(path, &metadata)? == checksum),
        None => Ok(modified(&metadata) == file.modified),
    }
}

fn modified(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

/// The innermost function with a source that can be read, outside of the system's folders if there is one.
fn suspect(frames: &Frames, sources: &mut SourceCache) -> Option<usize> {
    let mut readable = Vec::new();
    for (position, (_, frame)) in frames.iter().enumerate() {
        if source_line(frame, 0, sources).is_some() {
            readable.push(position);
        }
    }
    let is_own = |position: &&usize| frames[**position].1.file.as_ref().is_some_and(|file| !file.starts_with(SYSTEM));
    readable.iter().find(is_own).or(readable.first()).copied()
}

fn source_line(frame: &SourceFrame, distance: i64, sources: &mut SourceCache) -> Option<String> {
    let line = u32::try_from(i64::from(frame.line?).checked_add(distance)?).ok()?;
    sources.source_line(frame.file.as_ref()?, line)
}

/// The line with its neighbours.
fn excerpt(frame: &SourceFrame, sources: &mut SourceCache, paint: Paint) -> Vec<String> {
    let Some(marked) = frame.line else { return Vec::new() };
    let (first, last) = (marked.saturating_sub(CONTEXT).max(1), marked.saturating_add(CONTEXT));
    let digits = last.to_string().len();
    let mut lines = Vec::new();
    for number in first..=last {
        let distance = i64::from(number) - i64::from(marked);
        let Some(code) = source_line(frame, distance, sources) else { continue };
        let mark = if number == marked { ">" } else { " " };
        let line = format!("  {mark} {number:digits$} | {}", escaped(&code.replace('\t', "    ")));
        let line = line.trim_end();
        lines.push(if number == marked { paint.paint(Ink::Strong, line) } else { line.to_owned() });
    }
    lines
}

fn name(frame: &SourceFrame) -> String {
    let name = frame.function.as_deref().map_or("?".to_owned(), escaped);
    if frame.inlined { format!("{name} (inlined)") } else { name }
}

/// The source line, or else the module with an offset.
pub fn place(frame: &SourceFrame) -> String {
    let Some(file) = &frame.file else {
        return match frame.module.as_str() {
            UNMAPPED => format!("{:#x}", frame.module_offset),
            module => escaped(&format!("{module}+{:#x}", frame.module_offset)),
        };
    };
    let here = std::env::current_dir().ok();
    let relative = here.as_ref().and_then(|here| file.strip_prefix(here).ok()).unwrap_or(file);
    let mut place = escaped(&relative.to_string_lossy());
    for number in [frame.line, frame.line.and(frame.column)].into_iter().flatten() {
        place += &format!(":{number}");
    }
    place
}

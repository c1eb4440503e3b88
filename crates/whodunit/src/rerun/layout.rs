//! From a layout in words to places: which variables and functions of the recorded program are moved, and where to.

use crate::show::Recorded;
use engine::{Allocating, MovedGlobal, MovedLocal};
use program::movable::{Movable, MovablePlace, Movables};
use program::space::AddressSpace;
use program::variables::Variables;
use session::rerun::{Broken, Guarded, Layout, Space};
use session::stream::{Role, role_of};
use std::collections::BTreeMap;

/// Where globals go: in reach of the program's code, where nothing else lies.
const GLOBALS: u64 = 0x5500_9000_0000;
/// Globals lie so far apart, and as they did within lines of the cache.
const GAP: u64 = 512;
const LINE: u64 = 64;
/// Above all frames of the main thread.
const STACK_TOP: u64 = 0x7eb0_0000_0000;
/// Each variable of a frame has a stack of its own, for all calls of its function: the first so far below the real one,
/// and each so far below the last.
const FIRST_STACK: i64 = 512 << 20;
const STACK: i64 = 9 << 20;
/// Operands reach no further than two gigabytes.
const MOST_LOCALS: usize = 160;

/// What a plan's layout means for a recorded program.
pub fn prepare(layout: &Layout, recorded: &Recorded) -> engine::Layout {
    let mut made = engine::Layout { watched: layout.watch.iter().copied().collect(), ..engine::Layout::default() };
    if layout.spaces.contains(&Space::Heap) {
        made.allocators = allocators(&recorded.space);
    }
    let moves = |space| layout.spaces.contains(&space);
    if !moves(Space::Globals) && !moves(Space::Stack) {
        return made;
    }
    let movables = Movables::of(&Variables::new(&recorded.space));
    if moves(Space::Globals) {
        move_globals(layout, &movables, &mut made);
    }
    if moves(Space::Stack) && recorded.threads.len() < 2 {
        move_locals(layout, &movables, &mut made);
    }
    made
}

/// How many layouts move all variables of frames.
pub fn n_parts(movables: &Movables) -> usize {
    movables.locals.len().div_ceil(MOST_LOCALS).max(1)
}

fn is_wanted(layout: &Layout, variable: &Movable) -> bool {
    layout.only.as_ref().is_none_or(|only| *only == variable.name) && !layout.except.contains(&variable.name)
}

/// The instructions that mean moved variables, and how far those are moved.
fn refer(layout: &Layout, moved: &[(&Movable, i64)], operands: &mut BTreeMap<u64, i64>) {
    for (variable, distance) in moved {
        operands.extend(variable.references.iter().map(|pc| (pc.0, *distance)));
    }
    // These were taken for the beginning of the next variable.
    for (variable, distance) in moved.iter().filter(|_| layout.ends) {
        operands.extend(variable.ends.iter().map(|pc| (pc.0, *distance)));
    }
}

fn move_globals(layout: &Layout, movables: &Movables, made: &mut engine::Layout) {
    let mut next = GLOBALS;
    let mut moved = Vec::new();
    for variable in movables.globals.iter().filter(|variable| is_wanted(layout, variable)) {
        let MovablePlace::Global(place) = variable.place else { continue };
        let to = (next + GAP).next_multiple_of(LINE) + place.0 % LINE;
        next = to + variable.size;
        moved.push((variable, to.wrapping_sub(place.0) as i64));
        made.globals.push(MovedGlobal { name: variable.name.clone(), from: place.0, to, size: variable.size });
    }
    refer(layout, &moved, &mut made.operands);
    made.pointers = movables.pointers.iter().map(|word| word.0).collect();
}

fn move_locals(layout: &Layout, movables: &Movables, made: &mut engine::Layout) {
    let lot = movables.locals.chunks(MOST_LOCALS).nth(layout.part).unwrap_or_default();
    let mut distance = -FIRST_STACK;
    let mut moved = Vec::new();
    for variable in lot.iter().filter(|variable| is_wanted(layout, variable)) {
        let MovablePlace::Frame { function, offset } = variable.place else { continue };
        distance -= STACK;
        moved.push((variable, distance));
        let local = MovedLocal { name: variable.name.clone(), offset, size: variable.size, distance };
        made.frames.entry(function.0).or_default().push(local);
    }
    refer(layout, &moved, &mut made.operands);
    if !made.frames.is_empty() {
        made.areas.push(STACK_TOP.wrapping_add_signed(distance - STACK)..STACK_TOP.wrapping_add_signed(-FIRST_STACK));
    }
}

fn allocators(space: &AddressSpace) -> BTreeMap<u64, Allocating> {
    let found = space.functions_meaning(allocating);
    found.into_iter().map(|function| (function.start.0, function.meaning)).collect()
}

/// The functions of C; those of C++ call them.
fn allocating(name: &str) -> Option<Allocating> {
    match role_of(name) {
        _ if name == "malloc_usable_size" => Some(Allocating::UsableSize),
        _ if name.starts_with("_Z") || matches!(name, "valloc" | "pvalloc") => None,
        Some(Role::Allocate) => Some(Allocating::Allocate),
        Some(Role::AllocateArray) => Some(Allocating::AllocateArray),
        Some(Role::AllocateAligned) => Some(Allocating::AllocateAligned),
        Some(Role::AllocateThrough) => Some(Allocating::AllocateThrough),
        Some(Role::Reallocate) => Some(Allocating::Reallocate),
        Some(Role::ReallocateArray) => Some(Allocating::ReallocateArray),
        Some(Role::Free) => Some(Allocating::Free),
        _ => None,
    }
}

/// What was overrun, and where it was written to, as a part of a sentence.
pub fn overrun(broken: &Broken) -> String {
    let size = broken.size;
    let object = match broken.what {
        Guarded::Block | Guarded::FreedBlock => format!("a block of {size} bytes"),
        Guarded::Global | Guarded::Local => format!("`{}` of {size} bytes", broken.name),
    };
    beside(broken, &format!("the end of {object}"), &object)
}

/// The same for who has been told what.
pub fn beside(broken: &Broken, end: &str, object: &str) -> String {
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
    let (address, start) = (number(&broken.address), number(&broken.object));
    match (broken.what, address.checked_sub(start.saturating_add(broken.size))) {
        (Guarded::FreedBlock, _) => {
            format!("{} bytes into {object} that had been given back", address.saturating_sub(start))
        }
        (_, Some(0)) => format!("right behind {end}"),
        (_, Some(distance)) => format!("{distance} bytes past {end}"),
        (_, None) => format!("{} bytes before {object}", start.saturating_sub(address)),
    }
}

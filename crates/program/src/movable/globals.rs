//! Global and static variables of the program, by its symbols.

use super::{Movable, MovablePlace, Movables, has_memory_operand, in_memory, instructions, is_plain};
use crate::elf::Image;
use crate::space::{Module, ModuleIdx};
use crate::variables::Variables;
use iced_x86::Mnemonic;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};

/// Smaller variables count only if they are known to be arrays.
const SCALAR: u64 = 8;
/// An index may be counted from so far before an array.
const BIAS: u64 = 17;

struct Found {
    name: String,
    size: u64,
    references: BTreeSet<u64>,
    ends: BTreeSet<u64>,
    /// Some word holds its address from the start.
    is_pointed_to: bool,
    stays: Option<&'static str>,
}

type Objects = BTreeMap<u64, Found>;

pub(super) fn find(variables: &Variables, module_idx: ModuleIdx, movables: &mut Movables) {
    let module = variables.space().module(module_idx);
    let Some(image) = module.image() else { return };
    let Some(file) = image.file() else { return };
    let mut objects = objects(image, module.debug_image().map(|image| &**image));
    if objects.is_empty() {
        movables.remarks.push("the program has no symbols: its global variables stay where they are".to_owned());
        return;
    }
    let is_loaded = file.kind() == object::ObjectKind::Dynamic && file.section_by_name(".interp").is_some();
    if !is_loaded || file.section_by_name(".relr.dyn").is_some() {
        let text = "nothing tells where the program holds addresses: its global variables stay where they are";
        movables.remarks.push(text.to_owned());
        return;
    }
    let exported: BTreeSet<u64> =
        file.dynamic_symbols().filter(|symbol| symbol.is_definition()).map(|symbol| symbol.address()).collect();
    for (address, object) in &mut objects {
        if exported.contains(address) {
            object.stays = Some("libraries know its address");
        }
    }
    refer(image, &mut objects);
    let pointers = pointers(image, &mut objects);
    movables.pointers = pointers.into_iter().map(|address| in_memory(module, address)).collect();
    for (address, object) in objects {
        add(variables, module, address, object, movables);
    }
}

fn add(variables: &Variables, module: &Module, address: u64, object: Found, movables: &mut Movables) {
    let place = in_memory(module, address);
    let is_array = || {
        let type_id = variables.global_at(place).and_then(|(global, _)| global.type_id);
        type_id.is_some_and(|type_id| variables.type_of(type_id).is_aggregate())
    };
    if object.size <= SCALAR && !is_array() || object.references.is_empty() && !object.is_pointed_to {
        return;
    }
    if let Some(reason) = object.stays {
        movables.fixed.push((object.name, reason));
        return;
    }
    let guest = |addresses: BTreeSet<u64>| addresses.into_iter().map(|address| in_memory(module, address)).collect();
    movables.globals.push(Movable {
        name: object.name,
        place: MovablePlace::Global(place),
        size: object.size,
        references: guest(object.references),
        ends: guest(object.ends),
    });
}

/// Variables in memory that the program may write to.
fn objects(image: &Image, debug_image: Option<&Image>) -> Objects {
    let mut objects = Objects::new();
    for file in [Some(image), debug_image].into_iter().flatten().filter_map(Image::file) {
        for symbol in file.symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Data) {
            let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
            let section = section.and_then(|section| section.name().ok().map(str::to_owned)).unwrap_or_default();
            let is_writable =
                section.starts_with(".bss") || section.starts_with(".data") && !section.starts_with(".data.rel.ro");
            let Ok(name) = symbol.name() else { continue };
            if is_writable && symbol.size() > 0 {
                let (name, size) = (name.to_owned(), symbol.size());
                let found = Found {
                    name,
                    size,
                    references: BTreeSet::new(),
                    ends: BTreeSet::new(),
                    is_pointed_to: false,
                    stays: None,
                };
                let known = objects.entry(symbol.address()).or_insert(found);
                known.size = known.size.max(symbol.size());
            }
        }
    }
    objects
}

fn covering(objects: &mut Objects, address: u64) -> Option<(u64, &mut Found)> {
    let (start, object) = objects.range_mut(..=address).next_back()?;
    (address < start + object.size).then_some((*start, object))
}

/// An address that lies in no variable, but right before one, means that: indices may be counted from there.
fn from_before(objects: &Objects, target: u64) -> u64 {
    let next = objects.range(target..target + BIAS).next();
    next.filter(|(_, object)| object.size > SCALAR).map_or(target, |(start, _)| *start)
}

/// Finds the instructions that name the variables.
fn refer(image: &Image, objects: &mut Objects) {
    let Some(text) = image.section(".text") else { return };
    let range = text.address..text.address + text.bytes.bytes().len() as u64;
    for instruction in instructions(image, &range) {
        if !instruction.is_ip_rel_memory_operand() || !has_memory_operand(&instruction) {
            continue;
        }
        let (pc, target) = (instruction.ip(), instruction.ip_rel_memory_address());
        let is_known = covering(objects, target).is_some() || covering(objects, target.wrapping_sub(1)).is_some();
        let target = if is_known { target } else { from_before(objects, target) };
        let is_shared = covering(objects, target).is_some_and(|(_, object)| {
            object.references.insert(pc);
            if !is_plain(&instruction) {
                object.stays = Some("a branch goes through it");
            }
            true
        });
        if instruction.mnemonic() == Mnemonic::Lea
            && let Some((start, object)) = target.checked_sub(1).and_then(|last| covering(objects, last))
            && start + object.size == target
        {
            if is_shared { &mut object.ends } else { &mut object.references }.insert(pc);
        }
    }
}

/// Words that hold addresses of variables from the start.
fn pointers(image: &Image, objects: &mut Objects) -> Vec<u64> {
    let Some(file) = image.file() else { return Vec::new() };
    let mut pointers = Vec::new();
    for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationTarget::Absolute = relocation.target() else { continue };
        if let Some((_, object)) = covering(objects, relocation.addend() as u64) {
            object.is_pointed_to = true;
            pointers.push(address);
        }
    }
    pointers
}

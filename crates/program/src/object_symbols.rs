//! Variables that the symbol tables name, for modules without debug information and for what it leaves out.

use std::collections::BTreeMap;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::declarations::FixedPlace;
use crate::elf::Image;
use crate::qualified_names::last_segment;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectSymbolEntry {
    /// Demangled.
    pub name: String,
    pub place: FixedPlace,
    pub size: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ObjectSymbols {
    /// Sorted by place; aliases follow each other.
    symbols: Vec<ObjectSymbolEntry>,
    by_name: BTreeMap<String, Vec<usize>>,
}

impl ObjectSymbols {
    pub fn load(images: &[&Image]) -> ObjectSymbols {
        let mut symbols: Vec<ObjectSymbolEntry> = images.iter().flat_map(|image| read(image)).collect();
        symbols.sort_by(|a, b| (a.place, &a.name, a.size).cmp(&(b.place, &b.name, b.size)));
        symbols.dedup_by(|later, first| later.place == first.place && later.name == first.name);
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (position, symbol) in symbols.iter().enumerate() {
            by_name.entry(last_segment(&symbol.name).to_owned()).or_default().push(position);
        }
        ObjectSymbols { symbols, by_name }
    }

    /// By the last segment of the name.
    pub fn named<'a>(&'a self, last_segment: &str) -> impl Iterator<Item = &'a ObjectSymbolEntry> {
        let positions = self.by_name.get(last_segment).map(Vec::as_slice).unwrap_or_default();
        positions.iter().map(|position| &self.symbols[*position])
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    /// The largest size that a symbol at exactly this place states.
    pub fn size_at(&self, place: FixedPlace) -> Option<u64> {
        let start = self.symbols.partition_point(|symbol| symbol.place < place);
        let here = self.symbols[start..].iter().take_while(|symbol| symbol.place == place);
        here.map(|symbol| symbol.size).max()
    }

    /// The variable that covers a place.
    pub fn covering(&self, place: FixedPlace) -> Option<&ObjectSymbolEntry> {
        let past = self.symbols.partition_point(|symbol| symbol.place <= place);
        // Aliases and nested symbols start close before.
        let mut candidates = self.symbols[..past].iter().rev().take(16);
        candidates.find(|symbol| symbol.place.distance_to(place).is_some_and(|distance| distance < symbol.size))
    }
}

fn read(image: &Image) -> Vec<ObjectSymbolEntry> {
    let Some(file) = image.file() else {
        return Vec::new();
    };
    let symbols = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.is_definition());
    let read = |symbol: object::read::elf::ElfSymbol64<'_, '_, object::LittleEndian>| {
        let place = match symbol.kind() {
            SymbolKind::Data => FixedPlace::Address(symbol.address()),
            SymbolKind::Tls => FixedPlace::ThreadLocal(symbol.address()),
            _ => return None,
        };
        // Versions are for the linker: `environ@@GLIBC_2.2.5`.
        let name = symbol.name().ok()?.split('@').next().filter(|name| !name.is_empty())?;
        let name = addr2line::demangle_auto(name.into(), None).into_owned();
        Some(ObjectSymbolEntry { name, place, size: symbol.size() })
    };
    symbols.filter_map(read).collect()
}

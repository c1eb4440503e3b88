//! Names from an ELF file's symbol tables.

use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolKind};

use crate::elf::Image;
use crate::space::FileVma;

/// A symbol as the file states it.
#[derive(Debug)]
struct Symbol {
    address: u64,
    size: u64,
    /// The end of the section that the symbol lies in.
    section_end: u64,
    name: String,
    rank: Rank,
}

/// Orders the names of one address, the one to show first. Among equals the shortest with the fewest underscores at the
/// front is what people call the thing: `puts`, not `_IO_puts`.
type Rank = (Binding, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Global,
    Weak,
    Local,
}

/// A symbol near an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Near<'a> {
    pub name: &'a str,
    pub offset: u64,
    pub size: u64,
}

/// The symbols of one kind, by address.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    /// Sorted by address, no two alike.
    symbols: Vec<Symbol>,
}

impl SymbolTable {
    /// Functions of the first image that has a full table, or else of the first that exports any.
    pub fn functions(images: &[&Image]) -> SymbolTable {
        SymbolTable::load(images, |kind| kind == SymbolKind::Text)
    }

    /// Global and static variables, thread-local ones left out: their addresses are offsets.
    pub fn objects(images: &[&Image]) -> SymbolTable {
        SymbolTable::load(images, |kind| kind == SymbolKind::Data)
    }

    fn load(images: &[&Image], wanted: fn(SymbolKind) -> bool) -> SymbolTable {
        let files: Vec<_> = images.iter().filter_map(|image| image.file()).collect();
        let full = files.iter().map(|file| collect(file, file.symbols(), wanted));
        let exported = files.iter().map(|file| collect(file, file.dynamic_symbols(), wanted));
        let symbols = full.chain(exported).find(|symbols| !symbols.is_empty()).unwrap_or_default();
        SymbolTable { symbols }
    }

    /// Where the symbols are, in ascending order.
    pub fn starts(&self) -> impl Iterator<Item = FileVma> + '_ {
        self.symbols.iter().map(|symbol| FileVma(symbol.address))
    }

    pub fn named(&self, name: &str) -> Option<FileVma> {
        self.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| FileVma(symbol.address))
    }

    /// The symbol that covers an address. One without a size reaches up to the next symbol of its section.
    pub fn covering(&self, address: FileVma) -> Option<Near<'_>> {
        let past = self.symbols.partition_point(|symbol| symbol.address <= address.0);
        let next = self.symbols.get(past).map_or(u64::MAX, |symbol| symbol.address);
        // Symbols can nest; one that covers the address starts close before it.
        let candidates = self.symbols[..past].iter().rev().take(16);
        let covers = |symbol: &&Symbol| {
            let end = if symbol.size == 0 { next.min(symbol.section_end) } else { symbol.end() };
            address.0 < end
        };
        candidates.filter(|symbol| symbol.address <= address.0).find(covers).map(|symbol| symbol.near(address))
    }

    /// The symbol that covers an address, or else the nearest one before it.
    pub fn covering_or_before(&self, address: FileVma) -> Option<Near<'_>> {
        let before = self.symbols.partition_point(|symbol| symbol.address <= address.0).checked_sub(1);
        self.covering(address).or_else(|| Some(self.symbols[before?].near(address)))
    }
}

impl Symbol {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    fn near(&self, address: FileVma) -> Near<'_> {
        Near { name: &self.name, offset: address.0 - self.address, size: self.size }
    }
}

type File<'data> = ElfFile64<'data, LittleEndian>;

fn collect<'data, 'file>(
    file: &'file File<'data>,
    symbols: impl Iterator<Item = ElfSymbol64<'data, 'file, LittleEndian>>,
    wanted: fn(SymbolKind) -> bool,
) -> Vec<Symbol> {
    let wanted = symbols.filter(|symbol| symbol.is_definition() && wanted(symbol.kind()));
    let mut found: Vec<Symbol> = wanted.filter_map(|symbol| read_symbol(file, &symbol)).collect();
    found.sort_by(|a, b| (a.address, a.rank, &a.name).cmp(&(b.address, b.rank, &b.name)));
    found.dedup_by_key(|symbol| symbol.address);
    found
}

fn read_symbol(file: &File<'_>, symbol: &ElfSymbol64<'_, '_, LittleEndian>) -> Option<Symbol> {
    let section = symbol.section_index().and_then(|index| section_end(file, index));
    let raw = symbol.name().ok().filter(|name| !name.is_empty())?;
    // Versions are for the linker: `memcpy@@GLIBC_2.14`.
    let name = raw.split('@').next().filter(|name| !name.is_empty()).unwrap_or(raw);
    let binding = match () {
        () if symbol.is_weak() => Binding::Weak,
        () if symbol.is_global() => Binding::Global,
        () => Binding::Local,
    };
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
    Some(Symbol {
        address: symbol.address(),
        size: symbol.size(),
        section_end: section.unwrap_or(u64::MAX),
        rank: (binding, underscores, name.len()),
        name: name.to_owned(),
    })
}

fn section_end(file: &File<'_>, index: SectionIndex) -> Option<u64> {
    let section = file.section_by_index(index).ok()?;
    section.address().checked_add(section.size())
}

//! What the caller knows of instructions, and their numbers.

use rustc_hash::FxHashMap;
use trace::stream::Site;

/// What the accesses of an instruction are to a race detector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum SiteClass {
    #[default]
    Plain,
    /// From an atomic operation of the source: its memory is synchronisation.
    Atomic,
    /// Of no concern, as the C library's accesses to what is its own.
    Ignored,
}

/// Tells what kind of instruction stands at an address. Asked once for each site.
pub type Classify = Box<dyn FnMut(u64) -> SiteClass + Send>;

/// Site numbers from here on stand for instructions that gave back blocks.
const FREEING: u32 = 1 << 31;

pub struct Sites {
    classify: Classify,
    classes: Vec<SiteClass>,
    pcs: Vec<u64>,
    freeing: Vec<u64>,
    freeing_numbers: FxHashMap<u64, u32>,
}

impl Sites {
    pub fn new(classify: Classify) -> Sites {
        Sites {
            classify,
            classes: Vec::new(),
            pcs: Vec::new(),
            freeing: Vec::new(),
            freeing_numbers: FxHashMap::default(),
        }
    }

    pub fn name(&mut self, site: Site, pc: u64) {
        let index = site.0 as usize;
        if self.pcs.len() <= index {
            self.pcs.resize(index + 1, 0);
            self.classes.resize(index + 1, SiteClass::Plain);
        }
        self.pcs[index] = pc;
        self.classes[index] = (self.classify)(pc);
    }

    #[inline]
    pub fn class(&self, site: Site) -> SiteClass {
        self.classes.get(site.0 as usize).copied().unwrap_or_default()
    }

    /// The number that stands for an instruction that gives back a block.
    pub fn freeing(&mut self, pc: u64) -> u32 {
        *self.freeing_numbers.entry(pc).or_insert_with(|| {
            self.freeing.push(pc);
            FREEING + self.freeing.len() as u32 - 1
        })
    }

    /// Where a site is, and which of the stream's it is, if it is one of them.
    pub fn place(&self, number: u32) -> (u64, Option<Site>) {
        match number.checked_sub(FREEING) {
            Some(index) => (self.freeing.get(index as usize).copied().unwrap_or(0), None),
            None => (self.pcs.get(number as usize).copied().unwrap_or(0), Some(Site(number))),
        }
    }
}

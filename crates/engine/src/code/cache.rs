//! The code cache: which guest addresses are translated where, how to leave, and what a place in the cache means.
//!
//! Only the thread that has the turn touches the cache, and every other thread is outside translated code and comes
//! back by guest address. So units can be dropped at any moment: a dropped unit's entries are overwritten with a jump
//! to a fresh exit, which catches every way in (links, fall-through, lookup prefixes) without a list of who links where.

mod bare_calls;
mod demands;
mod gates;
mod hot_units;
mod links;
mod lookups;
mod meaning;
mod sequels;
mod tellings;

use crate::code::assembler::Assembler;
use crate::code::hot::{Guard, Heat, HotPaths};
use crate::code::memory::{BranchTable, CodeMemory, Mark, RegionName};
use crate::code::observe::notes::Notes;
use crate::code::observe::quiet::QuietFunctions;
use crate::code::observe::sparing::Spared;
use crate::code::observe::{Catalogue, Chosen, MarkTable};
use crate::code::path::{GuestCode, Limits, Path, decode_at};
use crate::code::points::Points;
use crate::code::stubs::Stubs;
use crate::code::translate::{self, Output};
use crate::context::Layout;
use crate::processor::features::Beyond;
use gates::Gates;
use hot_units::ToldForAWhile;
use iced_x86::{Encoder, FlowControl, InstructionInfoFactory};
use links::Links;
use rustc_hash::FxHashMap;
use sequels::Sequels;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tellings::Tellings;

pub use meaning::{Counting, Disturbance, Exit, Observed, Step, Trap, Window};

/// One translated path.
struct Unit {
    host: Range<u64>,
    steps: Range<usize>,
    entries: Vec<(u64, u64)>,
    live: bool,
}

/// Counters for `--stats`.
#[derive(Clone, Copy, Default, Debug)]
pub struct CacheStats {
    pub units: u64,
    pub instructions: u64,
    pub flushes: u64,
    pub invalidated: u64,
    pub hot_paths: u64,
    pub translation: std::time::Duration,
}

pub struct CodeCache {
    pub(super) memory: CodeMemory,
    pub(super) table: BranchTable,
    pub(super) layout: Layout,
    pub(super) stubs: Stubs,
    pub(super) encoder: Encoder,
    pub(super) factory: InstructionInfoFactory,
    /// Those on the last path, whose memory serves for the next.
    pub(super) notes: Option<Notes>,
    pub stats: CacheStats,
    limits: Limits,
    /// Host entry of every translated block.
    entries: FxHashMap<u64, u64>,
    /// Lookup prefixes by guest address.
    prefixes: FxHashMap<u64, u64>,
    exits: Vec<Exit>,
    units: Vec<Unit>,
    steps: Vec<Step>,
    pages: FxHashMap<u64, Vec<u32>>,
    new_pages: Vec<u64>,
    empty: Mark,
    generation: u64,
    assembler: Assembler,
    exit_assembler: Assembler,
    /// The unit under translation is not to be found again.
    anonymous: bool,
    stop_at: Option<u64>,
    /// The unit under translation comes back at every branch.
    detached: bool,
    /// Where hot paths that count several events at once have a translation that counts one after the other.
    twins: FxHashMap<u64, u64>,
    /// Straight runs up to a branch, by where they begin and end.
    approaches: FxHashMap<(u64, u64), u64>,
    heat: Heat,
    hot_paths: HotPaths,
    /// Hot paths that some instruction on them keeps from being taken just now.
    resting_paths: Vec<Path>,
    /// Units that tell something, and will do so now and then.
    told_for_a_while: Vec<ToldForAWhile>,
    gates: Gates,
    links: Links,
    /// What observed units write down; none if nobody asked.
    catalogue: Option<Catalogue>,
    /// Where they write registers too.
    marks: MarkTable,
    /// The instructions that more is wanted of than of others.
    chosen: Option<Chosen>,
    /// Functions whose calls are not told.
    quiet: QuietFunctions,
    /// What is told right behind some instructions.
    sequels: Sequels,
    /// Which of the chosen instructions are told just now.
    pub tellings: Tellings,
    /// What becomes of records, if not all of them are told.
    spared: Option<Spared>,
    /// One instruction at a time, never linked: for counting the slow, obvious way.
    pub single_steps: bool,
    /// Instructions whose outcome the machine decides leave.
    pub intercepts: bool,
    /// The components that instructions of the XSAVE family are kept to.
    pub(super) state_limit: Option<u32>,
    /// What the guest was not shown and uses all the same.
    pub beyond: Option<Beyond>,
    /// Whether `xgetbv` leaves too, as it does where the guest was shown a processor.
    pub(super) intercepts_state: bool,
    /// Instructions before which translated code leaves.
    places: BTreeSet<u64>,
    /// Instructions that are events of the clock besides branches; the same from the first unit on.
    pub points: Points,
    /// Where stores leave.
    pub(super) watched: Vec<Window>,
    /// Memory before accesses to which translated code leaves.
    pub(super) alarms: Option<AlarmMaps>,
    /// Translations of single instructions that are stepped over again and again.
    kept_steps: FxHashMap<u64, u64>,
    /// The unit under translation is one of these.
    keeps_step: bool,
    /// Instructions whose memory operand means another place, by how far that is.
    moved: BTreeMap<u64, i64>,
    /// Translations were forgotten since somebody began to ask what has run.
    has_forgotten: bool,
}

const PAGE: u64 = 4096;
/// A unit never needs more than this of any region.
const ROOM: u64 = 128 << 10;
/// An upper bound of one exit stub's length.
const EXIT_SIZE: u64 = 64;
/// Maps of a byte for each value of the low half of an address: those for accesses of one byte, of up to eight, and of
/// more; for accesses that only read, if they matter, and for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlarmMaps {
    pub reads: Option<[u64; 3]>,
    pub writes: [u64; 3],
}

/// Of a branch that always comes back to the engine.
pub(super) const NO_LINK: u64 = 0;

impl CodeCache {
    pub fn new(memory: CodeMemory, table: BranchTable, limits: Limits) -> CodeCache {
        let layout = Layout::find();
        let mut assembler = Assembler::new(memory.cold.next());
        let stubs = Stubs::assemble(&mut assembler, layout);
        let mut cache = CodeCache {
            empty: memory.mark(),
            memory,
            table,
            layout,
            stubs,
            encoder: Encoder::new(64),
            factory: InstructionInfoFactory::new(),
            notes: None,
            stats: CacheStats::default(),
            limits,
            entries: FxHashMap::default(),
            prefixes: FxHashMap::default(),
            exits: vec![Exit::Indirect, Exit::Interrupted, Exit::Fault],
            units: Vec::new(),
            steps: Vec::new(),
            pages: FxHashMap::default(),
            new_pages: Vec::new(),
            generation: 0,
            assembler: Assembler::new(0),
            exit_assembler: Assembler::new(0),
            anonymous: false,
            stop_at: None,
            detached: false,
            twins: FxHashMap::default(),
            approaches: FxHashMap::default(),
            heat: Heat::default(),
            hot_paths: HotPaths::default(),
            resting_paths: Vec::new(),
            told_for_a_while: Vec::new(),
            gates: Gates::default(),
            links: Links::default(),
            catalogue: None,
            marks: MarkTable::default(),
            chosen: None,
            quiet: QuietFunctions::default(),
            sequels: Sequels::default(),
            tellings: Tellings::default(),
            spared: None,
            single_steps: false,
            intercepts: false,
            state_limit: None,
            beyond: None,
            intercepts_state: false,
            places: BTreeSet::new(),
            points: Points::default(),
            watched: Vec::new(),
            alarms: None,
            kept_steps: FxHashMap::default(),
            keeps_step: false,
            moved: BTreeMap::new(),
            has_forgotten: false,
        };
        cache.memory.append(RegionName::Cold, assembler.bytes());
        cache.empty = cache.memory.mark();
        cache.table.fill(stubs.indirect_miss);
        cache
    }

    pub fn stubs(&self) -> Stubs {
        self.stubs
    }

    pub fn exit(&self, number: u64) -> Exit {
        self.exits[number as usize]
    }

    pub fn code_bytes(&self) -> u64 {
        self.memory.hot.used() + self.memory.warm.used() + self.memory.cold.used() + self.memory.constants.used()
    }

    /// Everything that the guest must not map over.
    pub fn ranges(&self) -> [Range<u64>; 2] {
        [self.memory.range(), self.table.range()]
    }

    /// The translation of `pc`, made now if there is none.
    pub fn host_for(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        match self.entries.get(&pc) {
            Some(&host) => host,
            None => {
                self.make_room();
                self.memory.align(RegionName::Hot, 16);
                self.translate(code, pc)
            }
        }
    }

    /// A translation of the one instruction at `pc` that nothing else will ever reach: for an instruction that changes
    /// the page it is on.
    pub fn host_for_once(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        self.make_room();
        let limits = std::mem::replace(&mut self.limits, Limits { instructions: 1, branches: 1 });
        self.anonymous = true;
        let host = self.translate(code, pc);
        self.anonymous = false;
        self.limits = limits;
        host
    }

    /// The same without observation, coming back right behind it, for an instruction that the engine observes itself.
    pub fn host_for_step(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        let catalogue = self.catalogue.take();
        let single_steps = std::mem::replace(&mut self.single_steps, true);
        self.detached = true;
        let host = self.host_for_once(code, pc);
        self.detached = false;
        self.single_steps = single_steps;
        self.catalogue = catalogue;
        host
    }

    /// The same, kept for the next time.
    pub fn host_for_kept_step(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        if let Some(&host) = self.kept_steps.get(&pc) {
            return host;
        }
        self.keeps_step = true;
        let host = self.host_for_step(code, pc);
        self.keeps_step = false;
        self.kept_steps.insert(pc, host);
        host
    }

    /// The same with observation: for an instruction that others leave before.
    pub fn host_past(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        let single_steps = std::mem::replace(&mut self.single_steps, true);
        let host = self.host_for_once(code, pc);
        self.single_steps = single_steps;
        host
    }

    /// A translation of the straight run from `pc` up to the branch at `end`, for a thread that is to stop right there.
    pub fn host_up_to(&mut self, code: &dyn GuestCode, pc: u64, end: u64) -> u64 {
        if let Some(&host) = self.approaches.get(&(pc, end)) {
            return host;
        }
        self.make_room();
        self.anonymous = true;
        self.stop_at = Some(end);
        let host = self.translate(code, pc);
        self.stop_at = None;
        self.anonymous = false;
        self.approaches.insert((pc, end), host);
        host
    }

    /// A translation of `pc` that counts one event at a time, for a thread whose budget is nearly used up.
    pub fn host_for_last_events(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        match self.twins.get(&pc) {
            Some(&host) => host,
            None => self.host_for_once(code, pc),
        }
    }

    pub(super) fn is_detached(&self) -> bool {
        self.detached
    }

    /// Where the unit under translation must end, if not where it likes.
    pub(super) fn stop_at(&self) -> Option<u64> {
        self.stop_at
    }

    /// Translates the target of a direct branch and links the branch to it.
    pub fn link(&mut self, code: &dyn GuestCode, target: u64, link: u64) -> u64 {
        let generation = self.generation;
        let host = self.host_for(code, target);
        if generation == self.generation && !self.single_steps && link != NO_LINK {
            self.memory.aim(link, host);
            self.links.add(link, target);
        }
        host
    }

    fn make_room(&mut self) {
        let memory = &self.memory;
        if [&memory.hot, &memory.warm, &memory.cold, &memory.constants].iter().any(|region| region.left() < ROOM) {
            self.flush();
        }
    }

    /// From now on, what runs is what is translated.
    pub fn begin_to_remember(&mut self) {
        self.has_forgotten = false;
    }

    /// The instructions that have a translation, of which those are some that have run since
    /// [`CodeCache::begin_to_remember`]; none if that is not known.
    pub fn remembered(&self) -> Option<impl Iterator<Item = u64> + '_> {
        (!self.has_forgotten).then(|| self.steps.iter().map(|step| step.pc))
    }

    /// Where units begin, in order.
    pub fn beginnings(&self) -> Vec<u64> {
        let mut beginnings: Vec<u64> = self.entries.keys().copied().collect();
        beginnings.sort_unstable();
        beginnings
    }

    /// Forgets every translation.
    pub fn flush(&mut self) {
        self.has_forgotten = true;
        self.stats.flushes += 1;
        self.generation += 1;
        self.entries.clear();
        self.prefixes.clear();
        self.exits.truncate(3);
        self.units.clear();
        self.steps.clear();
        self.pages.clear();
        self.twins.clear();
        self.approaches.clear();
        self.kept_steps.clear();
        self.sequels.clear();
        self.heat = Heat::default();
        self.hot_paths = HotPaths::default();
        self.resting_paths.clear();
        self.told_for_a_while.clear();
        self.gates.clear();
        self.links.clear();
        self.memory.rewind(self.empty);
        self.table.fill(self.stubs.indirect_miss);
    }

    fn translate(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        let limits = self.limits;
        self.emit(|cache, asm| translate::unit(cache, asm, code, pc, limits)).0
    }

    /// Makes a unit; tells where it begins and where it foresees targets.
    fn emit(&mut self, unit: impl FnOnce(&mut CodeCache, &mut Assembler) -> Output) -> (u64, Vec<Guard>) {
        let started = std::time::Instant::now();
        let first_step = self.steps.len();
        let mut asm = std::mem::take(&mut self.assembler);
        asm.restart(self.memory.hot.next());
        let mut output = unit(self, &mut asm);
        let host = self.memory.append(RegionName::Hot, asm.bytes());
        let end = host + asm.bytes().len() as u64;
        self.assembler = asm;
        let guards = std::mem::take(&mut output.guards);
        self.register(output, host..end, first_step);
        self.stats.translation += started.elapsed();
        (host, guards)
    }

    fn register(&mut self, output: Output, host: Range<u64>, first_step: usize) {
        let number = self.units.len() as u32;
        let mut last_page = u64::MAX;
        let findable = if self.anonymous && !self.keeps_step { &[] } else { &self.steps[first_step..] };
        for step in findable {
            // An instruction may cross into the next page.
            for page in [step.pc / PAGE, (step.pc + 14) / PAGE] {
                if page != last_page {
                    last_page = page;
                    let units = self.pages.entry(page).or_default();
                    if units.is_empty() {
                        self.new_pages.push(page);
                    }
                    if units.last() != Some(&number) {
                        units.push(number);
                    }
                }
            }
        }
        self.stats.units += 1;
        self.stats.instructions += output.instructions as u64;
        self.lead_to(&output.entries);
        self.units.push(Unit { host, steps: first_step..self.steps.len(), entries: output.entries, live: true });
    }

    /// Leads all jumps to these new translations.
    fn lead_to(&mut self, entries: &[(u64, u64)]) {
        // Whoever is to count one event at a time has a translation of its own, which nobody is led to.
        for (pc, host) in entries.iter().filter(|(pc, host)| self.entries.get(pc) == Some(host)) {
            for link in self.links.to(*pc) {
                self.memory.aim(*link, *host);
            }
        }
    }

    /// The jump whose displacement is at `link` leads to a translation of `pc`.
    pub(super) fn add_link(&mut self, link: u64, pc: u64) {
        self.links.add(link, pc);
    }

    /// Tells what the next place of the unit under translation means.
    pub(super) fn add_step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// What the last place means.
    pub(super) fn last_step(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// Tells where a block of the unit under translation begins.
    pub(super) fn add_entry(&mut self, pc: u64, host: u64) {
        self.entries.insert(pc, host);
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.anonymous
    }

    pub(super) fn entry(&self, pc: u64) -> Option<u64> {
        self.entries.get(&pc).copied()
    }

    /// Makes an exit stub in the cold region. `restore` loads the guest's registers back that are out of place.
    pub(super) fn emit_exit(&mut self, exit: Exit, restore: impl FnOnce(&mut Assembler)) -> u64 {
        let number = self.exits.len() as u64;
        self.exits.push(exit);
        let mut asm = std::mem::take(&mut self.exit_assembler);
        asm.restart(self.memory.cold.next());
        restore(&mut asm);
        asm.store_slot(self.layout.gpr(0), 0);
        asm.load_constant(0, number);
        asm.jump(self.stubs.leave);
        let stub = self.memory.append(RegionName::Cold, asm.bytes());
        self.exit_assembler = asm;
        stub
    }

    /// Places an eight-byte constant near the code.
    pub(super) fn emit_constant(&mut self, value: u64) -> u64 {
        self.memory.append(RegionName::Constants, &value.to_le_bytes())
    }

    /// Pages that units were translated from for the first time since the last call.
    pub fn take_new_pages(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.new_pages)
    }

    /// Drops every unit that was translated from `range`.
    pub fn invalidate(&mut self, range: Range<u64>) {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let mut hit: Vec<u64> = if pages.end - pages.start > self.pages.len() as u64 {
            self.pages.keys().copied().filter(|page| pages.contains(page)).collect()
        } else {
            pages.filter(|page| self.pages.contains_key(page)).collect()
        };
        hit.sort_unstable();
        if !hit.is_empty() {
            self.heat.forget(&range);
            self.spared.iter_mut().for_each(|spared| spared.forget(&range));
            self.hot_paths.forget(&range);
            self.resting_paths.retain(|path| !path.touches(&range));
            self.quiet.forget();
        }
        self.drop_pages(hit);
    }

    /// Drops every unit that was translated from these pages.
    fn drop_pages(&mut self, pages: impl IntoIterator<Item = u64>) {
        let units = pages.into_iter().flat_map(|page| self.pages.remove(&page).unwrap_or_default());
        let units: Vec<u32> = units.collect();
        self.drop_units(units);
    }

    /// Drops every unit that has one of these instructions, and those that end right before such a unit: together they may make one.
    fn drop_units_with(&mut self, code: &dyn GuestCode, instructions: &BTreeSet<u64>) {
        let pages: BTreeSet<u64> = instructions.iter().map(|pc| pc / PAGE).collect();
        let units: BTreeSet<u32> = pages.iter().filter_map(|page| self.pages.get(page)).flatten().copied().collect();
        let steps = |unit: u32| &self.steps[self.units[unit as usize].steps.clone()];
        let is_live = |unit: &u32| self.units[*unit as usize].live;
        let has_one = |unit: &u32| steps(*unit).iter().any(|step| instructions.contains(&step.pc));
        let (mut dropped, others): (Vec<u32>, Vec<u32>) = units.into_iter().filter(is_live).partition(has_one);
        let heads: BTreeSet<u64> = dropped.iter().filter_map(|unit| steps(*unit).first()).map(|step| step.pc).collect();
        let runs_into_one = |unit: &u32| {
            let last = steps(*unit).last().and_then(|step| decode_at(code, step.pc).ok());
            last.is_some_and(|last| last.flow_control() == FlowControl::Next && heads.contains(&last.next_ip()))
        };
        dropped.extend(others.into_iter().filter(runs_into_one));
        self.resting_paths.extend(self.hot_paths.take_through(instructions));
        self.drop_units(dropped);
    }

    fn drop_units(&mut self, units: Vec<u32>) {
        if units.is_empty() {
            return;
        }
        self.approaches.clear();
        let entries: usize = units.iter().map(|&unit| self.units[unit as usize].entries.len()).sum();
        if self.memory.cold.left() < ROOM + entries as u64 * EXIT_SIZE {
            return self.flush();
        }
        for unit in units {
            self.drop_unit(unit as usize);
        }
        self.forget_dropped_steps();
    }

    /// Forgets units that only their hosts are known of, if they have been dropped.
    fn forget_dropped_steps(&mut self) {
        let mut kept_steps = std::mem::take(&mut self.kept_steps);
        kept_steps.retain(|_, host| self.is_live(*host));
        self.kept_steps = kept_steps;
        let mut sequels = std::mem::take(&mut self.sequels);
        sequels.retain(|host| self.is_live(host));
        self.sequels = sequels;
    }

    fn is_live(&self, host: u64) -> bool {
        self.unit_around(host).is_some_and(|number| self.units[number].live)
    }

    fn drop_unit(&mut self, number: usize) {
        if !std::mem::replace(&mut self.units[number].live, false) {
            return;
        }
        self.stats.invalidated += 1;
        let entries = std::mem::take(&mut self.units[number].entries);
        for &(pc, host) in &entries {
            for known in [&mut self.entries, &mut self.twins] {
                if known.get(&pc) == Some(&host) {
                    known.remove(&pc);
                }
            }
            // The entry becomes an ordinary unlinked jump; its exit links it to the new translation.
            let mut asm = Assembler::new(host);
            let stub = self.emit_exit(Exit::Direct { target: pc, link: host + 1 }, |_| {});
            asm.jump(stub);
            self.memory.write(host, asm.bytes());
            self.links.overwrite(host, pc);
        }
    }

    /// Drops the unit that has the translation of `pc`.
    fn drop_unit_at(&mut self, pc: u64) {
        if let Some(number) = self.entry(pc).and_then(|host| self.unit_around(host)) {
            self.drop_unit(number);
        }
    }

    /// The number of the unit that a place in the cache lies in.
    fn unit_around(&self, host: u64) -> Option<usize> {
        let number = self.units.partition_point(|unit| unit.host.start <= host).checked_sub(1)?;
        self.units[number].host.contains(&host).then_some(number)
    }

    /// What the place `host` in the cache means, if it lies in a translated unit.
    pub fn find(&self, host: u64) -> Option<Step> {
        let unit = &self.units[self.unit_around(host)?];
        let steps = &self.steps[unit.steps.clone()];
        let index = steps.partition_point(|step| step.host <= host).checked_sub(1)?;
        Some(steps[index])
    }

    /// Where the next step begins, in the same unit.
    pub fn find_next(&self, host: u64) -> Option<u64> {
        let number = self.units.partition_point(|unit| unit.host.start <= host).checked_sub(1)?;
        let steps = &self.steps[self.units[number].steps.clone()];
        steps.get(steps.partition_point(|step| step.host <= host)).map(|step| step.host)
    }

    #[cfg(test)]
    pub fn contains(&self, host: u64) -> bool {
        self.memory.range().contains(&host)
    }
}

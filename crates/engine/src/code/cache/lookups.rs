//! How indirect branches find units: prefixes in front of them, and the chains that share a table's entry.

use super::CodeCache;
use crate::code::assembler::Assembler;
use crate::code::memory::RegionName;
use crate::code::path::GuestCode;
use crate::code::translate;

impl CodeCache {
    /// Makes `pc` reachable by indirect branches and returns its translation.
    pub fn host_for_indirect(&mut self, code: &dyn GuestCode, pc: u64) -> u64 {
        if self.single_steps || self.prefixes.contains_key(&pc) {
            return self.host_for(code, pc);
        }
        self.make_room();
        let known = self.entries.get(&pc).copied();
        let region = if known.is_some() { RegionName::Warm } else { RegionName::Hot };
        let prefix = self.emit_prefix(region, pc);
        let host = match known {
            Some(host) => {
                let mut asm = Assembler::new(self.memory.warm.next());
                asm.jump(host);
                let jump = self.memory.append(RegionName::Warm, asm.bytes());
                self.links.add(jump + 1, pc);
                host
            }
            None => self.translate(code, pc),
        };
        self.prefixes.insert(pc, prefix);
        self.table.set(pc, prefix);
        host
    }

    /// The check in front of an indirectly reached unit: RCX holds the wanted address, and on a mismatch the chain of
    /// units that share the table entry goes on.
    fn emit_prefix(&mut self, region: RegionName, pc: u64) -> u64 {
        let next_in_chain = self.table.get(pc);
        let mut miss = Assembler::new(self.memory.cold.next());
        translate::prefix_miss(&mut miss, pc, next_in_chain);
        let miss_at = self.memory.append(RegionName::Cold, miss.bytes());
        self.memory.align(region, 16);
        let base = match region {
            RegionName::Warm => self.memory.warm.next(),
            _ => self.memory.hot.next(),
        };
        let mut asm = Assembler::new(base);
        let prefix = translate::prefix_check(&mut asm, self.layout, pc, miss_at);
        self.memory.append(region, asm.bytes());
        prefix
    }
}

//! Instructions that come to the same memory, where threads have met.

use super::chunks::Chunks;
use std::collections::BTreeMap;

/// Memory is told apart in lines of so many bytes.
pub(super) const LINE: u64 = 64;
/// A chunk is for a megabyte.
const CHUNK: usize = (1 << 20) / LINE as usize;

/// An instruction that stands for a group, by its number; [`NOBODY`] where there is no group.
pub(super) type Member = u32;
pub(super) const NOBODY: Member = Member::MAX;

/// Which instructions belong together, by their numbers.
#[derive(Default)]
pub(super) struct Groups {
    /// Another member, nearer to the one that stands for the group; [`NOBODY`] for those that are in none.
    nearer: Vec<Member>,
    /// One more than a member of those that come there; zero for none.
    lines: Chunks<u32, CHUNK>,
}

impl Groups {
    /// An instruction that is known to belong to a group comes to memory where threads have met. Gives who stands for it now.
    #[inline]
    pub fn come(&mut self, group: Member, instruction: u32, (address, size): (u64, u64)) -> Member {
        let last = address.saturating_add(size.max(1) - 1);
        let mut member = group;
        for line in address / LINE..=last / LINE {
            if *self.lines.at(line) != member.wrapping_add(1) || member == NOBODY {
                member = self.come_to_line(instruction, line);
            }
        }
        member
    }

    #[cold]
    fn come_to_line(&mut self, instruction: u32, line: u64) -> Member {
        let member = match self.lines.at(line).checked_sub(1) {
            Some(other) => self.join(instruction, other),
            None => self.of(instruction),
        };
        *self.lines.at(line) = member + 1;
        member
    }

    /// The memory is another one from now on.
    pub fn forget(&mut self, address: u64, size: u64) {
        let last = address.saturating_add(size.max(1) - 1);
        self.lines.for_each_known(address / LINE..=last / LINE, |_, member| *member = 0);
    }

    /// Who stands for the group of an instruction. There is one from now on.
    fn of(&mut self, instruction: u32) -> Member {
        let length = self.nearer.len().max(instruction as usize + 1);
        self.nearer.resize(length, NOBODY);
        if self.nearer[instruction as usize] == NOBODY {
            self.nearer[instruction as usize] = instruction;
        }
        let mut at = instruction;
        while self.nearer[at as usize] != at {
            let next = self.nearer[at as usize];
            self.nearer[at as usize] = self.nearer[next as usize];
            at = next;
        }
        at
    }

    /// Two instructions belong together. Gives who stands for both.
    pub fn join(&mut self, one: u32, other: u32) -> Member {
        let (one, other) = (self.of(one), self.of(other));
        let (first, second) = (one.min(other), one.max(other));
        self.nearer[second as usize] = first;
        first
    }

    /// All groups, with the names of their members.
    pub fn named(mut self, name: impl Fn(u32) -> u64) -> Vec<Vec<u64>> {
        let mut groups: BTreeMap<Member, Vec<u64>> = BTreeMap::new();
        for instruction in 0..self.nearer.len() as u32 {
            if self.nearer[instruction as usize] != NOBODY {
                groups.entry(self.of(instruction)).or_default().push(name(instruction));
            }
        }
        let mut groups: Vec<Vec<u64>> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_unstable();
            group.dedup();
        }
        groups.sort_unstable();
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_joined_is_in_one_group() {
        let mut groups = Groups::default();
        groups.of(7);
        for (one, other) in [(1, 2), (5, 4), (2, 4), (9, 9)] {
            groups.join(one, other);
        }
        assert_eq!(groups.of(5), groups.of(1));
        assert_eq!(groups.named(|number| u64::from(number) * 10), [vec![10, 20, 40, 50], vec![70], vec![90]]);
    }

    #[test]
    fn who_comes_to_the_same_memory_is_in_one_group() {
        let mut groups = Groups::default();
        let first = groups.come(NOBODY, 3, (60, 8));
        assert_eq!(groups.come(first, 3, (60, 8)), first);
        groups.come(NOBODY, 4, (64, 1));
        groups.come(NOBODY, 5, (128, 4));
        groups.forget(100, 100);
        groups.come(NOBODY, 6, (128, 4));
        assert_eq!(groups.named(u64::from), [vec![3, 4], vec![5], vec![6]]);
    }
}

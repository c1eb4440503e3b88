//! Instructions that come to the same memory, where threads have met.

use std::collections::BTreeMap;

/// A member of a group, by number; one that is in none has no number yet.
pub(super) type Member = u32;

/// Which instructions belong together, by their numbers.
#[derive(Default)]
pub(super) struct Groups {
    /// One more than another member, nearer to the one that stands for the group; zero for those that are in no group.
    nearer: Vec<Member>,
}

impl Groups {
    /// Who stands for the group of an instruction. There is one from now on.
    pub fn of(&mut self, instruction: u32) -> Member {
        let length = self.nearer.len().max(instruction as usize + 1);
        self.nearer.resize(length, 0);
        if self.nearer[instruction as usize] == 0 {
            self.nearer[instruction as usize] = instruction + 1;
        }
        let mut at = instruction;
        while self.nearer[at as usize] != at + 1 {
            let next = self.nearer[at as usize] - 1;
            self.nearer[at as usize] = self.nearer[next as usize];
            at = next;
        }
        at
    }

    /// Two instructions belong together. Gives who stands for both.
    pub fn join(&mut self, one: u32, other: u32) -> Member {
        let (one, other) = (self.of(one), self.of(other));
        let (first, second) = (one.min(other), one.max(other));
        self.nearer[second as usize] = first + 1;
        first
    }

    /// All groups, with the names of their members.
    pub fn named(mut self, name: impl Fn(u32) -> u64) -> Vec<Vec<u64>> {
        let mut groups: BTreeMap<Member, Vec<u64>> = BTreeMap::new();
        for instruction in 0..self.nearer.len() as u32 {
            if self.nearer[instruction as usize] != 0 {
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
}

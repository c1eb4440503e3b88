//! Which nodes of a graph every way to a node passes.
//!
//! The iteration of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm"): nodes in reverse postorder, each
//! node's dominator the nearest common one of its predecessors', until nothing changes.

use super::Block;

/// The dominator tree of the nodes that can be reached from one.
#[derive(Clone, Debug)]
pub(super) struct Dominators {
    root: usize,
    /// The root's is itself; a node that is not reached has none.
    immediate: Vec<Option<usize>>,
}

impl Dominators {
    pub(super) fn of(successors: &[Vec<usize>], root: usize) -> Dominators {
        let order = postorder(successors, root);
        let mut rank = vec![None; successors.len()];
        for (place, node) in order.iter().enumerate() {
            rank[*node] = Some(place);
        }
        let predecessors = reversed(successors);
        let mut dominators = Dominators { root, immediate: vec![None; successors.len()] };
        dominators.immediate[root] = Some(root);
        while dominators.improve(&order, &rank, &predecessors) {}
        dominators
    }

    /// Once through all nodes; whether something changed.
    fn improve(&mut self, order: &[usize], rank: &[Option<usize>], predecessors: &[Vec<usize>]) -> bool {
        let mut changed = false;
        for node in order.iter().rev().copied().filter(|node| *node != self.root) {
            let known = predecessors[node].iter().copied().filter(|before| self.immediate[*before].is_some());
            let nearest = known.reduce(|one, other| self.common(one, other, rank));
            if nearest != self.immediate[node] {
                self.immediate[node] = nearest;
                changed = true;
            }
        }
        changed
    }

    /// The nearest node that dominates both, of which the dominators are known up to the root.
    fn common(&self, mut one: usize, mut other: usize, rank: &[Option<usize>]) -> usize {
        while one != other {
            let later = if rank[one] < rank[other] { &mut one } else { &mut other };
            *later = self.immediate[*later].unwrap_or(self.root);
        }
        one
    }

    pub(super) fn immediate(&self, node: usize) -> Option<usize> {
        self.immediate[node].filter(|_| node != self.root)
    }

    pub(super) fn dominates(&self, other: usize, node: usize) -> bool {
        self.immediate[node].is_some()
            && std::iter::successors(Some(node), |node| self.immediate(*node)).any(|node| node == other)
    }
}

/// The dominators of the reversed graph, from a virtual exit whose number is that past the last block.
pub(super) fn post_dominators(blocks: &[Block]) -> Dominators {
    let exit = blocks.len();
    let mut forward: Vec<Vec<usize>> = blocks.iter().map(|block| block.successors.clone()).collect();
    for (idx, block) in blocks.iter().enumerate().filter(|(_, block)| block.leaves) {
        debug_assert!(block.successors.iter().all(|next| *next < exit));
        forward[idx].push(exit);
    }
    forward.push(Vec::new());
    let mut backward = reversed(&forward);
    // What cannot reach the exit is in, or leads into, a loop that is never left. The last of its blocks is made a way out,
    // until none remains.
    loop {
        let mut reaches = vec![false; blocks.len() + 1];
        for node in postorder(&backward, exit) {
            reaches[node] = true;
        }
        let Some(stuck) = (0..exit).rev().find(|node| !reaches[*node]) else { break };
        backward[exit].push(stuck);
    }
    Dominators::of(&backward, exit)
}

fn reversed(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (node, nexts) in successors.iter().enumerate() {
        for next in nexts {
            predecessors[*next].push(node);
        }
    }
    predecessors
}

/// The nodes that are reached from `root`, each after those that were first reached from it.
fn postorder(successors: &[Vec<usize>], root: usize) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), vec![false; successors.len()]);
    seen[root] = true;
    let mut open = vec![(root, 0)];
    while let Some((node, next)) = open.last_mut() {
        let Some(successor) = successors[*node].get(*next).copied() else {
            order.push(*node);
            open.pop();
            continue;
        };
        *next += 1;
        if !std::mem::replace(&mut seen[successor], true) {
            open.push((successor, 0));
        }
    }
    order
}

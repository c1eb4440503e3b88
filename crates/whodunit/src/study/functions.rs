//! Which functions of a recorded program play a role, and where they begin and return.

use crate::allocators::{self, Allocator};
use crate::show;
use engine::{Mark, Marks};
use program::functions::NamedFunction;
use program::space::{AddressSpace, GuestAddress};
use serde::{Deserialize, Serialize};
use session::stream::{Role, Roles, role_of};
use trace::Recording;

/// A function that plays a role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Player {
    role: Role,
    start: u64,
    returns: Vec<u64>,
    /// Jumps that may leave it.
    jumps: Vec<u64>,
    /// Where it stores a register to where another one points: the instruction, and the numbers of both.
    stores: Vec<(u64, u8, u8)>,
}

impl Player {
    fn new(function: NamedFunction<Role>) -> Player {
        let numbers = |addresses: Vec<GuestAddress>| addresses.into_iter().map(|address| address.0).collect();
        Player {
            role: function.meaning,
            start: function.start.0,
            returns: numbers(function.returns),
            jumps: numbers(function.jumps),
            stores: function.stores.iter().map(|store| (store.at.0, store.value, store.base)).collect(),
        }
    }

    /// Where registers are wanted, besides at its start.
    fn marks(&self) -> impl Iterator<Item = (u64, Mark)> + '_ {
        let returns = self.returns.iter().map(|at| (*at, Mark::Exit));
        let jumps = self.jumps.iter().map(|at| (*at, Mark::Tail));
        let through = self.stores.iter().filter(|_| self.role == Role::AllocateThrough);
        let stores = through.map(|&(at, value, base)| (at, Mark::Store { value, base }));
        returns.chain(jumps).chain(stores)
    }
}

/// The functions that play a role, and those that users have named.
pub fn players(space: &AddressSpace, allocators: &[Allocator]) -> Vec<Player> {
    let role = |symbol: &str| allocators::role_of(allocators, symbol).or_else(|| role_of(symbol));
    space.functions_meaning(role).into_iter().map(Player::new).collect()
}

/// Those of the process image in `log`; none if nothing is known of it.
pub fn players_of(recording: &Recording, log: u32) -> Vec<Player> {
    show::recorded(recording, log).map_or_else(Vec::new, |recorded| players(&recorded.space, &[]))
}

#[derive(Default)]
pub struct Functions {
    pub marks: Marks,
    pub roles: Roles,
}

impl Functions {
    /// Of these, those that are wanted.
    pub fn of(players: &[Player], is_wanted: impl Fn(Role) -> bool) -> Functions {
        let mut functions = Functions::default();
        for player in players.iter().filter(|player| is_wanted(player.role)) {
            functions.roles.insert(player.start, player.role);
            functions.marks.insert(player.start, Mark::Entry);
            for (at, mark) in player.marks() {
                functions.marks.entry(at).or_insert(mark);
            }
        }
        functions
    }
}

//! Which functions of a recorded program play a role, and where they begin and return.

use crate::allocators::{self, Allocator};
use crate::show;
use engine::{Mark, Marks};
use session::stream::{Role, Roles, role_of};
use trace::Recording;

#[derive(Default)]
pub struct Functions {
    pub marks: Marks,
    pub roles: Roles,
}

impl Functions {
    /// Of the process image in `log`, and those that users have named, as far as they are wanted; none if nothing is known of it.
    pub fn of(
        recording: &Recording,
        log: u32,
        allocators: &[Allocator],
        is_wanted: impl Fn(Role) -> bool,
    ) -> Functions {
        let mut functions = Functions::default();
        let Some(recorded) = show::recorded(recording, log) else { return functions };
        let role = |symbol: &str| {
            let role = allocators::role_of(allocators, symbol).or_else(|| role_of(symbol));
            role.filter(|role| is_wanted(*role))
        };
        for function in recorded.space.functions_meaning(role) {
            functions.roles.insert(function.start.0, function.meaning);
            functions.marks.insert(function.start.0, Mark::Entry);
            let returns = function.returns.iter().map(|at| (at.0, Mark::Exit));
            let jumps = function.jumps.iter().map(|at| (at.0, Mark::Tail));
            let through = function.stores.iter().filter(|_| function.meaning == Role::AllocateThrough);
            let stores = through.map(|store| (store.at.0, Mark::Store { value: store.value, base: store.base }));
            for (at, mark) in returns.chain(jumps).chain(stores) {
                functions.marks.entry(at).or_insert(mark);
            }
        }
        functions
    }
}

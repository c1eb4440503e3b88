//! Which functions of a recorded program play a role, and where they begin and return.

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
    /// Of the process image in `log`; none if nothing is known of it.
    pub fn of(recording: &Recording, log: u32) -> Functions {
        let mut functions = Functions::default();
        let Some(recorded) = show::recorded(recording, log) else { return functions };
        for function in recorded.space.functions_meaning(role_of) {
            functions.roles.insert(function.start.0, function.meaning);
            functions.marks.insert(function.start.0, Mark::Entry);
            for at in function.returns {
                functions.marks.entry(at.0).or_insert(Mark::Exit);
            }
            for at in function.handovers.into_iter().filter(|_| function.meaning.is_allocator()) {
                functions.marks.entry(at.0).or_insert(Mark::Entry);
                functions.roles.entry(at.0).or_insert(Role::HandOver);
            }
        }
        functions
    }
}

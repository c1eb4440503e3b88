//! The failing run of a proof, kept as a recording that other verbs can open.

use crate::races::Subject;
use crate::recordings;
use crate::rerun;
use crate::rerun::outcomes::is_same;
use session::rerun::{Outcome, Plan};
use trace::Store;

/// Where the run is kept, as users call it. Nothing if it cannot be written down, or not as it failed.
pub fn keep(subject: &Subject<'_>, plan: &Plan, outcome: &Outcome) -> Option<String> {
    let store = Store::from_environment().ok()?;
    let folder = store.new_folder(&subject.recorded.program()).ok()?;
    let again = rerun::record(subject.recording.folder(), subject.log, plan, &folder);
    if again.is_ok_and(|again| is_same(outcome, &again)) && folder.exists() {
        return Some(recordings::name_of(&store, &folder));
    }
    let _ = std::fs::remove_dir_all(folder);
    None
}

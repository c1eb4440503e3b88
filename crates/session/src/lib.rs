//! Recording runs and running recordings again.
//!
//! Owns how a run becomes a recording and a recording a run. Must not know analyses or presentation.
#![forbid(unsafe_code)]

mod build_id;
mod interleaved;
mod mapped_files;
pub mod pack;
mod player;
mod recorder;
pub mod rerun;
mod retold;
mod shared_sites;
pub mod stream;

pub use interleaved::Interleaved;
pub use player::{
    NotPlayable, began, first_process, has_beginning, is_without_events, process_of, recorded, successor,
};
pub use recorder::{Branch, Branches, Facts, Limits, Origin, Recorder, Words, nanoseconds_since_1970};
pub use retold::teller;
pub use shared_sites::{SharedSites, Sharing};

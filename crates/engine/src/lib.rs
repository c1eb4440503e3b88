//! Runs translated guest code faithfully.

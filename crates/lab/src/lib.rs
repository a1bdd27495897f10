//! (crate documentation)

//! All tests of this crate that stand outside its sources, as one program: it is linked once.

#[path = "../../treecast/tests/files/mod.rs"]
mod files;
mod kinds;
mod languages;
mod programs;

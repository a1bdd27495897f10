//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod bgp;
mod common;
mod network;
mod ospf;
mod topology_files;

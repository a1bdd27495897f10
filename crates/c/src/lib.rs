//! The library `treecast` for C: `libtreecast_c` and `treecast.h`.
//!
//! This crate only translates: pointers and lengths into slices, C's strings into Rust's, errors into numbers and a text for each
//! thread. `treecast.h` is made from these sources by cbindgen.
//!
//! Every function of C takes pointers that its header describes. A program that passes others has undefined behaviour, as with any
//! library of C.

#![allow(non_camel_case_types)] // They are the names in C.

mod error;
mod group;
mod receiver;
mod text;

//! The library `treecast` for C: `libtreecast_c` and `treecast.h`.
//!
//! This crate only translates: pointers and lengths into slices, C's strings into Rust's, errors into numbers and a text for each
//! thread. `treecast.h` is made from these sources by cbindgen.
//!
//! NULL, numbers out of range, objects that were freed and those of another process are refused with a reason, and no panic reaches
//! C. What cannot be checked is the length of memory and of texts: a program that passes pointers to less than it says has undefined
//! behaviour, as with any library of C.

#![allow(non_camel_case_types)] // They are the names in C.

mod discovery;
mod error;
mod events;
mod failure;
mod group;
mod handle;
mod options;
mod out;
mod receiver;
mod standing;
mod text;

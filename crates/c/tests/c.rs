//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod border;
mod header;
mod linked;
mod programs;

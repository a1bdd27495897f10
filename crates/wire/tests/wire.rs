//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod announced;
mod doctor;
mod errors;
mod golden;
mod mead;
mod membership;
mod properties;
mod samples;
mod vectors;
mod xcast;

//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod beacons;
mod circle;

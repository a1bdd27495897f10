//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod db;
mod monitor;
mod recorder;
mod recording;
mod report;

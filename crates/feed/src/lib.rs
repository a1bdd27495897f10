//! Feeds of data products: reads the logs of Unidata's Local Data Manager (LDM) and computes what chapter 2 of the paper
//! interdomain-2013 computes from them. Reads the stream that LDM hands to a decoder, too.
//!
//! This crate opens no file and no socket, and reads no clock. Its callers hand it lines and get reports, tables and
//! plots.
//!
//! ```text
//! lines --(line)--> products and links --(analysis)--> Report --> tables, plots
//! ```
//!
//! Nothing here panics, whatever a log holds. Memory depends on the minutes, hosts and feeds of a log, which are bounded,
//! and not on its length.

pub mod analysis;
pub mod decoder;
pub mod line;
pub mod plots;
pub mod synth;
pub mod tables;

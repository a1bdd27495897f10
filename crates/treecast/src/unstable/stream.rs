//! The pieces of a stream, as `treecast send -` sends standard input: objects whose names have numbers, and one behind them that
//! tells how many there are.

pub use treecast_driver::pipe::{END_NAME, MOST_PIECES, is_spooled, piece_number};

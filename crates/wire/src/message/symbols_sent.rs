//! SymbolsSent: how many repair symbols of a source block the sender has sent. A receiver that still lacks
//! symbols then knows that it must ask for more.
//!
//! ```text
//!  0              4      8
//!  +--------------+------+
//!  | source block | next |
//!  +--------------+------+
//! ```

use crate::field::fixed_body;

fixed_body! {
    /// The message that all symbols of a source block with numbers below `next` have been sent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SymbolsSent in "symbols sent", shown "block={source_block} next={next}" {
        pub source_block: u32 = "source block",
        pub next: u32 = "next symbol",
    }
}

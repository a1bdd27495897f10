//! Packets as congestion control, and the choice between groups, hear of them.

/// Packets with consecutive numbers that have arrived from the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    pub first: u32,
    pub count: u32,
    /// Whether a router on the path has marked the packets. It would have dropped them if they did not say that
    /// they heed marks (RFC 3168).
    pub marked: bool,
}

//! The settings of carousels, and what stands for the hashes of their blocks.

use std::time::Duration;

use rand::Rng as _;
use treecast_wire::message::BlockHash;

use crate::network::generator;

/// The value that stands for the hash of every forged block or symbol: the sender sends nothing from there.
const FORGED: BlockHash = [0xff; 8];

/// The settings of a carousel, which starts when somebody listens.
#[derive(Debug, Clone, Copy)]
pub struct Carousel {
    /// The time that the sender waits for another listener after the last has left.
    pub idle: Duration,
    /// The position at which the first loop begins, in bytes of all objects.
    pub start: u64,
    /// The number of the first repair symbol that later loops send.
    pub first_row: u64,
    /// Whether the sender signs the hashes of its blocks.
    pub signs: bool,
    pub forger: Option<Forger>,
    /// Whether packets are the IoT updater's frames. The carousel then has one object, and no messages.
    pub is_iotup: bool,
}

impl Carousel {
    /// Creates a carousel that goes on when nobody listens, begins anywhere, and signs nothing.
    pub fn of_seed(seed: u64) -> Self {
        let start = generator(seed, 1).next_u64();
        Self { idle: Duration::MAX, start, first_row: 0, signs: false, forger: None, is_iotup: false }
    }
}

/// A member of the group that sends blocks or repair symbols that it has made up.
#[derive(Debug, Clone, Copy)]
pub struct Forger {
    /// The time between two forged packets.
    pub interval: Duration,
    /// Whether the forged packets claim to be those that the sender is about to send, and not any others.
    pub is_ahead: bool,
}

impl Forger {
    /// Creates a forger that sends 50 packets a second.
    pub fn new(is_ahead: bool) -> Self {
        Self { interval: Duration::from_millis(20), is_ahead }
    }
}

/// The value that stands for the hash of the block or symbol at this position.
pub(super) fn hash_at(sequence: u64, is_forged: bool) -> BlockHash {
    if is_forged { FORGED } else { sequence.to_be_bytes() }
}

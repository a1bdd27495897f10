//! Simulates what packets go through: links, connections and receive buffers.

mod link;
mod loss;
mod socket;

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use self::{
    link::{Arrival, Arrivals, Discipline, Link, Narrow, Path, Policer},
    loss::{Loss, Losses, Period},
    socket::{BOOKKEEPING_BYTES, Connection, ReceiveBuffer, Room},
};

/// Creates a generator of random numbers for a run. Each user has a `stream` of its own. So a user that draws
/// more numbers does not change those of the others.
pub fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(stream);
    generator
}

/// Draws whether something happens. What cannot happen takes no random number.
fn happens(random: &mut ChaCha8Rng, chance: f64) -> bool {
    chance > 0.0 && random.random_bool(chance)
}

/// Returns the time that `len` bytes take at a rate.
pub fn transmission_time(len: usize, rate_bps: u64) -> Duration {
    Duration::from_nanos((len as u64).saturating_mul(8_000_000_000) / rate_bps.max(1))
}

//! The state of a receiver, by which lists of receivers are counted, filtered and put in order.

use std::{cmp::Ordering, net::SocketAddr};

use serde::{Deserialize, Serialize};

use super::{ReceiverProgress, Standing};
use crate::security::PublicKey;

/// The state of a receiver in one word. The order is from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReceiverState {
    /// The receiver has ended without some object that it wanted.
    Failed,
    /// The connection broke before the receiver had everything that it wanted.
    Gone,
    /// The receiver is there and has nothing yet.
    Waiting,
    /// The receiver has a part of what it wants.
    Receiving,
    /// The receiver has everything that it wanted.
    Done,
}

impl ReceiverProgress {
    /// A receiver that has just come, and has nothing yet.
    pub fn joined(name: String, address: SocketAddr, key: Option<PublicKey>) -> Self {
        Self { name, address: address.to_string(), key, is_connected: true, ..Self::default() }
    }

    pub fn state(&self) -> ReceiverState {
        match self.standing {
            Standing::Failed => ReceiverState::Failed,
            Standing::Gone => ReceiverState::Gone,
            Standing::Done => ReceiverState::Done,
            Standing::Busy if self.received_bytes == 0 => ReceiverState::Waiting,
            Standing::Busy => ReceiverState::Receiving,
        }
    }

    /// The share of the wanted bytes that the receiver has, 0 to 1. It is 0 for a receiver that wants nothing any more because all
    /// its objects have failed.
    pub fn share(&self) -> f64 {
        match self.wanted_bytes {
            0 if self.standing == Standing::Done => 1.0,
            0 => 0.0,
            wanted => (self.received_bytes as f64 / wanted as f64).min(1.0),
        }
    }

    /// Compares receivers for a list that begins with the worst: those that lack something for good, then the slowest.
    pub fn worst_first(&self, other: &Self) -> Ordering {
        let rank = |receiver: &Self| match receiver.state() {
            // One that waits has the smallest share anyway.
            ReceiverState::Waiting => ReceiverState::Receiving,
            state => state,
        };
        let by_share = || self.share().total_cmp(&other.share());
        rank(self).cmp(&rank(other)).then_with(by_share).then_with(|| self.name.cmp(&other.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_failed_for_everything_has_nothing_and_who_wants_nothing_has_all() {
        let receiver = |standing, received_bytes, wanted_bytes| ReceiverProgress {
            standing,
            received_bytes,
            wanted_bytes,
            ..ReceiverProgress::default()
        };
        let gone = receiver(Standing::Gone, 500, 0);
        assert_eq!((gone.state(), gone.share()), (ReceiverState::Gone, 0.0));
        let done = receiver(Standing::Done, 0, 0);
        assert_eq!((done.state(), done.share()), (ReceiverState::Done, 1.0));
        let waiting = receiver(Standing::Busy, 0, 0);
        assert_eq!((waiting.state(), waiting.share()), (ReceiverState::Waiting, 0.0));
        let receiving = receiver(Standing::Busy, 500, 1000);
        assert_eq!((receiving.state(), receiving.share()), (ReceiverState::Receiving, 0.5));
        let mut all = [&done, &receiving, &waiting, &gone];
        all.sort_by(|one, other| one.worst_first(other));
        assert_eq!(all.map(ReceiverProgress::share), [0.0, 0.0, 0.5, 1.0]);
    }
}

//! The names that the options of a group's builder had before they were called as the command's options are.

use std::{path::PathBuf, time::Duration};

use super::GroupBuilder;
use crate::unstable::options::Listed;

/// # Earlier names
impl GroupBuilder {
    /// See [`GroupBuilder::wait`].
    #[deprecated(note = "it is called `wait`, as the command's option is")]
    pub fn wait_for(self, receivers: u32) -> Self {
        self.wait(receivers)
    }

    /// See [`GroupBuilder::retx_factor`].
    #[deprecated(note = "it is called `retx_factor`, as the command's option is")]
    pub fn retransmission_factor(self, factor: f64) -> Self {
        self.retx_factor(factor)
    }

    /// See [`GroupBuilder::retx_minimum`].
    #[deprecated(note = "it is called `retx_minimum`, as the command's option is")]
    pub fn minimum_retransmission_time(self, time: Duration) -> Self {
        self.retx_minimum(time)
    }

    /// See [`GroupBuilder::ttl`].
    #[deprecated(note = "it is called `ttl`, as the command's option is")]
    pub fn hops(self, hops: u8) -> Self {
        self.ttl(hops)
    }

    /// See [`GroupBuilder::compress`].
    #[deprecated(note = "it is called `compress`, as the command's option is")]
    pub fn compression(self, level: i32) -> Self {
        self.compress(level)
    }

    /// See [`GroupBuilder::expires`].
    #[deprecated(note = "it is called `expires`, as the command's option is")]
    pub fn expires_in(self, time: Duration) -> Self {
        self.expires(time)
    }

    /// See [`GroupBuilder::allow`].
    #[deprecated(note = "it is called `allow`, as the command's option is")]
    pub fn admit(self, allow_list: impl Into<PathBuf>) -> Self {
        self.allow(allow_list)
    }

    /// See [`GroupBuilder::session`].
    #[deprecated(note = "it is called `session`, as the command's option is")]
    pub fn session_file(self, path: impl Into<PathBuf>) -> Self {
        self.session(path)
    }

    /// See [`GroupBuilder::rates`].
    #[deprecated(note = "it is called `rates`, as the command's option is")]
    pub fn several_rates(self, rates_bps: Vec<u64>) -> Self {
        self.rates(rates_bps)
    }

    /// See [`GroupBuilder::to_standing`].
    #[deprecated(note = "it is called `to_standing`, as the command's option is")]
    pub fn listed(self, receivers: Vec<Listed>) -> Self {
        self.to_standing(receivers)
    }

    /// See [`GroupBuilder::block`].
    #[deprecated(note = "it is called `block`, as the command's option is")]
    pub fn block_len(self, bytes: u16) -> Self {
        self.block(bytes)
    }
}

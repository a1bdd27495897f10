//! The names that the options of a group's builder had before they were called as the command's options are.

use std::{path::PathBuf, time::Duration};

use super::GroupBuilder;
use crate::unstable::options::Listed;

macro_rules! renamed {
    ($($before:ident($value:ident: $type:ty) -> $now:ident;)*) => {
        /// # Earlier names
        impl GroupBuilder {$(
            #[doc = concat!("See [`GroupBuilder::", stringify!($now), "`].")]
            #[deprecated(note = "it has the name of the command's option now")]
            pub fn $before(self, $value: $type) -> Self {
                self.$now($value)
            }
        )*}
    };
}

renamed! {
    wait_for(receivers: u32) -> wait;
    retransmission_factor(factor: f64) -> retx_factor;
    minimum_retransmission_time(time: Duration) -> retx_minimum;
    hops(hops: u8) -> ttl;
    compression(level: i32) -> compress;
    expires_in(time: Duration) -> expires;
    admit(allow_list: impl Into<PathBuf>) -> allow;
    session_file(path: impl Into<PathBuf>) -> session;
    several_rates(rates_bps: Vec<u64>) -> rates;
    listed(receivers: Vec<Listed>) -> to_standing;
    block_len(bytes: u16) -> block;
}

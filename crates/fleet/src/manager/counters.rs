//! What is counted while a manager runs.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use treecast_host::clock;

use crate::{clock::Offset, message::Report};

/// What has been counted since the manager has started.
#[derive(Default)]
pub struct Counters {
    pub orders: AtomicU64,
    pub reports: AtomicU64,
    /// The time between what was reported and the manager's knowledge of it: its sum in microseconds, and of how many reports.
    pub lag_us: AtomicU64,
    pub lags: AtomicU64,
}

impl Counters {
    /// Notes that an order was given.
    pub fn note_order(&self) {
        self.orders.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes reports that were kept. `offset` is the clock of the host, where it is known.
    pub fn note_reports(&self, reports: &[Report], offset: Option<Offset>) {
        self.reports.fetch_add(reports.len() as u64, Ordering::Relaxed);
        let Some(offset) = offset else { return };
        let now = clock::monotonic();
        let lag = |report: &Report| {
            let at = offset.at_manager(Duration::from_nanos(report.at_ns));
            u64::try_from(now.saturating_sub(at).as_micros()).unwrap_or(u64::MAX)
        };
        let sum = reports.iter().map(lag).fold(0, u64::saturating_add);
        self.lag_us.fetch_add(sum, Ordering::Relaxed);
        self.lags.fetch_add(reports.len() as u64, Ordering::Relaxed);
    }
}

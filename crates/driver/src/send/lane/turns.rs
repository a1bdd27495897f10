//! Fanout by copies: one packet or run of blocks after the other goes to each receiver, or list of receivers,
//! in turn. Each copy waits for the rate by itself, so bursts do not grow with the number of copies. Only
//! messages whose copies are short in total leave at once, as to a group. A receiver's answer to them measures
//! the round trip. If a message waited for a low rate, the round trip would seem longer, and the rate would
//! become even lower.

use std::{sync::Arc, time::Duration};

use treecast_proto::{
    Instant,
    policy::{BURST_BYTES, Pacer},
};

/// Something that is on its way to all who were there when it was begun.
#[derive(Debug)]
pub(super) struct Copies<T, D> {
    what: T,
    to: Arc<[D]>,
    sent: usize,
    is_urgent: bool,
}

/// The most bytes, all copies together, of a message that does not wait. A burst of this size does no harm.
const MOST_AT_ONCE: u64 = BURST_BYTES / 4;

impl<T, D> Copies<T, D> {
    pub fn new(what: T, to: Arc<[D]>) -> Self {
        Self { what, to, sent: 0, is_urgent: false }
    }

    /// Creates a message that does not wait for the rate, but counts for it, if its copies of `bytes` each are
    /// short.
    pub fn urgent(what: T, to: Arc<[D]>, bytes: u64) -> Self {
        let is_urgent = bytes.saturating_mul(to.len() as u64) <= MOST_AT_ONCE;
        Self { is_urgent, ..Self::new(what, to) }
    }

    pub fn what(&self) -> &T {
        &self.what
    }

    /// Sends as many copies as may leave now. `bytes_of` returns the size of each. Returns the bytes that have
    /// left, and the time until the next copy. `None` if that was the last one.
    pub fn send_due(
        &mut self,
        pacer: &mut Pacer,
        now: Instant,
        bytes_of: impl Fn(&T, &D) -> u64,
        mut send: impl FnMut(&T, &D),
    ) -> (u64, Option<Duration>) {
        let mut sent_bytes = 0;
        while let Some(to) = self.to.get(self.sent) {
            let bytes = bytes_of(&self.what, to);
            let delay = pacer.delay(now, bytes);
            if !delay.is_zero() && !self.is_urgent {
                return (sent_bytes, Some(delay));
            }
            send(&self.what, to);
            pacer.sent(now, bytes);
            sent_bytes += bytes;
            self.sent += 1;
        }
        (sent_bytes, None)
    }
}

#[cfg(test)]
mod tests {
    use treecast_proto::policy::packets_per_run;

    use super::*;

    /// The times at which bytes leave, to so many receivers at a rate, in a second of runs as long as a session's.
    fn departures(rate_bps: u64, receivers: u16) -> Vec<(Instant, u64)> {
        let to: Arc<[u16]> = (0..receivers).collect();
        let run = packets_per_run(Some(rate_bps), 1500, 43) as u64 * 1500;
        let (mut now, mut left) = (Instant::ZERO, Vec::new());
        let mut pacer = Pacer::new(Some(rate_bps), now);
        while now < Instant::ZERO + Duration::from_secs(1) {
            let mut copies = Copies::new(run, Arc::clone(&to));
            while let (_, Some(delay)) =
                copies.send_due(&mut pacer, now, |run, _| *run, |run, _| left.push((now, *run)))
            {
                now += delay;
            }
        }
        left
    }

    #[test]
    fn a_short_message_goes_to_all_at_once_and_counts_for_the_rate() {
        for (bytes, receivers, waits) in
            [(80, 20, false), (80, 400, true), (1400, 5, false), (1400, 50, true)]
        {
            let mut pacer = Pacer::new(Some(100_000), Instant::ZERO);
            pacer.sent(Instant::ZERO, BURST_BYTES);
            let mut copies = Copies::urgent((), (0..receivers).collect(), bytes);
            let (sent, delay) = copies.send_due(&mut pacer, Instant::ZERO, |(), _: &u16| bytes, |(), _| {});
            assert_eq!(
                (sent == bytes * u64::from(receivers), delay.is_some()),
                (!waits, waits),
                "{bytes}, {receivers}"
            );
            assert!(!pacer.delay(Instant::ZERO, 1500).is_zero());
        }
    }

    #[test]
    fn no_burst_exceeds_64_kib_and_the_rate_is_kept_for_any_number_of_receivers() {
        for (rate_bps, receivers) in [(1_000_000, 1), (8_000_000, 300), (100_000_000, 20), (900_000_000, 5)] {
            let left = departures(rate_bps, receivers);
            let share = |from: Instant, to: Instant| {
                to.saturating_duration_since(from).as_nanos() as u64 * (rate_bps / 8) / 1_000_000_000
            };
            for (first, (start, _)) in left.iter().enumerate().step_by(left.len() / 50 + 1) {
                let mut bytes = 0;
                for (at, run) in &left[first..] {
                    bytes += run;
                    let most = BURST_BYTES + share(*start, *at) + 1;
                    assert!(bytes <= most, "{rate_bps}, {receivers}: {bytes} bytes from {start} to {at}");
                }
            }
            let (all, last): (u64, _) = (left.iter().map(|(_, run)| run).sum(), left[left.len() - 1].0);
            assert!(
                all + 1 >= share(Instant::ZERO, last),
                "{rate_bps}, {receivers}: {all} bytes till {last}"
            );
        }
    }
}

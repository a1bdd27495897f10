//! How far the multicast may run ahead of the slowest attentive receiver.
//!
//! VCMTP itself has no flow control in the data plane (4.3.2): it plans rates beforehand. Where no rate
//! is planned, receivers' Progress reports say what they have taken from their socket buffers, and the
//! sender keeps no more bytes beyond that under way than the smallest of the buffers holds. A receiver
//! that stops reporting is left behind after a while and is followed again when it has caught up.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    time::Duration,
};

use super::ReceiverId;
use crate::Instant;

/// The share of a receive buffer that blocks may fill: the kernel counts each packet's own
/// bookkeeping against the buffer, too, which is nearly as much as a block is long.
const BUFFER_SHARE: u64 = 2;

/// The most runs that the log holds; older ones can no longer be reported.
const MAX_LOG: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Credit {
    /// Bytes multicast so far: the scale on which all receivers are placed.
    total: u64,
    /// What was multicast where on that scale, oldest first; adjacent runs are one.
    log: VecDeque<Sent>,
    receivers: BTreeMap<ReceiverId, Followed>,
}

#[derive(Debug)]
struct Sent {
    index: u32,
    bytes: Range<u64>,
    /// The end of `bytes` on the scale.
    end: u64,
}

#[derive(Debug)]
struct Followed {
    window: u64,
    /// How far it has come, on the scale.
    taken: u64,
    /// Since when it holds the multicast up; none while it does not.
    holding_since: Option<Instant>,
    /// False after it has held the multicast up for too long.
    followed: bool,
}

impl Credit {
    pub(super) fn join(&mut self, receiver: ReceiverId, receive_buffer_bytes: u32) {
        let window = u64::from(receive_buffer_bytes) / BUFFER_SHARE;
        let followed = Followed { window, taken: self.total, holding_since: None, followed: true };
        self.receivers.insert(receiver, followed);
    }

    pub(super) fn leave(&mut self, receiver: ReceiverId) {
        self.receivers.remove(&receiver);
    }

    /// Blocks have been multicast.
    pub(super) fn sent(&mut self, index: u32, bytes: Range<u64>) {
        self.total += bytes.end - bytes.start;
        match self.log.back_mut() {
            Some(last) if last.index == index && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
                last.end = self.total;
            }
            _ => self.log.push_back(Sent { index, bytes, end: self.total }),
        }
        if self.log.len() > MAX_LOG {
            self.log.pop_front();
        }
    }

    /// A receiver reports that it has taken the object's multicast bytes up to `position`.
    pub(super) fn report(&mut self, receiver: ReceiverId, index: u32, position: u64) {
        let Some(followed) = self.receivers.get_mut(&receiver) else { return };
        let newer = self.log.iter().rev().take_while(|sent| sent.end > followed.taken);
        let place = newer
            .filter(|sent| sent.index == index && sent.bytes.start < position)
            .map(|sent| sent.end - sent.bytes.end.saturating_sub(position))
            .next();
        if let Some(place) = place.filter(|place| *place > followed.taken) {
            followed.taken = place;
            followed.holding_since = None;
            followed.followed = true;
        }
    }

    /// Nothing of what was multicast lies in this receiver's buffer: it has not come.
    pub(super) fn unheard(&mut self, receiver: ReceiverId) {
        if let Some(followed) = self.receivers.get_mut(&receiver) {
            (followed.taken, followed.holding_since) = (self.total, None);
        }
    }

    /// The receiver that has taken least of those that hold the multicast up.
    pub(super) fn held_up_by(&self) -> Option<ReceiverId> {
        let holding = self
            .receivers
            .iter()
            .filter(|(_, receiver)| receiver.followed && receiver.holding_since.is_some());
        holding.min_by_key(|(_, receiver)| receiver.taken).map(|(receiver, _)| *receiver)
    }

    /// Whether `len` more bytes may be multicast now; if not, when a silent receiver is left behind.
    pub(super) fn check(&mut self, now: Instant, len: u64, patience: Duration) -> Result<(), Instant> {
        let mut wait_until = None;
        for receiver in self.receivers.values_mut().filter(|receiver| receiver.followed) {
            let under_way = self.total - receiver.taken;
            if under_way == 0 || under_way + len <= receiver.window {
                receiver.holding_since = None;
                continue;
            }
            let deadline = *receiver.holding_since.get_or_insert(now) + patience;
            if deadline <= now {
                receiver.followed = false;
                continue;
            }
            wait_until = Some(wait_until.map_or(deadline, |other: Instant| other.min(deadline)));
        }
        wait_until.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);
    const A: ReceiverId = ReceiverId(1);
    const B: ReceiverId = ReceiverId(2);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn credit() -> Credit {
        let mut credit = Credit::default();
        credit.join(A, 2_000);
        credit.join(B, 4_000);
        credit
    }

    #[test]
    fn who_has_heard_nothing_does_not_hold_the_multicast_up() {
        let mut credit = credit();
        credit.sent(0, 0..1_000);
        assert_eq!(credit.check(at(0), 101, PATIENCE), Err(at(100)));
        credit.unheard(A);
        assert_eq!(credit.check(at(0), 101, PATIENCE), Ok(()));
        credit.report(B, 0, 1_000);
        credit.sent(0, 1_000..2_000);
        assert_eq!(credit.check(at(0), 101, PATIENCE), Err(at(100)), "it is followed as before");
        assert_eq!(credit.held_up_by(), Some(A));
    }

    #[test]
    fn half_of_the_smallest_buffer_may_be_under_way() {
        let mut credit = credit();
        credit.sent(0, 0..900);
        assert_eq!(credit.check(at(0), 100, PATIENCE), Ok(()));
        assert_eq!(credit.held_up_by(), None);
        assert_eq!(credit.check(at(0), 101, PATIENCE), Err(at(100)));
        assert_eq!(credit.held_up_by(), Some(A));
        credit.report(A, 0, 500);
        assert_eq!(credit.check(at(1), 101, PATIENCE), Ok(()));
    }

    #[test]
    fn a_run_larger_than_the_window_goes_when_nothing_is_under_way() {
        let mut credit = credit();
        assert_eq!(credit.check(at(0), 5_000, PATIENCE), Ok(()));
    }

    #[test]
    fn a_receiver_that_reports_little_but_steadily_holds_the_others_back() {
        let mut credit = credit();
        credit.sent(0, 0..1_000);
        credit.report(B, 0, 1_000);
        for step in 0..20 {
            assert_eq!(credit.check(at(step * 90), 400, PATIENCE), Err(at(step * 90 + 100)));
            credit.report(A, 0, 10 * (step + 1));
        }
    }

    #[test]
    fn a_silent_receiver_is_left_behind_once_and_followed_again_when_it_reports() {
        let mut credit = credit();
        credit.sent(0, 0..1_000);
        credit.report(B, 0, 1_000);
        assert_eq!(credit.check(at(10), 500, PATIENCE), Err(at(110)));
        assert_eq!(credit.check(at(110), 500, PATIENCE), Ok(()));
        credit.sent(0, 1_000..1_500);
        assert_eq!(credit.check(at(111), 500, PATIENCE), Ok(()), "it stalls the rest once");
        credit.report(A, 0, 300);
        assert_eq!(credit.check(at(112), 500, PATIENCE), Err(at(212)));
    }

    #[test]
    fn reports_about_interleaved_objects_find_their_place() {
        let mut credit = credit();
        credit.sent(0, 0..400);
        credit.sent(1, 0..300);
        credit.sent(0, 400..800);
        credit.report(B, 0, 800);
        credit.report(A, 1, 150);
        assert_eq!(credit.check(at(0), 450, PATIENCE), Ok(()), "1100 - 550 are under way");
        assert_eq!(credit.check(at(0), 451, PATIENCE), Err(at(100)));
        credit.report(A, 0, 400);
        assert_eq!(credit.check(at(0), 451, PATIENCE), Err(at(100)), "an older place changes nothing");
    }

    #[test]
    fn a_report_beyond_what_was_sent_counts_as_all() {
        let mut credit = credit();
        credit.sent(0, 0..900);
        credit.report(A, 0, u64::MAX);
        credit.report(B, 7, u64::MAX);
        assert_eq!(credit.check(at(0), 1_000, PATIENCE), Ok(()));
    }
}

//! What comes at the receiver's own address, and what at the group's, where the sender chooses the way by that
//! (`treecast_proto::fanout`).

use std::{io, time::Duration};

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{Instant, object::Channel, replay_window::ReplayWindow, tfmcc::Arrived};
use treecast_wire::{
    header::FileId,
    message::{Heard, Message},
};

use super::{super::ReceiveError, GROUP, Session};
use crate::udp::Spare;

/// A report goes to the sender at least so often while packets come.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// ... and for so long after the last one: whoever says that it hears nothing is deaf, and whoever says nothing is held up.
const STILL_REPORTS: Duration = Duration::from_secs(1);

/// The group's socket, and what has been heard.
#[derive(Debug)]
pub(super) struct Ears {
    /// None where there is no group.
    group: Option<Spare>,
    /// Whether packets are taken from it now.
    at_group: bool,
    /// Numbers of packets heard at each address. Packets that came twice count.
    heard: Heard,
    told: Heard,
    told_at: Instant,
    /// When something was heard for the last time, as far as reports know.
    heard_at: Option<Instant>,
    /// Sealed packets that came twice, by the collector's count.
    replayed: u64,
    window: ReplayWindow,
    /// Behind the highest number.
    next: u64,
}

impl Ears {
    pub fn new(group: Option<Spare>) -> Self {
        Self {
            group,
            at_group: false,
            heard: Heard::default(),
            told: Heard::default(),
            told_at: Instant::ZERO,
            heard_at: None,
            replayed: 0,
            window: ReplayWindow::default(),
            next: 0,
        }
    }

    pub fn add_to(&self, poller: &Poller) -> io::Result<()> {
        self.group.as_ref().map_or(Ok(()), |group| poller.add(group.socket(), GROUP, Interest::Read))
    }

    /// Returns when there is something to report, even if it is only that nothing was heard.
    pub fn deadline(&self) -> Option<Instant> {
        let reports_on = self.heard_at.is_some_and(|heard_at| self.told_at < heard_at + STILL_REPORTS);
        (self.has_news() || reports_on).then(|| self.told_at + REPORT_INTERVAL)
    }

    fn has_news(&self) -> bool {
        self.heard != self.told
    }

    fn tell(&mut self, now: Instant) -> Heard {
        if self.has_news() {
            self.heard_at = Some(now);
        }
        (self.told, self.told_at) = (self.heard, now);
        self.heard
    }

    fn count(&mut self, packets: u64) {
        let counter = if self.at_group { &mut self.heard.group } else { &mut self.heard.unicast };
        *counter = counter.saturating_add(packets);
    }

    /// Packets with these numbers have come. Those from the first on that had not before.
    fn note(&mut self, packets: Arrived) -> Option<Arrived> {
        let Arrived { first, count, .. } = packets;
        self.count(count.into());
        let start = self.position(first);
        let end = start + u64::from(count);
        let old = (start..end).take_while(|position| !self.window.is_new(*position)).count() as u32;
        for position in start + u64::from(old)..end {
            if self.window.is_new(position) {
                self.window.take(position);
            }
        }
        if end > self.next {
            self.next = end;
            self.heard.last = first.wrapping_add(count).wrapping_sub(1);
        }
        (old < count).then(|| Arrived { first: first.wrapping_add(old), count: count - old, ..packets })
    }

    /// A number's place among all, that nearest to the highest one.
    fn position(&self, number: u32) -> u64 {
        let ahead = number.wrapping_sub(self.next as u32).cast_signed();
        self.next.saturating_add_signed(ahead.into())
    }
}

impl Session<'_> {
    /// Takes a batch from the group's socket, too, as [`Session::receive_batch`].
    pub(super) fn receive_spare(&mut self) -> Result<Option<u64>, ReceiveError> {
        self.note_replayed();
        if !self.swap() {
            return Ok(None);
        }
        let result = self.receive_batch();
        self.note_replayed();
        self.swap();
        result
    }

    /// Receives from the other socket from now on; false where there is none.
    fn swap(&mut self) -> bool {
        let Some(ears) = &mut self.hearing.ears else { return false };
        let Some(group) = &mut ears.group else { return false };
        self.hearing.source.swap(group);
        ears.at_group = !ears.at_group;
        true
    }

    /// A carousel's receiver that is reached at its own address leaves the group: the sender does not hear by which way packets
    /// arrive, and everything would come twice.
    pub(super) fn leave_group_if_reached(&mut self) {
        if let Some(ears) = self.hearing.ears.as_mut().filter(|ears| ears.heard.unicast > 0)
            && self.machine.carousel().is_some()
        {
            // The poller forgets a socket that is closed.
            ears.group = None;
        }
    }

    /// Sealed packets that came twice are dropped before anybody reads their numbers.
    fn note_replayed(&mut self) {
        let replayed = self.hearing.source.refused().replayed;
        if let Some(ears) = &mut self.hearing.ears {
            ears.count(replayed - ears.replayed);
            ears.replayed = replayed;
        }
    }

    /// Returns the packets that have not come before by another way.
    pub(super) fn new_of(&mut self, from: Channel, packets: Arrived) -> Option<Arrived> {
        match &mut self.hearing.ears {
            Some(ears) if from == Channel::Group => ears.note(packets),
            _ => Some(packets),
        }
    }

    /// Reports what has been heard, when that is due.
    pub(super) fn tell_heard(&mut self, now: Instant) {
        let Some(ears) = &mut self.hearing.ears else { return };
        if self.line.is_over || !self.line.is_welcome || ears.deadline().is_none_or(|deadline| now < deadline)
        {
            return;
        }
        // What waits in a socket is not heard yet, and that is no silence.
        if !ears.has_news() && self.hearing.backlog.is_asked() {
            return;
        }
        let heard = ears.tell(now);
        self.line.outbox.push(FileId::new(self.session, 0), Message::Heard(heard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32) -> Arrived {
        Arrived { first, count, marked: false }
    }

    #[test]
    fn what_comes_by_both_ways_counts_at_both_and_is_new_once() {
        let mut ears = Ears::new(None);
        assert_eq!([run(0, 10), run(10, 5)].map(|run| ears.note(run)), [Some(run(0, 10)), Some(run(10, 5))]);
        ears.at_group = true;
        assert_eq!([run(0, 10), run(10, 6)].map(|run| ears.note(run)), [None, Some(run(15, 1))]);
        assert_eq!(ears.heard, Heard { unicast: 15, group: 16, last: 15 });
        assert_eq!(ears.deadline(), Some(Instant::ZERO + REPORT_INTERVAL));
    }

    #[test]
    fn reports_go_on_for_a_while_when_nothing_comes_any_more() {
        let mut ears = Ears::new(None);
        assert_eq!(ears.deadline(), None);
        ears.note(run(0, 10));
        let (mut now, mut told) = (Instant::ZERO, Vec::new());
        while let Some(deadline) = ears.deadline() {
            now = deadline;
            told.push(ears.tell(now).last);
            assert!(told.len() < 100, "they end");
        }
        assert_eq!((told, now), (vec![9; 11], Instant::ZERO + REPORT_INTERVAL + STILL_REPORTS));
        ears.note(run(10, 1));
        assert_eq!(ears.deadline(), Some(now + REPORT_INTERVAL));
    }

    #[test]
    fn numbers_wrap() {
        let mut ears = Ears::new(None);
        for first in [0, 1 << 30, 1 << 31, 3 << 30, u32::MAX - 1] {
            assert_eq!(ears.note(run(first, 1)), Some(run(first, 1)));
        }
        assert_eq!(ears.note(run(u32::MAX, 3)), Some(run(u32::MAX, 3)));
        assert_eq!((ears.note(run(0, 1)), ears.note(run(2, 1))), (None, Some(run(2, 1))));
        assert_eq!((ears.heard.last, ears.next), (2, (1 << 32) + 3));
    }
}

//! The numbers of the packets that have come in, as congestion control wants them: a few runs a batch.

use std::time::Duration;

use treecast_host::control::Ancillary;
use treecast_proto::{Instant, tfmcc::Arrived};
use treecast_wire::header::{Header, SessionId};

/// The most runs that are kept; what comes then counts as lost. A batch of real packets has a few.
const MAX_RUNS: usize = 1024;

/// The longest time that packets are believed to have waited in a socket. The kernel stamps them by a clock that may be set.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The kernel's word about a datagram, or about all datagrams of a super-packet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The time at which it came in, since 1970. `None` if the kernel did not tell.
    pub time: Option<Duration>,
    /// Whether a router has marked it, because the router has too much to send.
    pub is_marked: bool,
}

impl Stamp {
    /// Returns when the datagram came in, by the clock that says `now`. `since_1970` is the same moment by the kernel's clock.
    pub fn came(&self, now: Instant, since_1970: Duration) -> Instant {
        let waited = self.time.map_or(Duration::ZERO, |time| since_1970.saturating_sub(time));
        Instant::from_nanos(now.as_nanos().saturating_sub(waited.min(LONGEST_WAIT).as_nanos() as u64))
    }
}

impl From<&Ancillary> for Stamp {
    fn from(ancillary: &Ancillary) -> Self {
        Self { time: ancillary.arrived, is_marked: ancillary.is_marked }
    }
}

#[derive(Debug, Default)]
pub(super) struct Arrivals {
    runs: Vec<(SessionId, Arrived)>,
    /// The stamp of the packets that are being added.
    stamp: Stamp,
}

impl Arrivals {
    /// Sets the stamp of the packets that are added next.
    pub fn begin(&mut self, stamp: Stamp) {
        self.stamp = stamp;
    }

    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Lengthens the last run when the packet continues it.
    pub fn add(&mut self, header: &Header) {
        let (session, first, marked) = (header.file_id.session(), header.number, self.stamp.is_marked);
        if let Some((last_session, run)) = self.runs.last_mut()
            && (*last_session, run.marked) == (session, marked)
            && run.first.wrapping_add(run.count) == first
        {
            run.count = run.count.saturating_add(1);
            return;
        }
        if self.runs.len() < MAX_RUNS {
            self.runs.push((session, Arrived { first, count: 1, marked }));
        }
    }

    pub fn take(&mut self) -> Vec<(SessionId, Arrived)> {
        std::mem::take(&mut self.runs)
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::header::{FileId, PacketType};

    use super::*;

    fn add(arrivals: &mut Arrivals, session: u32, number: u32) {
        let file_id = FileId::new(SessionId(session), 3);
        arrivals.add(&Header { file_id, sequence: 0, payload_len: 0, kind: PacketType::Data, number });
    }

    #[test]
    fn consecutive_packets_of_one_session_and_mark_are_one_run() {
        let mut arrivals = Arrivals::default();
        [u32::MAX, 0, 1, 5].into_iter().for_each(|number| add(&mut arrivals, 1, number));
        add(&mut arrivals, 2, 6);
        arrivals.begin(Stamp { time: None, is_marked: true });
        add(&mut arrivals, 2, 7);
        let run = |session, first, count, marked| (SessionId(session), Arrived { first, count, marked });
        let expected =
            [run(1, u32::MAX, 3, false), run(1, 5, 1, false), run(2, 6, 1, false), run(2, 7, 1, true)];
        assert_eq!(arrivals.take(), expected);
        (0..10_000).for_each(|number| add(&mut arrivals, 1, number * 2));
        assert_eq!((arrivals.take().len(), arrivals.take().len()), (MAX_RUNS, 0));
    }

    #[test]
    fn a_clock_that_was_set_moves_an_arrival_by_ten_seconds_at_most() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        for (time, came) in [(999_998, 28), (1_000_005, 30), (3, 20)] {
            let stamp = Stamp { time: Some(Duration::from_secs(time)), is_marked: false };
            assert_eq!(stamp.came(at(30), Duration::from_secs(1_000_000)), at(came));
        }
        assert_eq!(Stamp::default().came(at(30), Duration::from_secs(1_000_000)), at(30));
    }
}

//! The numbers of the packets that have come in, as congestion control wants them: a few runs a batch.

use treecast_proto::tfmcc::Arrived;
use treecast_wire::header::{Header, SessionId};

/// The most runs that are kept; what comes then counts as lost. A batch of real packets has a few.
const MAX_RUNS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Arrivals {
    runs: Vec<(SessionId, Arrived)>,
    /// Whether the packets that are being added were marked on the way.
    pub marked: bool,
}

impl Arrivals {
    /// Lengthens the last run when the packet continues it.
    pub fn add(&mut self, header: &Header) {
        let (session, first, marked) = (header.file_id.session(), header.number, self.marked);
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
        arrivals.marked = true;
        add(&mut arrivals, 2, 7);
        let run = |session, first, count, marked| (SessionId(session), Arrived { first, count, marked });
        let expected =
            [run(1, u32::MAX, 3, false), run(1, 5, 1, false), run(2, 6, 1, false), run(2, 7, 1, true)];
        assert_eq!(arrivals.take(), expected);
        (0..10_000).for_each(|number| add(&mut arrivals, 1, number * 2));
        assert_eq!((arrivals.take().len(), arrivals.take().len()), (MAX_RUNS, 0));
    }
}

//! Handles the events of the machine.

use std::net::SocketAddr;

use treecast_proto::{
    Instant,
    fanout::Way,
    object::{Outcome, ReceiverId, SenderEvent},
};

use super::{super::SendEvent, Session, kind::Kind};

impl Session<'_> {
    /// Takes note of what the machine tells.
    pub(super) fn note(&mut self, now: Instant, event: SenderEvent) {
        match event {
            SenderEvent::ReceiverDone { file, receiver, outcome } => {
                // A receiver can do without an index.
                if !self.objects.sources.is_index(file) {
                    let sources = &self.objects.sources;
                    let object = (sources.name(file).to_owned(), sources.size(file));
                    let now = self.clock.now();
                    self.peers.note_done(now, receiver, object, outcome, &self.plan, &mut self.core);
                }
            }
            SenderEvent::FileDone { file, .. } if self.objects.sources.is_index(file) => {
                _ = self.objects.let_go(file, &self.core);
            }
            SenderEvent::FileDone { file, outcomes } => {
                let (name, bytes, is_first) = self.objects.let_go(file, &self.core);
                let owed_until = self.peers.owed_until(now, &self.plan);
                let number = self.objects.end_of_feed_object(now, (file, bytes), owed_until, &self.core);
                let figures = &mut self.core.figures;
                figures.objects_done += u64::from(is_first);
                figures.done_bytes = figures.done_bytes.saturating_add(if is_first { bytes } else { 0 });
                figures.ended = Some(now);
                let count = |which: Outcome| outcomes.iter().filter(|(_, outcome)| *outcome == which).count();
                let members = self.core.machine.local().map_or(0, |machine| machine.receivers() as usize);
                let (complete, not_wanted) = (count(Outcome::Complete) + members, count(Outcome::NotWanted));
                self.core.tell(SendEvent::ObjectDone {
                    name,
                    bytes,
                    complete: complete as u32,
                    not_wanted: not_wanted as u32,
                    failed: (outcomes.len() + members - complete - not_wanted) as u32,
                    number,
                });
            }
            SenderEvent::Moved { receiver, group } => self.note_move(now, receiver, group),
            SenderEvent::FileClosed { file } => {
                self.objects.let_go(file, &self.core);
                let owed_until = self.peers.owed_until(now, &self.plan);
                self.objects.forget_kept(owed_until, &self.core);
                self.core.figures.ended = Some(now);
            }
            SenderEvent::PutOut { receiver, reason } => self.put_out(receiver, &reason),
            SenderEvent::WantsCopies { receiver, at } => self.send_copies(now, receiver, Some(at)),
            SenderEvent::WantsNoCopies { receiver } => self.send_copies(now, receiver, None),
            SenderEvent::Started | SenderEvent::Paused | SenderEvent::Looped { .. } => match &mut self.kind {
                Kind::Connected(_) => {}
                Kind::Ring(ring) => ring.note(now, &event, &mut self.core),
                Kind::Local(local) => local.note(&event),
            },
            SenderEvent::Closed => self.core.figures.closed = true,
        }
    }

    /// Sends copies to a member of local groups at an address, or none any more.
    fn send_copies(&mut self, now: Instant, receiver: ReceiverId, at: Option<SocketAddr>) {
        if let Some(local) = self.kind.local() {
            local.send_copies(now, receiver, at, &mut self.lanes, &mut self.core);
            self.lanes.follow_plan(now, &self.peers, &mut self.core);
        }
    }

    /// Notes that a receiver has gone to another group.
    fn note_move(&mut self, now: Instant, receiver: ReceiverId, group: u8) {
        let rate_bps = if self.lanes.is_sought(group) { None } else { self.lanes.rate_bps(group) };
        let Some(peer) = self.peers.get_mut(&receiver) else { return };
        let before = std::mem::replace(&mut peer.group, group);
        let name = peer.name.clone();
        self.core.figures.moves += 1;
        self.lanes.moved(now, receiver, (before, peer), &mut self.core);
        // Whoever comes to a group that nobody listens to begins as at the start.
        if self.peers.values().all(|peer| peer.group != before) {
            self.lanes.restart(before);
        }
        let ways = self.lanes.ways.as_mut();
        if ways.is_some_and(|ways| ways.moved(now, receiver, (before, group))) {
            self.peers.note_way(receiver, Way::Unicast);
        }
        self.lanes.serve(now, &self.peers, &mut self.core);
        self.core.tell(SendEvent::Moved { receiver: name, group, rate_bps });
    }
}

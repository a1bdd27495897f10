//! The end of a session before its receivers have everything: it is stopped, or given up (`--give-up-after`).

use std::time::Duration;

use treecast_proto::{
    Instant,
    object::{Destination, ReceiverId, SenderInput},
};
use treecast_wire::{
    header::FileId,
    message::{Message, PutOut, PutOutCode},
};

use super::{
    super::{GiveUp, SendError, Standing},
    Session,
};

/// A session that sends everything in less time is not given up sooner for that.
const SHORTEST: Duration = Duration::from_secs(5);

/// The longest time for which a feed's sender that is told to stop finishes what is under way.
const STOP_TIME: Duration = Duration::from_secs(30);

/// The number of times that an interrupted sender says Goodbye.
const GOODBYES: usize = 3;

impl Session<'_> {
    /// The time at which the session is given up. `None` where it is not, or while that is not known.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        let started = self.core.figures.started?;
        let after = match self.plan.options.connected()?.give_up? {
            GiveUp::After(time) => time,
            GiveUp::Times(factor) => {
                let sending = self.core.figures.all_out?.saturating_duration_since(started);
                let time = Duration::try_from_secs_f64(sending.as_secs_f64() * factor.max(0.0));
                time.unwrap_or(Duration::MAX).max(SHORTEST)
            }
        };
        Some(started + after)
    }

    /// Puts out all receivers that do not have everything, when it is time, and waits for nobody who is away.
    pub(super) fn give_up_if_due(&mut self, now: Instant) {
        let Some(started) = self.core.figures.started else { return };
        if self.core.figures.all_out.is_none()
            && self.core.machine.vcmtp_mut().is_some_and(|machine| machine.is_all_out())
        {
            self.core.figures.all_out = Some(now);
        }
        if self.gives_up_at().is_none_or(|at| at > now) {
            return;
        }
        let objects = self.core.figures.summary.objects;
        let is_late = |standing: Standing| matches!(standing, Standing::Busy | Standing::Failed);
        let late = self.peers.there().filter(|(_, peer)| is_late(peer.standing(objects)));
        let late: Vec<ReceiverId> = late.map(|(receiver, _)| receiver).collect();
        let after = now.saturating_duration_since(started).as_secs_f64();
        for receiver in late {
            let reason = format!("it did not have everything {after:.1} s after the session began");
            self.say_put_out(receiver, PutOutCode::Ended, &reason);
            self.core.handle(now, SenderInput::Left { receiver, reason: reason.clone() });
            self.put_out(receiver, &reason);
        }
        if self.peers.await_nobody() {
            self.peers.update_hold(now, &self.plan, &mut self.core);
        }
    }

    /// Ends the session before its time. Returns when it was over; a carousel still has to say Goodbye.
    pub(super) fn interrupt(&mut self) -> Result<Option<Instant>, SendError> {
        let now = self.clock.now();
        if let Some(ring) = self.kind.ring() {
            ring.stop(now, &mut self.core);
            return Ok(None);
        }
        if self.core.figures.started.is_none() && !self.plan.is_of_folder() {
            return Err(SendError::Interrupted);
        }
        if self.is_live() && self.finishes(now) {
            return Ok(None);
        }
        if self.kind.local().is_some() {
            self.say_goodbye(now)?;
        }
        // Once connections are closed, nothing is left that could be interrupted.
        let figures = &mut self.core.figures;
        let all_done = !self.objects.has_feed() && figures.objects_done == figures.summary.objects;
        if all_done && self.peers.values().any(|peer| peer.link.closes) {
            return Ok(Some(figures.ended.unwrap_or(now)));
        }
        figures.summary.interrupted = true;
        self.say_ended("it was stopped");
        Ok(Some(now))
    }

    /// Whether the session has begun with a feed that somebody may stop, as one stops a service: what is under way then is
    /// finished.
    fn is_live(&self) -> bool {
        self.plan.is_service() && self.core.figures.started.is_some()
    }

    /// Begins no more objects of a feed that was stopped. Returns whether those under way may go on.
    fn finishes(&mut self, now: Instant) -> bool {
        let objects = self.core.figures.summary.objects;
        if self.core.figures.stops_at.is_none() {
            self.core.figures.stops_at = Some(now + STOP_TIME);
            let count = objects.saturating_sub(self.core.figures.objects_done);
            let (seconds, are) = (STOP_TIME.as_secs(), if count == 1 { "file is" } else { "files are" });
            if count > 0 {
                self.core.warn(format!(
                    "stopping when the {count} {are} done that receivers have not ended with, or after {seconds} s"
                ));
            }
            // Members of local groups are not known one by one.
            if self.kind.local().is_some() {
                self.core.handle(now, SenderInput::Close);
            }
        }
        let is_done =
            self.kind.local().is_none() && self.peers.connected().all(|peer| peer.has_ended(objects));
        !is_done && self.core.figures.stops_at.is_some_and(|stops_at| now < stops_at)
    }

    /// Says to local groups that the sender stops.
    fn say_goodbye(&mut self, now: Instant) -> Result<(), SendError> {
        for _ in 0..GOODBYES {
            self.send_message(now, Destination::Group, FileId::new(self.plan.session, 0), &Message::Goodbye)?;
            self.lanes.flush_gathered(now, &mut self.core)?;
            // Copies leave as the rate allows.
            let _ = self.lanes.waits_until(now, &mut self.core);
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Tells receivers that the session has ended, and why. They need not look for a sender that will not come back, and may wait for one
    /// that keeps its session.
    pub(super) fn say_ended(&mut self, why: &str) {
        let code = match self.plan.options.session_file {
            Some(_) => PutOutCode::Stopped,
            None => PutOutCode::Ended,
        };
        let (session, objects) = (self.plan.session, self.core.figures.summary.objects);
        // A feed that is stopped is over for whoever has ended with all that was sent.
        let may_be_over = self.is_live() && code == PutOutCode::Ended;
        for peer in self.peers.values_mut() {
            let word = match may_be_over && peer.has_ended(objects) {
                true => Message::Goodbye,
                false => Message::PutOut(PutOut::new(code, why)),
            };
            let word = word.to_packet(FileId::new(session, 0));
            peer.link.connection.iter_mut().for_each(|connection| connection.queue(&word));
        }
        self.farewells.settle(self.peers.values_mut().filter_map(|peer| peer.link.connection.as_mut()));
    }
}

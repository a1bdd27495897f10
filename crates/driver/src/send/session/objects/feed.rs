//! A feed's objects: what comes while the session runs, when it expires, and how the feed ends.

use std::sync::mpsc::TryRecvError;

use treecast_proto::{Instant, object::SenderInput};
use treecast_wire::header::FileId;

use super::{
    super::{
        super::{
            SendEvent,
            feed::{Arrival, End, Feed, Queued},
        },
        core::Core,
    },
    Objects,
};

/// The reason why an object of a feed is not sent any more.
const EXPIRED: &str = "it has expired";

impl Objects {
    /// Whether more objects may come.
    pub fn has_feed(&self) -> bool {
        self.feed.is_some()
    }

    /// Notes that something has come of the feed, which has said so.
    pub fn take_feed_wake(&self) {
        self.feed_waker.take();
    }

    /// The number of the feed's objects that wait. `None` when all are known.
    pub fn waiting(&self) -> Option<u64> {
        self.feed.as_ref().map(Feed::waiting)
    }

    /// The number of the feed's objects that were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.feed.as_ref().map_or(0, Feed::dropped)
    }

    /// The time at which the next object expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.numbered.deadline()
    }

    /// The number of objects that are over and kept for receivers that come late, and their bytes.
    pub fn kept(&self) -> (u64, u64) {
        self.numbered.kept()
    }

    /// Tells what the feed has to say, and ends objects of it whose time is over.
    pub fn look_at_feed(&mut self, now: Instant, core: &mut Core<'_>) {
        let lines = self.feed.as_ref().map(Feed::lines).unwrap_or_default();
        lines.into_iter().for_each(|line| core.warn(line));
        self.expire_objects(now, core);
        while let Some(number) = self.numbered.take_owed(now) {
            self.settled(Some(number), End::Done);
        }
    }

    /// Hands the machine what has arrived when it can be sent next, and not before: what comes meanwhile may be more urgent. The end
    /// of the feed closes the session.
    pub fn take_feed(&mut self, now: Instant, core: &mut Core<'_>) {
        while core.figures.started.is_some()
            && core.figures.stops_at.is_none()
            && core.machine.has_room()
            && let Some(feed) = &self.feed
        {
            match feed.next() {
                Ok(Arrival::Object(queued)) => self.send_arrival(now, queued, core),
                Ok(Arrival::Refused { path, reason, number }) => {
                    self.refuse_arrival(path, reason, number, core);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.feed = None;
                    core.handle(now, SenderInput::Close);
                }
            }
        }
    }

    /// Sends what has come of the feed, unless it has expired meanwhile.
    fn send_arrival(&mut self, now: Instant, queued: Queued, core: &mut Core<'_>) {
        let Queued { object: named, number, terms, expires } = queued;
        let (name, size) = (named.name.clone(), named.source.size());
        let left = expires.map(|expires| expires.saturating_duration_since(std::time::Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            self.settled(number, End::Done);
            core.figures.summary.expired += 1;
            return core.tell(SendEvent::NotSent { path: name, reason: EXPIRED.to_owned(), number });
        }
        if let Err(error) = named.source.check_unchanged() {
            return self.refuse_arrival(name, error.to_string(), number, core);
        }
        match self.send(now, named, core) {
            Ok(file) => {
                core.figures.summary.objects += 1;
                core.figures.total_bytes = core.figures.total_bytes.saturating_add(size);
                self.numbered.add(file, number, left.map(|left| now + left));
                if let Some(factor) = terms.retransmission_timeout_factor
                    && let Some(machine) = core.machine.vcmtp_mut()
                {
                    machine.set_retransmission_timeout_factor(file, factor);
                }
            }
            Err(error) => self.refuse_arrival(name, error.to_string(), number, core),
        }
    }

    /// Ends objects whose time is over. They are not sent any more, and not sent again. Receivers that have them keep
    /// them.
    fn expire_objects(&mut self, now: Instant, core: &mut Core<'_>) {
        while let Some(file) = self.numbered.expired(now) {
            match self.numbered.is_kept(file) {
                // Everybody who was there has it.
                true => core.handle(now, SenderInput::Withdraw { file, reason: EXPIRED.to_owned() }),
                false => {
                    self.settled(self.numbered.number(file), End::Done);
                    core.figures.summary.expired += 1;
                    self.withdraw(now, file, &EXPIRED, core);
                }
            }
        }
    }

    fn refuse_arrival(&mut self, path: String, reason: String, number: Option<u64>, core: &mut Core<'_>) {
        core.figures.summary.not_sent += 1;
        self.settled(number, End::Refused);
        core.tell(SendEvent::NotSent { path, reason, number });
    }

    /// Ends an object at every receiver. It is forgotten, or kept for receivers that come late. `owed_until` is the
    /// time from which on the next sender of the session would not send it again. `None` if no receiver that lacks it
    /// may come again. Returns the object's number.
    pub fn end_of_feed_object(
        &mut self,
        now: Instant,
        (file, bytes): (FileId, u64),
        owed_until: Option<Instant>,
        core: &Core<'_>,
    ) -> Option<u64> {
        if !self.is_feed {
            return None;
        }
        let number = self.numbered.number(file);
        if core.machine.announced(file).is_some() {
            self.numbered.keep(file, bytes, now);
        } else {
            self.numbered.remove(file);
            self.settle_or_owe(number, owed_until);
        }
        self.forget_kept(owed_until, core);
        number
    }

    /// Forgets objects that were kept and that nobody gets any more. `owed_until` is as for [`Self::end_of_feed_object`].
    pub fn forget_kept(&mut self, owed_until: Option<Instant>, core: &Core<'_>) {
        while let Some(file) = self.numbered.take_unknown(|file| core.machine.announced(file).is_some()) {
            self.sources.remove(file);
            let number = self.numbered.remove(file);
            self.settle_or_owe(number, owed_until);
        }
    }

    /// Ends an object. The next sender of the session sends it again if a receiver lacks it that may come again by then.
    fn settle_or_owe(&mut self, number: Option<u64>, owed_until: Option<Instant>) {
        match (number, owed_until) {
            (Some(number), Some(until)) => self.numbered.owe(number, until),
            _ => self.settled(number, End::Done),
        }
    }

    /// Lets the feed forget the objects that are kept, or those of them that were over before `before`: no receiver that may come again
    /// lacks them.
    pub fn settle_kept(&mut self, before: Option<Instant>) {
        self.numbered.kept_numbers(before).for_each(|number| self.settled(Some(number), End::Done));
    }

    /// Lets the feed forget an object. Only its first end counts.
    pub(super) fn settled(&self, number: Option<u64>, end: End) {
        if let (Some(feed), Some(number)) = (&self.feed, number) {
            feed.settled(number, end);
        }
    }
}

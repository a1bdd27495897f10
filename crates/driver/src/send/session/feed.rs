//! A feed's objects: what comes while the session runs, when it expires, and how the feed ends.

use std::{sync::mpsc::TryRecvError, time::Duration};

use treecast_proto::{Instant, object::SenderInput};
use treecast_wire::header::FileId;

use super::{
    super::{
        FeedSource, SendEvent,
        feed::{Arrival, End, Feed, Queued},
    },
    Session,
};

/// Why an object of a feed is not sent any more.
const EXPIRED: &str = "it has expired";

/// The longest time for which a feed's sender that is told to stop finishes what is under way.
const STOP_TIME: Duration = Duration::from_secs(30);

impl Session<'_> {
    /// Tells what the feed has to say, and ends objects of it whose time is over.
    pub(super) fn look_at_feed(&mut self, now: Instant) {
        self.begin_local_feed(now);
        let lines = self.objects.feed.as_ref().map(Feed::lines).unwrap_or_default();
        lines.into_iter().for_each(|line| (self.on_event)(SendEvent::Warning(line)));
        self.expire_objects(now);
        while let Some(number) = self.objects.numbered.take_owed(now) {
            self.settled(Some(number), End::Done);
        }
    }

    /// Since when a receiver has been away that may come again, to this sender or to the next one of the session: at most for as long
    /// as a silent one is waited for.
    pub(super) fn away_since(&self, now: Instant) -> Option<Instant> {
        let is_session = self.is_of_folder() && self.plan.options.session_file.is_some();
        let away = self.peers.values().filter(|peer| !peer.absence.has_quit);
        let away = away.filter_map(|peer| peer.absence.left_at);
        let away = away.filter(|left_at| now < *left_at + self.plan.options.stall_limit);
        away.min().filter(|_| is_session)
    }

    /// Whether everybody is away, and somebody may come again: what began now would go to nobody.
    fn is_left_alone(&self, now: Instant) -> bool {
        self.peers.values().all(|peer| peer.link.connection.is_none()) && self.away_since(now).is_some()
    }

    /// An object is over. The next sender of the session sends it again if a receiver lacks it that may come again by then.
    fn settle_or_owe(&mut self, now: Instant, number: Option<u64>) {
        match (number, self.away_since(now)) {
            (Some(number), Some(_)) => {
                self.objects.numbered.owe(number, now + self.plan.options.stall_limit);
            }
            _ => self.settled(number, End::Done),
        }
    }

    /// Hands the machine what has arrived when it can be sent next, and not before: what comes meanwhile may be more urgent. The end
    /// of the feed closes the session.
    pub(super) fn take_feed(&mut self, now: Instant) {
        while self.figures.started.is_some()
            && self.figures.stops_at.is_none()
            && self.machine.has_room()
            && !self.is_left_alone(now)
            && let Some(feed) = &self.objects.feed
        {
            match feed.next() {
                Ok(Arrival::Object(queued)) => self.send_arrival(now, queued),
                Ok(Arrival::Refused { path, reason, number }) => self.refuse_arrival(path, reason, number),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.objects.feed = None;
                    self.handle(now, SenderInput::Close);
                }
            }
        }
    }

    /// Sends what has come of the feed, unless it has expired meanwhile.
    fn send_arrival(&mut self, now: Instant, queued: Queued) {
        let Queued { object: named, number, terms, expires } = queued;
        let (name, size) = (named.name.clone(), named.source.size());
        let left = expires.map(|expires| expires.saturating_duration_since(std::time::Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            self.settled(number, End::Done);
            self.figures.summary.expired += 1;
            return (self.on_event)(SendEvent::NotSent { path: name, reason: EXPIRED.to_owned(), number });
        }
        if let Err(error) = named.source.check_unchanged() {
            return self.refuse_arrival(name, error.to_string(), number);
        }
        match self.send(now, named) {
            Ok(file) => {
                self.figures.summary.objects += 1;
                self.figures.total_bytes = self.figures.total_bytes.saturating_add(size);
                self.objects.numbered.add(file, number, left.map(|left| now + left));
                if let Some(factor) = terms.retransmission_timeout_factor
                    && let Some(machine) = self.machine.vcmtp_mut()
                {
                    machine.set_retransmission_timeout_factor(file, factor);
                }
            }
            Err(error) => self.refuse_arrival(name, error.to_string(), number),
        }
    }

    /// Objects whose time is over are not sent any more, and not sent again. Who has them keeps them.
    pub(super) fn expire_objects(&mut self, now: Instant) {
        while let Some(file) = self.objects.numbered.expired(now) {
            match self.objects.numbered.is_kept(file) {
                // Everybody who was there has it.
                true => self.handle(now, SenderInput::Withdraw { file, reason: EXPIRED.to_owned() }),
                false => {
                    self.settled(self.objects.numbered.number(file), End::Done);
                    self.figures.summary.expired += 1;
                    self.withdraw(now, file, &EXPIRED);
                }
            }
        }
    }

    fn refuse_arrival(&mut self, path: String, reason: String, number: Option<u64>) {
        self.figures.summary.not_sent += 1;
        self.settled(number, End::Refused);
        (self.on_event)(SendEvent::NotSent { path, reason, number });
    }

    /// An object has ended at every receiver. It is forgotten, or kept for who comes late. Returns its number.
    pub(super) fn end_of_feed_object(&mut self, now: Instant, file: FileId, bytes: u64) -> Option<u64> {
        self.plan.options.feed.as_ref()?;
        let number = self.objects.numbered.number(file);
        if self.machine.announced(file).is_some() {
            self.objects.numbered.keep(file, bytes, now);
        } else {
            self.objects.numbered.remove(file);
            self.settle_or_owe(now, number);
        }
        self.forget_kept(now);
        number
    }

    /// Forgets objects that were kept and that nobody gets any more.
    pub(super) fn forget_kept(&mut self, now: Instant) {
        loop {
            let machine = &self.machine;
            let unknown = self.objects.numbered.take_unknown(|file| machine.announced(file).is_some());
            let Some(file) = unknown else { return };
            self.objects.sources.remove(file);
            let number = self.objects.numbered.remove(file);
            self.settle_or_owe(now, number);
        }
    }

    /// The feed may forget an object. Only its first end counts.
    pub(super) fn settled(&self, number: Option<u64>, end: End) {
        if let (Some(feed), Some(number)) = (&self.objects.feed, number) {
            feed.settled(number, end);
        }
    }

    /// Whether the files of a folder are sent, which have no end.
    pub(super) fn is_of_folder(&self) -> bool {
        matches!(self.plan.options.feed, Some(FeedSource::Folder(_)))
    }

    /// Whether the session has begun with a feed that somebody may stop, as one stops a service: what is under way then is
    /// finished.
    pub(super) fn is_live(&self) -> bool {
        let has_end =
            matches!(self.plan.options.feed, None | Some(FeedSource::Stream { .. } | FeedSource::Queue(_)));
        !has_end && self.figures.started.is_some()
    }

    /// Begins no more objects of a feed that was stopped. Returns whether those under way may go on.
    pub(super) fn finishes(&mut self, now: Instant) -> bool {
        if self.figures.stops_at.is_none() {
            self.figures.stops_at = Some(now + STOP_TIME);
            let count = self.figures.summary.objects.saturating_sub(self.figures.objects_done);
            let (seconds, are) = (STOP_TIME.as_secs(), if count == 1 { "file is" } else { "files are" });
            if count > 0 {
                let line = format!(
                    "stopping when the {count} {are} done that receivers have not ended with, or after {seconds} s"
                );
                (self.on_event)(SendEvent::Warning(line));
            }
            // Members of local groups are not known one by one.
            if self.local.is_some() {
                self.handle(now, SenderInput::Close);
            }
        }
        let objects = self.figures.summary.objects;
        let mut there = self.peers.values().filter(|peer| peer.link.connection.is_some());
        let is_done = self.local.is_none() && there.all(|peer| peer.has_ended(objects));
        !is_done && self.figures.stops_at.is_some_and(|stops_at| now < stops_at)
    }
}

//! The receiver's loop, whatever the repair.

mod backlog;
mod control;
mod delivery;
mod ears;
mod groups;
mod lengths;
mod lifeline;
mod members;
mod open;
mod progress;
mod receiving;
mod reporter;
mod source;
mod unheard;

use std::time::Duration;

use treecast_host::{
    poller::{Interest, Poller, Ready},
    stop::Stop,
};
use treecast_proto::{
    Instant, Step,
    object::{Parts, ReceiverInput},
    tfmcc,
};
use treecast_wire::{header::FileId, message::Message, ticket::Fanout};

use delivery::{Delivery, Effect, Figures};
use ears::Ears;
use groups::Groups;
use lengths::Lengths;
use lifeline::Lifeline;
use reporter::Reporter;
use source::Source;

pub(super) use delivery::Carried;

use super::{ReceiveError, ReceiveEvent, ReceiveSummary, refusal::Refusal};
use crate::{
    connection::Connection,
    files::{Ending, Limit},
    remedies::Advised,
};

const GROUP: u64 = 0;
const CONTROL: u64 = 1;
const STORE: u64 = 2;
const STOP: u64 = 3;

/// The number of times that the hash of an object may be wrong where nothing tells which part of it is.
const HASH_ATTEMPTS: u32 = 3;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The time for the sender's Welcome, which may be lost several times.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);

/// One session of a receiver. Its parts each have one job; this type runs them in turns.
pub(super) struct Session<'a> {
    poller: Poller,
    hearing: Hearing,
    wire: Wire,
    delivery: Delivery<'a>,
}

/// The connection to the sender. A carousel has none.
struct Wire {
    /// The connection to the sender. `None` once it is closed.
    connection: Option<Connection>,
    lifeline: Lifeline,
    /// Tells a carousel's sender what is lacking. `None` where it does not listen.
    reporter: Option<Reporter>,
    waits_for_room: bool,
    refusal: Refusal,
}

/// The end of a connection.
pub(super) enum Ended {
    Over(Box<ReceiveSummary>),
    /// The connection broke for this reason, and these objects fail unless the receiver comes back.
    Broken {
        carried: Box<Carried>,
        reason: String,
        failing: Vec<(FileId, String, Advised)>,
    },
}

/// The receiving end of the group, or of the receiver's own address.
struct Hearing {
    fanout: Fanout,
    source: Source,
    /// The counts of what has come at which address. `None` where there is one address only.
    ears: Option<Ears>,
    groups: Groups,
    congestion: tfmcc::Receiver,
    lengths: Lengths,
    /// Announcements that come in several packets.
    parts: Parts,
    /// The number of packets that the kernel has dropped, as far as the machine knows.
    dropped: u64,
}

impl Session<'_> {
    pub fn run(mut self, stop: &Stop) -> Result<Ended, ReceiveError> {
        match self.take_part(stop) {
            Ok(()) => Ok(self.finish()),
            Err(error) => {
                // A receiver that has come again tries once more.
                if !self.delivery.carried.has_come_back {
                    self.say_farewell(&error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Returns when the session is over for this receiver.
    fn take_part(&mut self, stop: &Stop) -> Result<(), ReceiveError> {
        self.poller.add(stop, STOP, Interest::Read)?;
        let mut ready = Vec::new();
        // What the connection holds already wakes nobody.
        self.receive_control()?;
        let mut deadline = self.settle_all();
        loop {
            self.delivery.store.intake.hand_over(self.delivery.clock.now(), false);
            self.flush()?;
            self.take_effects();
            if self.delivery.line.closed {
                return Ok(());
            }
            (self.delivery.on_event)(ReceiveEvent::Idle);
            self.poller.wait(self.timeout(deadline), &mut ready)?;
            // The group first: what is announced on the connection may lie in the group's socket still.
            ready.sort_unstable_by_key(|event| event.token);
            if ready.iter().all(|event| event.token != GROUP) {
                // The last batch was full, and nothing has come since.
                let has_all = self.delivery.backlog.note(self.delivery.backlog.is_asked(), None);
                self.delivery.note_drained(has_all);
            }
            for event in ready.drain(..) {
                self.handle_ready(event)?;
            }
            self.move_if_due()?;
            self.listen_if_asked()?;
            deadline = self.settle_all();
            self.report_progress();
            if (stop.is_requested() || self.delivery.figures.summary.limit.is_some())
                && self.end(stop.time_up())
            {
                return Ok(());
            }
            if !self.delivery.line.is_welcome && self.delivery.clock.now() > Instant::ZERO + WELCOME_TIMEOUT {
                return Err(ReceiveError::Dropped("no answer".into()));
            }
        }
    }

    /// Ends the session before the sender does, because of a limit or a signal, or because its time (`time_up`) is over.
    /// Returns whether it is over at once.
    fn end(&mut self, time_up: Option<Duration>) -> bool {
        let is_time_up = time_up.is_some();
        if self.delivery.machine.carousel().is_some() {
            // What is whole is still checked and committed.
            self.delivery.line.is_time_up = is_time_up;
            self.delivery.figures.summary.interrupted = true;
            self.delivery.line.leaves_rest =
                !self.delivery.line.discards && self.delivery.figures.summary.limit.is_none();
            let reason = time_up.map(|time| Limit::Time(time).to_string());
            let reason = reason.unwrap_or_else(|| self.delivery.figures.summary.why_stopped());
            self.delivery.handle(ReceiverInput::Close { reason }, None);
            return false;
        }
        if is_time_up {
            self.run_out_of_time()
        } else {
            self.stop()
        }
        !is_time_up
    }

    /// Leaves at once.
    fn stop(&mut self) {
        self.delivery.figures.summary.interrupted = true;
        // A limit is for senders that are not trusted, whose bytes nobody wants to keep.
        self.delivery.line.leaves_rest =
            !self.delivery.line.discards && self.delivery.figures.summary.limit.is_none();
        // What is right has its name in the end, and a folder that files are in its mode.
        self.delivery.take_reports(&mut self.hearing.source);
        self.note_unfinished();
        let reason = self.delivery.figures.summary.why_stopped();
        self.say_farewell(&reason);
        self.delivery.handle(ReceiverInput::Close { reason }, None);
        self.delivery.store.intake.hand_over(self.delivery.clock.now(), true);
    }

    /// Notes how much there is of incomplete objects, which the machine forgets when it ends them.
    fn note_unfinished(&mut self) {
        let received = self.progress(self.delivery.clock.now()).received_bytes;
        self.delivery.figures.unfinished_bytes =
            received.saturating_sub(self.delivery.figures.summary.received_bytes);
    }

    /// Ends the session as if its connection had broken for good: what is whole is checked, and the rest stays.
    fn run_out_of_time(&mut self) {
        if !std::mem::replace(&mut self.delivery.line.is_time_up, true) {
            self.note_unfinished();
            let reason = "the receiver's time is up".to_owned();
            self.delivery.line.comes_back = false;
            self.say_farewell(&reason);
            self.delivery.handle(ReceiverInput::Disconnected { reason }, None);
        }
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), ReceiveError> {
        match ready.token {
            GROUP => _ = self.receive_group()?,
            // What is announced there may lie in the group's socket still.
            CONTROL
                if ready.readable
                    && (self.delivery.backlog.gives_way() || self.delivery.store.small.are_many()) =>
            {
                self.receive_control()?;
            }
            STORE => self.delivery.take_reports(&mut self.hearing.source),
            _ => {}
        }
        Ok(())
    }

    /// Takes a batch from the group's socket, or sockets; what is left makes the poller return at once. Returns how much
    /// was taken where something is left.
    fn receive_group(&mut self) -> Result<Option<u64>, ReceiveError> {
        let was_asked = self.delivery.backlog.is_asked();
        let mut left = self.receive_batch()?;
        if self.hearing.ears.is_some() {
            left = [left, self.receive_spare()?].into_iter().flatten().min();
            self.leave_group_if_reached();
        }
        left = [left, self.receive_slower()?, self.receive_members()?].into_iter().flatten().min();
        let has_all = self.delivery.backlog.note(was_asked, left);
        self.delivery.note_drained(has_all);
        self.delivery.note_disk_wait();
        Ok(left)
    }

    /// Carries out all that both machines want. Returns when they want to be asked again.
    fn settle_all(&mut self) -> Option<Instant> {
        let now = self.delivery.clock.now();
        self.delivery.now = now;
        self.delivery.hand_on();
        let deadline = self.delivery.settle(None);
        self.join_if_due(now);
        self.tell_heard(now);
        loop {
            match self.hearing.congestion.poll(now) {
                Step::Transmit(_) if self.delivery.line.is_over => {}
                Step::Transmit(report) => {
                    let file = FileId::new(self.delivery.session, 0);
                    self.delivery.line.outbox.push(file, Message::PaceReport(report));
                }
                Step::Wait(reports, _) => return deadline.into_iter().chain(reports).min(),
            }
        }
    }

    /// Carries out what the machine wants of sockets.
    fn take_effects(&mut self) {
        for effect in std::mem::take(&mut self.delivery.effects) {
            match effect {
                Effect::Hear(group) => self.hear_group(group),
                Effect::Leave(group) => self.leave_group(group),
                Effect::Move(group) => {
                    let now = self.delivery.clock.now();
                    if let Some(line) = self.hearing.groups.called(now, group) {
                        (self.delivery.on_event)(ReceiveEvent::Warning(line.into()));
                    }
                }
            }
        }
    }

    fn timeout(&self, machine: Option<Instant>) -> Option<Duration> {
        if self.delivery.backlog.is_asked() || self.delivery.line.listens {
            return Some(Duration::ZERO);
        }
        let now = self.delivery.clock.now();
        let welcome = (!self.delivery.line.is_welcome).then_some(Instant::ZERO + WELCOME_TIMEOUT);
        let heard = self.hearing.ears.as_ref().and_then(Ears::deadline);
        let deadlines = [
            machine,
            Some(self.delivery.figures.next_progress),
            welcome,
            self.delivery.store.intake.deadline(),
            self.hearing.groups.moves_at(),
            heard,
            self.delivery.store.handing.deadline(now),
        ];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    fn finish(mut self) -> Ended {
        let ending = match &self.delivery.figures.summary {
            // One that was never admitted leaves to the next what an earlier one has left.
            ReceiveSummary { interrupted: true, .. } if !self.delivery.line.is_welcome => Ending::CutShort,
            ReceiveSummary { interrupted: true, .. }
                if self.delivery.line.is_time_up || self.delivery.line.leaves_rest =>
            {
                Ending::CutShort
            }
            // A sender that wants too much is not gone on with.
            ReceiveSummary { limit: Some(_), .. } => Ending::Over,
            ReceiveSummary { interrupted: true, .. } => Ending::Interrupted,
            ReceiveSummary { cut_short: Some(_), has_ended: false, .. } => Ending::CutShort,
            _ => Ending::Over,
        };
        if ending == Ending::CutShort {
            self.delivery.store.small.spill().into_iter().for_each(|task| self.delivery.add(task));
            self.delivery.store.intake.hand_over(self.delivery.clock.now(), true);
        }
        if let Some(warning) = self.delivery.store.intake.end(ending) {
            (self.delivery.on_event)(ReceiveEvent::Warning(warning.into()));
        }
        self.delivery.figures.summary.progress = self.progress(self.delivery.clock.now());
        let incomplete = self
            .delivery
            .figures
            .summary
            .progress
            .received_bytes
            .saturating_sub(self.delivery.figures.summary.received_bytes);
        let incomplete = incomplete.max(self.delivery.figures.unfinished_bytes);
        self.delivery.figures.summary.unfinished_bytes =
            if ending == Ending::CutShort { incomplete } else { 0 };
        // Over another connection, most were told of before.
        self.delivery.figures.summary.not_wanted =
            self.delivery.figures.summary.not_wanted.max(self.delivery.figures.not_wanted.len() as u64);
        self.delivery.figures.summary.existing = self.delivery.carried.admission.existing();
        self.delivery.figures.summary.missed = self.delivery.missed();
        if let Some(reason) =
            self.delivery.figures.summary.cut_short.take_if(|_| self.delivery.line.comes_back)
        {
            let reason = format!("the sender at {} is away: {reason}", self.delivery.line.sender);
            let Delivery { mut carried, figures: Figures { summary, failing, .. }, .. } = self.delivery;
            carried.has_come_back = true;
            carried.progress = summary.progress;
            // They are under way for whoever waits.
            carried.progress.objects += failing.len() as u64;
            carried.summary = summary;
            return Ended::Broken { carried: Box::new(carried), reason, failing };
        }
        (self.delivery.on_event)(ReceiveEvent::Progress(self.delivery.figures.summary.progress));
        let summary = &mut self.delivery.figures.summary;
        if self.delivery.machine.carousel().is_none() {
            let with_sender = |reason| format!("the sender at {}: {reason}", self.delivery.line.sender);
            summary.cut_short = summary.cut_short.take().map(|reason| reason.map(with_sender));
        }
        Ended::Over(Box::new(self.delivery.figures.summary))
    }
}

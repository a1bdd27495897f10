//! Publishes the progress of a session for `treecast status` and Prometheus. The session only posts a snapshot
//! now and then; other threads answer the observers.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use treecast_driver::{
    metrics::{self, MetricsServer},
    receive::ReceiveEvent,
    remedies::{Advised, Remedy},
    send::{ReceiverProgress, SendEvent, Starter},
    status::{self, Board, Phase, Progress, Sending, Snapshot, StatusServer},
};
use treecast_wire::ticket::Ticket;

use crate::{Error, ErrorKind};

/// The shortest time between two posts.
const POST_INTERVAL: Duration = Duration::from_millis(500);

/// The observers that a session answers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observed {
    /// Where Prometheus gets its figures.
    pub metrics: Option<SocketAddr>,
    /// Whether `treecast status` gets an answer.
    pub status: bool,
}

/// Servers that answer observers of a session.
pub(crate) struct Observers {
    board: Board,
    _status: Option<StatusServer>,
    _metrics: Option<MetricsServer>,
    posted: Option<Instant>,
}

impl Observers {
    /// Starts to answer observers. A failure that concerns only `treecast status` is a warning, and no reason
    /// not to send.
    ///
    /// # Errors
    /// If the address for metrics cannot be used.
    pub fn start(progress: Progress, observed: Observed, starter: Option<Starter>) -> Result<Self, Error> {
        let board = Board::new(Snapshot::new(progress));
        let metrics = observed.metrics.map(|address| metrics::serve(address, &board)).transpose();
        let metrics = metrics
            .map_err(|line| Error::new(ErrorKind::Network, Advised::by(Remedy::OtherMetrics, line)))?;
        let serve = || status::serve(&board, starter).inspect_err(|line| tracing::warn!("{line}")).ok();
        let status = observed.status.then(serve).flatten();
        Ok(Self { board, _status: status, _metrics: metrics, posted: None })
    }

    /// Where the session is shown.
    pub fn board(&self) -> &Board {
        &self.board
    }

    pub fn note_ticket(&mut self, ticket: &Ticket) {
        self.board.update(|snapshot| snapshot.note_ticket(ticket));
    }

    /// Notes a session with the IoT updater's frames, which have no session number.
    pub fn note_iotup(&mut self, group: SocketAddr) {
        self.board.update(|snapshot| {
            snapshot.group = group.to_string();
            snapshot.repair = "carousel".to_owned();
        });
    }

    /// Notes how many receivers the start waits for.
    pub fn note_wanted(&mut self, wanted: u32) {
        self.update_sender(|sending| sending.wanted = wanted);
    }

    /// Notes an event of a sender, which may send the IoT updater's frames.
    pub fn note_send(&mut self, event: &SendEvent, is_iotup: bool) {
        match event {
            SendEvent::Ready { ticket } if is_iotup => self.note_iotup(ticket.group),
            SendEvent::Ready { ticket } => self.note_ticket(ticket),
            SendEvent::Joined { receiver, address, key, joined, wanted } => {
                self.board.update(|snapshot| {
                    snapshot.note_joined(ReceiverProgress::joined(receiver.clone(), *address, *key));
                });
                self.note_there(*joined, *wanted);
            }
            SendEvent::WaitsFor { joined, wanted } => self.note_there(*joined, *wanted),
            SendEvent::Left { receiver, .. } => {
                self.board.update(|snapshot| snapshot.note_left(receiver));
                self.update_sender(|sending| sending.joined = sending.joined.saturating_sub(1));
            }
            SendEvent::Started { .. } => self.board.update(|snapshot| snapshot.phase = Phase::Running),
            SendEvent::Paused => self.board.update(|snapshot| snapshot.phase = Phase::Waiting),
            SendEvent::Progress(progress) if self.is_due() => {
                self.board.update(|snapshot| snapshot.note_send(progress));
            }
            _ => {}
        }
    }

    /// Notes how many receivers are there, and how many the start waits for.
    fn note_there(&mut self, joined: u32, wanted: u32) {
        self.update_sender(|sending| (sending.joined, sending.wanted) = (joined, wanted));
    }

    pub fn note_receive(&mut self, event: &ReceiveEvent) {
        match event {
            ReceiveEvent::Joined { sender, .. } => {
                self.board.update(|snapshot| {
                    let receiving = snapshot.receiving().into_iter();
                    receiving.for_each(|receiving| receiving.sender = Some(sender.to_string()));
                });
            }
            ReceiveEvent::Progress(progress) if self.is_due() => {
                self.board.update(|snapshot| snapshot.note_receive(progress));
            }
            _ => {}
        }
    }

    fn update_sender(&self, change: impl FnOnce(&mut Sending)) {
        self.board.update(|snapshot| _ = snapshot.sending().map(change));
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.posted.is_none_or(|posted| posted.elapsed() >= POST_INTERVAL);
        if is_due {
            self.posted = Some(Instant::now());
        }
        is_due
    }
}

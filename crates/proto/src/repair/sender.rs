//! The sender's machine.

use treecast_wire::{header::FileId, message::BeginOfFile};

use crate::{
    Instant, Step, carousel,
    object::{Lane, ReceiverId, SenderEvent, SenderInput, SenderTransmit, SenderWait},
    vcmtp,
};

/// The machine of a session's sender. Call order: see the crate's documentation; poll each [`Lane`] on its own.
#[derive(Debug)]
pub enum Sender {
    /// Retransmissions: `nack`, `after` and `none`.
    Vcmtp(Box<vcmtp::Sender>),
    Carousel(Box<carousel::Sender>),
}

impl Sender {
    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        match self {
            Self::Vcmtp(machine) => machine.handle(now, input),
            Self::Carousel(machine) => machine.handle(now, input),
        }
    }

    pub fn poll(&mut self, now: Instant, lane: Lane) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        match self {
            Self::Vcmtp(machine) => machine.poll(now, lane),
            Self::Carousel(machine) => machine.poll(now, lane),
        }
    }

    /// What an object is announced as.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        match self {
            Self::Vcmtp(machine) => machine.announced(file),
            Self::Carousel(machine) => machine.announced(file),
        }
    }

    /// The machine that knows each receiver. `None` where the repair has no way back.
    pub fn vcmtp(&self) -> Option<&vcmtp::Sender> {
        match self {
            Self::Vcmtp(machine) => Some(machine),
            Self::Carousel(_) => None,
        }
    }

    /// As [`Self::vcmtp`].
    pub fn vcmtp_mut(&mut self) -> Option<&mut vcmtp::Sender> {
        match self {
            Self::Vcmtp(machine) => Some(machine),
            Self::Carousel(_) => None,
        }
    }

    /// The receivers that are connected.
    pub fn receivers(&self) -> Vec<ReceiverId> {
        self.vcmtp().map(|machine| machine.receivers().collect()).unwrap_or_default()
    }
}

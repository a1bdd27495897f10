//! The sender's machine.

use treecast_wire::{header::FileId, message::BeginOfFile};

use crate::{
    Instant, Step, carousel,
    object::{Lane, SenderEvent, SenderInput, SenderTransmit, SenderWait},
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

    /// What a session with connections has sent so far. All zero in a carousel, whose caller counts what leaves.
    pub fn figures(&self) -> SenderFigures {
        self.vcmtp().map_or_else(SenderFigures::default, |machine| SenderFigures {
            multicast_bytes: machine.multicast_bytes(),
            retransmitted_bytes: machine.retransmitted_bytes(),
            repair_symbols: machine.repair_symbols(),
            refused_moves: machine.refused_moves(),
        })
    }

    /// Bytes of objects sent to a slower group.
    pub fn slower_bytes(&self, group: u8) -> u64 {
        self.vcmtp().map_or(0, |machine| machine.slower_bytes(group))
    }
}

/// What a sender has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderFigures {
    /// Bytes of objects sent to the group, by an earlier sender of the session, too.
    pub multicast_bytes: u64,
    /// Bytes of objects sent again.
    pub retransmitted_bytes: u64,
    pub repair_symbols: u64,
    /// Moves to other groups that were refused, or not even answered.
    pub refused_moves: u64,
}

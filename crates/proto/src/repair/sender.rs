//! The sender's machine.

use treecast_wire::{header::FileId, message::BeginOfFile};

use crate::{
    Instant, Step, carousel, local,
    object::{Lane, SenderEvent, SenderInput, SenderTransmit, SenderWait},
    vcmtp,
};

/// The machine of a session's sender. Call order: see the crate's documentation; poll each [`Lane`] on its own.
#[derive(Debug)]
pub enum Sender {
    /// Retransmissions: `nack`, `after` and `none`.
    Vcmtp(Box<vcmtp::Sender>),
    Carousel(Box<carousel::Sender>),
    /// Local groups: `local`.
    Local(Box<local::Sender>),
}

impl Sender {
    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        match self {
            Self::Vcmtp(machine) => machine.handle(now, input),
            Self::Carousel(machine) => machine.handle(now, input),
            Self::Local(machine) => machine.handle(now, input),
        }
    }

    pub fn poll(&mut self, now: Instant, lane: Lane) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        match self {
            Self::Vcmtp(machine) => machine.poll(now, lane),
            Self::Carousel(machine) => machine.poll(now, lane),
            Self::Local(machine) => machine.poll(now, lane),
        }
    }

    /// Returns the announcement of an object.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        match self {
            Self::Vcmtp(machine) => machine.announced(file),
            Self::Carousel(machine) => machine.announced(file),
            Self::Local(machine) => machine.announced(file),
        }
    }

    /// Returns the machine of a repair with connections, which knows each receiver. `None`: the repair has no
    /// way back from receivers.
    pub fn vcmtp(&self) -> Option<&vcmtp::Sender> {
        if let Self::Vcmtp(machine) = self { Some(machine) } else { None }
    }

    /// Returns the machine of a carousel. `None` for other repairs.
    pub fn carousel(&self) -> Option<&carousel::Sender> {
        if let Self::Carousel(machine) = self { Some(machine) } else { None }
    }

    /// Returns the machine of a repair with connections, to be changed. `None`: the repair has no way back from
    /// receivers.
    pub fn vcmtp_mut(&mut self) -> Option<&mut vcmtp::Sender> {
        if let Self::Vcmtp(machine) = self { Some(machine) } else { None }
    }

    /// Adds an object of a feed. `None` if the session has no room for it.
    pub fn send(&mut self, now: Instant, begin: BeginOfFile) -> Option<FileId> {
        match self {
            Self::Vcmtp(machine) => Some(machine.send(now, begin)),
            Self::Local(machine) => machine.send(begin),
            Self::Carousel(_) => None,
        }
    }

    /// Whether the next object of a feed is sent without waiting for another one.
    pub fn has_room(&self) -> bool {
        match self {
            Self::Vcmtp(machine) => machine.has_room(),
            Self::Local(machine) => machine.has_room(),
            Self::Carousel(_) => false,
        }
    }

    /// Returns the machine of a session with local groups.
    pub fn local(&self) -> Option<&local::Sender> {
        if let Self::Local(machine) = self { Some(machine) } else { None }
    }

    /// Returns the machine of a session with local groups, to be changed.
    pub fn local_mut(&mut self) -> Option<&mut local::Sender> {
        match self {
            Self::Vcmtp(_) | Self::Carousel(_) => None,
            Self::Local(machine) => Some(machine),
        }
    }

    /// Returns counts of what a session with connections, or with local groups, has sent so far. They are all zero in a
    /// carousel, whose caller counts what leaves.
    pub fn figures(&self) -> SenderFigures {
        if let Some(local) = self.local() {
            let figures = local.figures();
            return SenderFigures {
                multicast_bytes: figures.data_bytes,
                retransmitted_bytes: figures.session_repair_bytes + figures.group_repair_bytes,
                ..SenderFigures::default()
            };
        }
        self.vcmtp().map_or_else(SenderFigures::default, |machine| SenderFigures {
            multicast_bytes: machine.multicast_bytes(),
            retransmitted_bytes: machine.retransmitted_bytes(),
            repair_symbols: machine.repair_symbols(),
            refused_moves: machine.refused_moves(),
        })
    }

    /// Returns how many bytes of objects a slower group was sent.
    pub fn slower_bytes(&self, group: u8) -> u64 {
        self.vcmtp().map_or(0, |machine| machine.slower_bytes(group))
    }
}

/// Counts of what a sender has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderFigures {
    /// The bytes of objects sent to the group, also by an earlier sender of the session.
    pub multicast_bytes: u64,
    /// The bytes of objects that were sent again.
    pub retransmitted_bytes: u64,
    pub repair_symbols: u64,
    /// The number of moves to other groups that the sender refused, or did not even answer.
    pub refused_moves: u64,
}

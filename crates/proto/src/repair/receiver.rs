//! The receiver's machine.

use crate::{
    Instant, Step, carousel, local,
    object::{ReceiverCounters, ReceiverEvent, ReceiverInput, ReceiverTransmit, ReceiverWait},
    vcmtp,
};

/// The machine of a session's receiver. Call order: see the crate's documentation; poll to the end after every
/// [`ReceiverInput::Blocks`], while the packet's bytes are still at hand.
#[derive(Debug)]
pub enum Receiver {
    /// Retransmissions: `nack`, `after` and `none`.
    Vcmtp(Box<vcmtp::Receiver>),
    Carousel(Box<carousel::Receiver>),
    /// Local groups: `local`.
    Local(Box<local::Receiver>),
}

impl Receiver {
    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        match self {
            Self::Vcmtp(machine) => machine.handle(now, input),
            Self::Carousel(machine) => machine.handle(now, input),
            Self::Local(machine) => machine.handle(now, input),
        }
    }

    pub fn poll(&mut self, now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        match self {
            Self::Vcmtp(machine) => machine.poll(now),
            Self::Carousel(machine) => machine.poll(now),
            Self::Local(machine) => machine.poll(now),
        }
    }

    /// Returns how many bytes of all objects are stored; bytes that came twice count once.
    pub fn received_bytes(&self) -> u64 {
        match self {
            Self::Vcmtp(machine) => machine.received_bytes(),
            Self::Carousel(machine) => machine.progress().received_bytes,
            Self::Local(machine) => machine.received_bytes(),
        }
    }

    /// Returns when anything last came that proves that the sender is running. `None`: the repair has no
    /// connection that could prove it.
    pub fn last_heard(&self) -> Option<Instant> {
        if let Self::Vcmtp(machine) = self { Some(machine.last_heard()) } else { None }
    }

    /// Whether the session ended before its sender said Goodbye. Then a receiver that goes on later may still
    /// want what this one would throw away.
    pub fn is_cut_short(&self) -> bool {
        match self {
            Self::Vcmtp(machine) => machine.is_cut_short(),
            // It throws away nothing that is wanted later.
            Self::Carousel(_) | Self::Local(_) => false,
        }
    }

    pub fn counters(&self) -> ReceiverCounters {
        match self {
            Self::Vcmtp(machine) => machine.counters(),
            Self::Carousel(machine) => machine.counters(),
            Self::Local(machine) => machine.counters(),
        }
    }

    /// Returns the machine that takes objects without a connection to the sender: that of a carousel, or of local groups,
    /// which take objects like a carousel.
    pub fn carousel(&self) -> Option<&carousel::Receiver> {
        match self {
            Self::Vcmtp(_) => None,
            Self::Carousel(machine) => Some(machine),
            Self::Local(machine) => Some(machine.objects()),
        }
    }

    /// The machine of a member of local groups, where it is one.
    pub fn local(&self) -> Option<&local::Receiver> {
        if let Self::Local(machine) = self { Some(machine) } else { None }
    }
}

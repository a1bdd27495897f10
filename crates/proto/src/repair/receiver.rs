//! The receiver's machine.

use crate::{
    Instant, Step, carousel,
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
}

impl Receiver {
    pub fn handle(&mut self, now: Instant, input: ReceiverInput) {
        match self {
            Self::Vcmtp(machine) => machine.handle(now, input),
            Self::Carousel(machine) => machine.handle(now, input),
        }
    }

    pub fn poll(&mut self, now: Instant) -> Step<ReceiverTransmit, ReceiverEvent, ReceiverWait> {
        match self {
            Self::Vcmtp(machine) => machine.poll(now),
            Self::Carousel(machine) => machine.poll(now),
        }
    }

    /// Distinct bytes of all objects that are there.
    pub fn received_bytes(&self) -> u64 {
        match self {
            Self::Vcmtp(machine) => machine.received_bytes(),
            Self::Carousel(machine) => machine.progress().received_bytes,
        }
    }

    /// When anything last came that proves that the sender lives. `None` where the repair has no connection that would.
    pub fn last_heard(&self) -> Option<Instant> {
        match self {
            Self::Vcmtp(machine) => Some(machine.last_heard()),
            Self::Carousel(_) => None,
        }
    }

    /// Whether the session has ended before its sender has said Goodbye, so that what is thrown away may be wanted by a
    /// receiver that goes on later.
    pub fn is_cut_short(&self) -> bool {
        match self {
            Self::Vcmtp(machine) => machine.is_cut_short(),
            // It throws away nothing that is wanted later.
            Self::Carousel(_) => false,
        }
    }

    pub fn counters(&self) -> ReceiverCounters {
        match self {
            Self::Vcmtp(machine) => machine.counters(),
            Self::Carousel(machine) => machine.counters(),
        }
    }

    /// The carousel's machine, where it is one.
    pub fn carousel(&self) -> Option<&carousel::Receiver> {
        match self {
            Self::Vcmtp(_) => None,
            Self::Carousel(machine) => Some(machine),
        }
    }
}

//! The reasons why an event cannot be.

use std::time::Duration;

/// The fault of an event of a list, and the event in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error("event {0} ({1} at {2:?}): {3}")]
    Event(usize, String, Duration, Box<EventError>),
    #[error("the same goes on already: let that end first, with until")]
    GoesOn,
    #[error("{fault}: until {until:?} is not after {at:?}")]
    EndsBefore { fault: String, until: Duration, at: Duration },
    #[error("{0}: noticed is for down and fail")]
    NotNoticed(String),
    #[error("{0}: {1} is not for this fault")]
    NotFor(String, &'static str),
    #[error("fault {0:?} needs {1}")]
    Needs(String, &'static str),
    #[error("trace {0}: {1}")]
    Trace(String, String),
    #[error("loss {0:?}: expected {1}")]
    Loss(String, &'static str),
    #[error(
        "fault {0:?}: expected down, fail, avoid, unplug, lose, firewall, router-off, router-kill, router-gone, forge or replay"
    )]
    Unknown(String),
    #[error("{0} is a LAN, not a link between two nodes: name a node and its interface")]
    Lan(String),
    #[error("there is no link {0}: there are {1}")]
    NoLink(String, String),
    #[error("there is no node {0}: there are {1}")]
    NoNode(String, String),
    #[error("{0}; or write an IPv6 address")]
    NoAddress(Box<EventError>),
    #[error("node {0} has no interface {1}: it has {2}")]
    NoInterface(String, String, String),
    #[error("node {0} is in no network")]
    NoNetwork(String),
    #[error("{0} is no router")]
    NoRouter(String),
}

//! Finds receivers that can share packets: MEADcast's sender, which asks for routers, or Xcast's, with which routers may
//! register. Whoever sends packets with lists runs one of them by the same calls.

use std::{fmt, net::Ipv6Addr, time::Duration};

use treecast_wire::{
    icmpv6::Cause,
    ipv6::{self, next_header},
    mead::{Header, Map, Options, Proof},
    xcast::{self as wire, Registration},
};

use super::{
    list_proof::{self, Listed},
    lists::Form,
    mead::{
        sender::{Counters, Event, Input, Lost, Request, Sender},
        tree::Tree,
    },
    xcast::sender as xcast,
};
use crate::{Instant, Step};

/// The time before a session's first discovery: receivers that come together are asked about together.
pub const DISCOVERY_DELAY: Duration = Duration::from_millis(50);

/// The time for which a session gathers responses. Nobody waits for them, for everybody is served meanwhile.
pub const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(1);

/// The time from one discovery of a session to its next one (meadcast-thesis-2024, listing A.3).
pub const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// The largest number of requests that a session sends in a second: the default of `treecast mead`.
pub const REQUESTS_PER_SECOND: u32 = 1000;

/// The machine of MEADcast or of Xcast that says which receivers share packets.
pub enum Finder {
    Mead(Box<Sender>),
    Xcast(Box<xcast::Sender>),
}

/// A router's response to a discovery request.
#[derive(Debug)]
pub struct Response {
    /// The router, by the source of its packet.
    pub router: Ipv6Addr,
    pub header: Header,
    pub proof: Option<Proof>,
    /// The group that the router offers.
    pub group: Option<Ipv6Addr>,
}

/// A packet that did not arrive, by an ICMPv6 error.
#[derive(Debug)]
pub struct Failure {
    pub cause: Cause,
    pub destination: Ipv6Addr,
    /// The length of the packet in bytes, with its IPv6 header.
    pub len: usize,
    /// The routing header of the packet, if it had one.
    pub header: Option<RoutingHeader>,
    /// The UDP port that a packet without a routing header was for.
    pub port: Option<u16>,
}

/// The routing header of a packet that a sender has sent.
#[derive(Debug)]
pub enum RoutingHeader {
    Mead(Header),
    Xcast(wire::Header),
}

impl Request {
    /// Returns the request as it leaves. `epoch` is that of address lists' proofs.
    pub fn packet(&self, form: &Form, epoch: u64) -> Vec<u8> {
        let Self { receiver, nonce, group } = *self;
        let Form { source, dialect, key, .. } = *form;
        let listed = Listed {
            kind: list_proof::Kind::Request,
            source,
            group: group.unwrap_or(Ipv6Addr::UNSPECIFIED),
            routers: Map::EMPTY,
            addresses: &[receiver],
        };
        let list_proof = key.map(|key| key.prove(epoch, &listed));
        let options = Options { nonce, group, list_proof, ..Options::default() }.to_bytes(next_header::NONE);
        let mut header = Header::request(receiver);
        if !options.is_empty() {
            header.next_header = next_header::DESTINATION_OPTIONS;
        }
        let header = header.to_bytes(dialect);
        ipv6::Header::new(source, receiver, next_header::ROUTING).packet(&[&header, &options])
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Finder")
    }
}

impl Finder {
    /// Notes that programs have something to send.
    pub fn note_traffic(&mut self, now: Instant) {
        if let Self::Mead(sender) = self {
            sender.handle(now, Input::Traffic);
        }
    }

    /// Adds a receiver. `is_on_link` says whether an address is on the sender's own link.
    pub fn join(
        &mut self,
        now: Instant,
        receiver: Ipv6Addr,
        port: u16,
        is_on_link: impl FnOnce(Ipv6Addr) -> bool,
    ) {
        match self {
            Self::Mead(sender) => sender.handle(now, Input::Join(receiver, port)),
            Self::Xcast(sender) => {
                sender.handle(now, xcast::Input::Join(receiver, port));
                if is_on_link(receiver) {
                    sender.handle(now, xcast::Input::OnLink(receiver));
                }
            }
        }
    }

    pub fn leave(&mut self, now: Instant, receiver: Ipv6Addr) {
        match self {
            Self::Mead(sender) => sender.handle(now, Input::Leave(receiver)),
            Self::Xcast(sender) => sender.handle(now, xcast::Input::Leave(receiver)),
        }
    }

    pub fn respond(&mut self, now: Instant, response: &Response) {
        if let Self::Mead(sender) = self {
            let Response { router, ref header, proof, group } = *response;
            sender.handle(now, Input::Response { router, header, proof, group });
        }
    }

    pub fn register(&mut self, now: Instant, registration: &Registration) {
        if let Self::Xcast(sender) = self {
            sender.handle(now, xcast::Input::Registration(registration));
        }
    }

    pub fn fail(&mut self, now: Instant, failure: &Failure) {
        let Failure { cause, destination, len, port, ref header } = *failure;
        match (self, header) {
            (Self::Mead(sender), Some(RoutingHeader::Mead(header))) => {
                let lost = Lost { destination, len, header: Some(header), port };
                sender.handle(now, Input::Lost(lost, cause));
            }
            (Self::Xcast(sender), Some(RoutingHeader::Xcast(header))) => {
                let lost = Lost { destination, len, header: Some(header), port };
                sender.handle(now, xcast::Input::Lost(lost, cause));
            }
            (machine, None) => machine.lose(now, destination, len, port, cause),
            // Another sender's.
            _ => {}
        }
    }

    /// Notes that packets to a receiver have at most `mtu_bytes` bytes, and that one of `len` bytes was too long.
    pub fn narrow(&mut self, now: Instant, receiver: Ipv6Addr, len: usize, mtu_bytes: u32) {
        self.lose(now, receiver, len, None, Cause::TooBig { mtu_bytes });
    }

    fn lose(&mut self, now: Instant, destination: Ipv6Addr, len: usize, port: Option<u16>, cause: Cause) {
        match self {
            Self::Mead(sender) => {
                sender.handle(now, Input::Lost(Lost { destination, len, header: None, port }, cause));
            }
            Self::Xcast(sender) => {
                let lost = Lost { destination, len, header: None, port };
                sender.handle(now, xcast::Input::Lost(lost, cause));
            }
        }
    }

    pub fn poll(&mut self, now: Instant) -> Step<Request, Event, ()> {
        match self {
            Self::Mead(sender) => match sender.poll(now) {
                Step::Transmit(request) => Step::Transmit(request),
                Step::Event(event) => Step::Event(event),
                Step::Wait(deadline, _) => Step::Wait(deadline, ()),
            },
            Self::Xcast(sender) => match sender.poll(now) {
                Step::Transmit(nothing) => match nothing {},
                Step::Event(event) => Step::Event(event),
                Step::Wait(deadline, _) => Step::Wait(deadline, ()),
            },
        }
    }

    /// The tree that the last discovery has found. `None` with Xcast.
    pub fn tree(&self) -> Option<&Tree> {
        if let Self::Mead(sender) = self { Some(sender.tree()) } else { None }
    }

    /// Returns the counters of discovery.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Mead(sender) => sender.counters(),
            Self::Xcast(sender) => Counters { stray: sender.counters().stray, ..Counters::default() },
        }
    }

    /// Returns the counters of registrations.
    pub fn registrations(&self) -> xcast::Counters {
        if let Self::Xcast(sender) = self { sender.counters() } else { xcast::Counters::default() }
    }
}

//! The machine that decides which packets go to which receivers: MEADcast's sender, which discovers routers, or
//! Xcast's, with which routers may register.

use std::{fmt, net::Ipv6Addr};

use treecast_host::interface::is_on_link;
use treecast_proto::{
    Instant, Step,
    explicit::{
        mead::{
            sender::{Counters, Event, Input, Lost, Request, Sender},
            tree::Tree,
        },
        xcast::sender as xcast,
    },
};
use treecast_wire::{icmpv6::Cause, xcast::Registration};

use super::raw::{Failure, Response, RoutingHeader};

pub(crate) enum Machine {
    Mead(Box<Sender>),
    Xcast(Box<xcast::Sender>),
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

impl Machine {
    /// Notes that programs have something to send.
    pub fn note_traffic(&mut self, now: Instant) {
        if let Self::Mead(sender) = self {
            sender.handle(now, Input::Traffic);
        }
    }

    pub fn join(&mut self, now: Instant, receiver: Ipv6Addr, port: u16) {
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
            let Response { router, header, proof, group } = response;
            let (router, proof, group) = (*router, *proof, *group);
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

    /// The tree that the last discovery has found.
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

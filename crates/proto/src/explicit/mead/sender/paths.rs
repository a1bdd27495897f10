//! The sender's conclusions from ICMPv6 errors, by which routers and hosts report packets that did not
//! arrive.
//!
//! - *Packet Too Big* tells the longest packet that fits on the path to a receiver (RFC 8201). The sender
//!   forgets this after ten minutes, to find out whether the path takes longer packets now. When the error is
//!   about a MEADcast packet, this counts for all receivers that the packet still had to be delivered to.
//! - *Destination Unreachable* tells which receiver cannot be reached and why. The sender reports this once a
//!   minute for each receiver, and still sends to it. Where packets with a MEADcast header were turned away,
//!   their receivers get unicast for a minute. This does not happen when a route has disappeared, as routes do
//!   when they change, because unicast could not take it either.
//!
//! Anybody can forge these errors, so their effect is bounded: an error must be about a packet that this sender
//! may have sent and that is longer than what is said to fit, and no size below IPv6's least MTU is believed.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use treecast_wire::{
    icmpv6::{Cause, Unreachable},
    mead::{Header, Kind},
};

use super::Event;
use crate::{Instant, explicit::lists::LEAST_MTU};

/// The time after which a wider way is looked for (RFC 8201, 5.3).
const AGE: Duration = Duration::from_secs(600);

/// The time for which MEADcast is not tried again where it was turned away.
const AVOIDANCE: Duration = Duration::from_secs(60);

/// The least time between two events that tell of the same receiver that cannot be reached.
const TELLING: Duration = Duration::from_secs(60);

/// A packet that an ICMPv6 error is about, with the routing header of MEADcast or of Xcast.
#[derive(Debug)]
pub struct Lost<'a, H = Header> {
    /// The destination address of the packet.
    pub destination: Ipv6Addr,
    /// The length of the packet in bytes, with its IPv6 header.
    pub len: usize,
    /// The routing header of the packet.
    pub header: Option<&'a H>,
    /// The UDP port that the packet was for, when it has no routing header.
    pub port: Option<u16>,
}

impl<H> Clone for Lost<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Lost<'_, H> {}

impl<H> Lost<'_, H> {
    /// Whether this can be said of it, when it is for receivers with these ports.
    pub(crate) fn can_be(&self, cause: Cause, mut ports: impl Iterator<Item = Option<u16>>) -> bool {
        match cause {
            // Another program of this host has asked in vain for another port.
            Cause::Unreachable(Unreachable::Port) => {
                self.header.is_some() || ports.all(|port| port == self.port)
            }
            Cause::TooBig { mtu_bytes } => (LEAST_MTU..self.len).contains(&(mtu_bytes as usize)),
            Cause::Unreachable(_) => true,
        }
    }
}

impl Lost<'_> {
    /// Receivers that the packet was still to be delivered to.
    pub(super) fn receivers(&self) -> Vec<Ipv6Addr> {
        match self.header {
            Some(header) if header.kind == Kind::Data => {
                let is_named = header.addresses.contains(&self.destination);
                let routers = header.delivery.iter().filter(|_| is_named);
                let receivers = routers.flat_map(|router| header.receivers_of(router));
                receivers.map(|index| header.addresses[index]).collect()
            }
            _ => vec![self.destination],
        }
    }

    /// The routers that it was still to be delivered to and that stand without receivers: designated ones.
    pub(super) fn alone(&self) -> Vec<Ipv6Addr> {
        let Some(header) = self.header.filter(|header| header.kind == Kind::Data) else { return Vec::new() };
        let routers = header.delivery.iter().filter(|router| header.receivers_of(*router).is_empty());
        routers.map(|router| header.addresses[router]).collect()
    }

    pub(super) fn is_by_mead(&self) -> bool {
        self.header.is_some_and(|header| header.kind == Kind::Data)
    }
}

/// Whether another packet to the same place might have got there. An error about a port comes from a host that has got the packet.
pub(super) fn is_of_the_packet(why: Unreachable) -> bool {
    !matches!(why, Unreachable::Port | Unreachable::NoRoute | Unreachable::Address)
}

/// The findings about receivers. There are no more of them than receivers.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// The longest packet to each receiver, in bytes, and the time until which that is believed.
    narrow: BTreeMap<Ipv6Addr, (usize, Instant)>,
    /// The time until which not to use MEADcast, by receiver.
    avoided: BTreeMap<Ipv6Addr, Instant>,
    /// The error that was told last of each receiver, and the time of that.
    told: BTreeMap<Ipv6Addr, (Unreachable, Instant)>,
}

impl Paths {
    /// Takes in an error about a packet that was still to be delivered to these receivers. Returns what is to
    /// be told of those receivers for which the error is news.
    pub fn lose(
        &mut self,
        now: Instant,
        mut receivers: Vec<Ipv6Addr>,
        cause: Cause,
        has_list: bool,
    ) -> Option<Event> {
        match cause {
            Cause::TooBig { mtu_bytes } => {
                let mtu = mtu_bytes as usize;
                receivers.retain(|receiver| self.narrow(now, *receiver, mtu));
                (!receivers.is_empty()).then_some(Event::Narrow(receivers, mtu))
            }
            Cause::Unreachable(why) => {
                if has_list && is_of_the_packet(why) {
                    receivers.iter().for_each(|receiver| self.avoid(now, *receiver));
                }
                receivers.retain(|receiver| self.tell(now, *receiver, why));
                (!receivers.is_empty()).then_some(Event::Unreachable(receivers, why))
            }
        }
    }

    /// Notes that only so many bytes fit on the way to a receiver. Returns whether that is news.
    fn narrow(&mut self, now: Instant, receiver: Ipv6Addr, mtu: usize) -> bool {
        let is_news = self.narrow.get(&receiver).is_none_or(|(known, _)| mtu < *known);
        if is_news {
            self.narrow.insert(receiver, (mtu, now + AGE));
        }
        is_news
    }

    /// Notes that a receiver cannot be reached. Returns whether to tell that.
    fn tell(&mut self, now: Instant, receiver: Ipv6Addr, why: Unreachable) -> bool {
        let is_due = |(told, at): &(Unreachable, Instant)| *told != why || now >= *at + TELLING;
        let is_told = !self.told.get(&receiver).is_none_or(is_due);
        if !is_told {
            self.told.insert(receiver, (why, now));
        }
        !is_told
    }

    fn avoid(&mut self, now: Instant, receiver: Ipv6Addr) {
        self.avoided.insert(receiver, now + AVOIDANCE);
    }

    /// Returns the receivers for which the sender does not use MEADcast now.
    pub fn avoided(&mut self, now: Instant) -> Vec<Ipv6Addr> {
        self.avoided.retain(|_, until| now < *until);
        self.avoided.keys().copied().collect()
    }

    pub fn forget(&mut self, receiver: Ipv6Addr) {
        self.narrow.remove(&receiver);
        self.avoided.remove(&receiver);
        self.told.remove(&receiver);
    }

    /// Returns when the next learnt fact is to be forgotten.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.narrow.values().map(|(_, until)| *until).min()
    }

    /// Returns when MEADcast is tried again for receivers that it was not used for.
    pub fn next_trial(&self) -> Option<Instant> {
        self.avoided.values().copied().min()
    }

    pub fn expire(&mut self, now: Instant) {
        self.narrow.retain(|_, (_, until)| now < *until);
    }

    pub fn mtus(&self) -> BTreeMap<Ipv6Addr, usize> {
        self.narrow.iter().map(|(receiver, (mtu, _))| (*receiver, *mtu)).collect()
    }
}

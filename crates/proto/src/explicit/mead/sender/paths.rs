//! What routers and hosts say about packets of ours that did not arrive (ICMPv6 errors).
//!
//! - *Packet Too Big*: what the way to a receiver takes (RFC 8201). It is forgotten after ten minutes, so that a way that has become
//!   wider is found. A packet with a MEADcast header says so for all receivers that it was still to be delivered to.
//! - *Destination Unreachable*: who cannot be reached and why, told once a minute for each receiver. The receiver is still
//!   sent to. Where packets with a MEADcast header were turned away, its receivers get unicast for a minute; not where a way has
//!   gone, which happens when routes change, and unicast could not take either.
//!
//! Anybody may forge these. What they are believed is bounded: they must be about a packet that may be ours, longer than
//! what is said to fit, and nothing below IPv6's least MTU is believed.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use treecast_wire::{
    icmpv6::{Cause, Unreachable},
    mead::{Header, Kind},
};

use super::Event;
use crate::Instant;

/// Every link takes so much (RFC 8200, 5); less is not believed (RFC 8201, 4).
pub const LEAST_MTU: usize = 1280;

/// After so long a wider way is looked for (RFC 8201, 5.3).
const AGE: Duration = Duration::from_secs(600);

/// For so long MEADcast is not tried again where it was turned away.
const AVOIDANCE: Duration = Duration::from_secs(60);

/// Who cannot be reached is told of no more often.
const TELLING: Duration = Duration::from_secs(60);

/// A packet that an ICMPv6 error is about, with MEADcast's routing header or another.
#[derive(Debug)]
pub struct Lost<'a, H = Header> {
    /// Its destination.
    pub destination: Ipv6Addr,
    /// In bytes, with its IPv6 header.
    pub len: usize,
    /// Its routing header.
    pub header: Option<&'a H>,
    /// The UDP port that it was for, where there is no routing header.
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

/// Whether another packet to the same place might have got there. A port is asked about by whoever has got the packet.
pub(super) fn is_of_the_packet(why: Unreachable) -> bool {
    !matches!(why, Unreachable::Port | Unreachable::NoRoute | Unreachable::Address)
}

/// What is known of receivers; no more of them than there are.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Until when what is believed.
    narrow: BTreeMap<Ipv6Addr, (usize, Instant)>,
    /// Until when not to use MEADcast.
    avoided: BTreeMap<Ipv6Addr, Instant>,
    /// What was told last, and when.
    told: BTreeMap<Ipv6Addr, (Unreachable, Instant)>,
}

impl Paths {
    /// Takes note of what is said about a packet that was still to be delivered to these receivers, with a list of addresses or
    /// without. Returns what to tell of those of whom it is news.
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

    /// Receivers for whom MEADcast is not used now.
    pub fn avoided(&mut self, now: Instant) -> Vec<Ipv6Addr> {
        self.avoided.retain(|_, until| now < *until);
        self.avoided.keys().copied().collect()
    }

    pub fn forget(&mut self, receiver: Ipv6Addr) {
        self.narrow.remove(&receiver);
        self.avoided.remove(&receiver);
        self.told.remove(&receiver);
    }

    /// When something is to be forgotten.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.narrow.values().map(|(_, until)| *until).min()
    }

    /// When what was avoided is tried again.
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

//! The router's state as it is shown, and what may be changed of it.

use std::{collections::BTreeMap, net::Ipv6Addr};

use serde::{Deserialize, Serialize};
use treecast_wire::mead::Reason;

use super::shared::{COUNTERS, Counter};

/// All that a router tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub is_enabled: bool,
    pub min_dsts: u8,
    /// `rfc` or `linux-6.5`.
    pub dialect: String,
    pub interfaces: Vec<Interface>,
    /// Data packets that came in.
    pub packets: u64,
    pub copies: Copies,
    pub discovery: Discovery,
    /// Packets that broke a rule of the header, by the rule.
    pub malformed: BTreeMap<String, u64>,
    /// Other packets that ended here, by why.
    pub dropped: BTreeMap<String, u64>,
    /// Groups that receivers on this router's links have joined.
    pub groups: Vec<Group>,
    /// Where copies went lately, by the shortest way; those that went the kernel's own way are not among them.
    pub neighbours: Vec<Neighbour>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub addresses: Vec<Ipv6Addr>,
}

/// Packets that left instead of those that came in. A super-packet is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// For other routers.
    pub replicas: u64,
    /// Passed on whole, for the don't-replicate counter.
    pub whole: u64,
    /// Turned into unicast for the receivers behind this router.
    pub unicast: u64,
    /// Turned into unicast for receivers behind a router with few of them.
    pub premature: u64,
    /// For all listeners on a link.
    pub multicast: u64,
    /// Of all these: by the kernel's own way.
    pub by_kernel: u64,
    /// Of all these: that the device did not take.
    pub not_sent: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// Requests passed on.
    pub requests: u64,
    /// Others' responses passed on.
    pub responses: u64,
    pub answered: u64,
    /// Not answered, because too many were asked at once.
    pub limited: u64,
    /// Not answered, because the daemon was busy or could not send.
    pub unanswered: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    pub interface: String,
    pub address: Ipv6Addr,
    /// Datagrams, those of super-packets counted singly.
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub group: Ipv6Addr,
    /// Where it is listened to.
    pub interfaces: Vec<String>,
}

/// What can be changed while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    Enabled(bool),
    MinDsts(u8),
}

/// The program's counters by their names.
pub(super) struct Counted<'a>(pub &'a [u64; COUNTERS]);

impl Counted<'_> {
    pub fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    pub fn copies(&self) -> Copies {
        Copies {
            replicas: self.of(Counter::Replicas),
            whole: self.of(Counter::Whole),
            unicast: self.of(Counter::Unicast),
            premature: self.of(Counter::Premature),
            multicast: self.of(Counter::Multicast),
            by_kernel: self.of(Counter::ByKernel),
            not_sent: self.of(Counter::NotSent),
        }
    }

    pub fn malformed(&self) -> BTreeMap<String, u64> {
        let counts = Reason::ALL.iter().map(|reason| (reason.name().to_owned(), self.0[*reason as usize]));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let names = [
            ("hop-limit", Counter::HopLimit),
            ("nothing-to-deliver", Counter::NothingToDeliver),
            ("not-rewritten", Counter::NotRewritten),
            ("no-listener", Counter::NoListener),
        ];
        let counts = names.into_iter().map(|(name, counter)| (name.to_owned(), self.of(counter)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

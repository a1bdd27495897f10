//! The router's state as it is shown, and what may be changed of it.

use std::{collections::BTreeMap, fmt, net::Ipv6Addr};

use serde::{Deserialize, Serialize};
use treecast_proto::explicit::mead::router::Refused;
use treecast_wire::{
    mead::{Dialect, Reason},
    xcast,
};

use super::shared::{COUNTERS, Counter, FIRST_REFUSED, FIRST_XCAST_REASON, FIRST_XCAST_REFUSED};

/// All that a router tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub is_enabled: bool,
    /// Whether it only acts on data any more, and for how long.
    pub leaving: Option<Leaving>,
    pub min_dsts: u8,
    /// `rfc` or `linux-6.5`.
    pub dialect: String,
    pub interfaces: Vec<Interface>,
    /// MEADcast's data packets that came in.
    pub packets: u64,
    pub copies: Copies,
    pub discovery: Discovery,
    /// Packets that broke a rule of the header, by the rule.
    pub malformed: BTreeMap<String, u64>,
    /// What came in the dialect that this router does not speak, if anything has.
    pub other_dialect: Option<OtherDialect>,
    /// Other packets that ended here, by why.
    pub dropped: BTreeMap<String, u64>,
    /// Packets of which no copies were made, by why: passed on as if there were no router here.
    pub passed_on: BTreeMap<String, u64>,
    pub xcast: Xcast,
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

/// A router that answers no discovery any more, and acts on data until senders have found other ways.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// Since it has begun to.
    pub seconds: f64,
    /// Until it goes, whoever still sends.
    pub at_most_seconds: f64,
    /// Whether the daemon ends then. Otherwise it is disabled.
    pub ends: bool,
}

/// Senders or routers that speak the other dialect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherDialect {
    /// `rfc` or `linux-6.5`.
    pub dialect: String,
    /// Packets among the malformed ones that are right in that dialect.
    pub packets: u64,
    /// What a router is started with that acts on them.
    pub option: String,
    /// What a sender is started with whose packets this router acts on.
    pub sender_option: String,
}

impl fmt::Display for OtherDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dialect, packets, option, sender_option } = self;
        write!(
            f,
            "{packets} malformed packets are right in dialect {dialect}: run this router with {option}, or their sender with \
             {sender_option} (treecast send: --mead-dialect)"
        )
    }
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
    /// Number of these copies, and of Xcast's, that the kernel sends its own way.
    pub by_kernel: u64,
    /// Number of these copies, and of Xcast's, that a device did not take.
    pub not_sent: u64,
}

/// Xcast packets, and those that left instead of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xcast {
    /// That came in and were right.
    pub packets: u64,
    /// For other routers.
    pub copies: u64,
    /// Turned into unicast for the last destination on a way (X2U).
    pub unicast: u64,
    /// Turned into unicast early, because few destinations were left.
    pub premature: u64,
    /// For this router itself.
    pub local: u64,
    /// For destinations without a route.
    pub unrouted: u64,
    /// For all listeners on a link (X2M).
    pub multicast: u64,
    /// Multicast packets of senders on this router's links that became Xcast (M2X).
    pub encapsulated: u64,
    /// The channels of senders on this router's links, for which routers have registered here.
    pub registered: Vec<Registered>,
    /// Registrations that counted for nothing: forged, replayed, or too many.
    pub registrations_refused: u64,
    /// Registrations that this router could not send.
    pub registrations_unsent: u64,
    /// Packets that broke a rule of the header, by the rule.
    pub malformed: BTreeMap<String, u64>,
    /// Other packets that ended here, by why.
    pub dropped: BTreeMap<String, u64>,
    /// Packets of which no copies were made, by why: passed on as if there were no router here.
    pub passed_on: BTreeMap<String, u64>,
}

/// Who has registered for a channel in Xcast+.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub source: Ipv6Addr,
    pub group: Ipv6Addr,
    pub routers: Vec<Ipv6Addr>,
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
    /// At once: what is under way by this router is lost when it is disabled.
    Enabled(bool),
    /// Disabled when senders have found other ways.
    Leave,
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
        named(Reason::ALL.iter().map(|reason| (reason.name(), self.0[*reason as usize])))
    }

    /// Packets for receivers that this router serves.
    pub fn served(&self) -> u64 {
        self.of(Counter::Unicast) + self.of(Counter::Multicast)
    }

    /// What came in the other dialect than the router's.
    pub fn other_dialect(&self, own: Dialect) -> Option<OtherDialect> {
        let packets = self.of(Counter::OtherDialect);
        let option = |dialect: Dialect| format!("--dialect {}", dialect.name());
        (packets > 0).then(|| OtherDialect {
            dialect: own.other().name().to_owned(),
            packets,
            option: option(own.other()),
            sender_option: option(own),
        })
    }

    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let names = [
            ("hop-limit", Counter::HopLimit),
            ("nothing-to-deliver", Counter::NothingToDeliver),
            ("not-rewritten", Counter::NotRewritten),
            ("no-listener", Counter::NoListener),
        ];
        let names = names.into_iter().map(|(name, counter)| (name, self.of(counter)));
        named(names.chain(self.refused(FIRST_REFUSED, true)))
    }

    pub fn passed_on(&self) -> BTreeMap<String, u64> {
        named(self.refused(FIRST_REFUSED, false))
    }

    /// Packets of which no copies were made, and that ended here or did not, by why.
    fn refused(&self, first: usize, ended: bool) -> impl Iterator<Item = (&'static str, u64)> {
        let refused = Refused::ALL.into_iter().filter(move |why| why.ends_here() == ended);
        refused.map(move |why| (why.name(), self.0[first + why as usize]))
    }

    pub fn xcast(&self) -> Xcast {
        let reasons = xcast::Reason::ALL.iter();
        let malformed = reasons.map(|reason| (reason.name(), self.0[FIRST_XCAST_REASON + *reason as usize]));
        let dropped = [
            ("hop-limit", Counter::XcastHopLimit),
            ("no-listener", Counter::XcastNoListener),
            ("for-others", Counter::XcastForOthers),
        ];
        let dropped = dropped.into_iter().map(|(name, counter)| (name, self.of(counter)));
        Xcast {
            packets: self.of(Counter::XcastData),
            copies: self.of(Counter::XcastCopies),
            unicast: self.of(Counter::XcastUnicast),
            premature: self.of(Counter::XcastPremature),
            local: self.of(Counter::XcastLocal),
            unrouted: self.of(Counter::XcastUnrouted),
            multicast: self.of(Counter::XcastMulticast),
            encapsulated: 0,
            registered: Vec::new(),
            registrations_refused: 0,
            registrations_unsent: 0,
            malformed: named(malformed),
            dropped: named(dropped.chain(self.refused(FIRST_XCAST_REFUSED, true))),
            passed_on: named(self.refused(FIRST_XCAST_REFUSED, false)),
        }
    }
}

/// Returns the counts that are not 0, by name.
fn named(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

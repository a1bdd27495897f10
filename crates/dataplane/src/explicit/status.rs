//! The router's state as it is shown, and the settings that can be changed while it runs.

use std::{collections::BTreeMap, fmt, net::Ipv6Addr};

use serde::{Deserialize, Serialize};
use treecast_proto::explicit::mead::router::Refused;
use treecast_wire::{
    mead::{Dialect, Reason},
    xcast,
};

use super::shared::{COUNTERS, Counter, FIRST_REFUSED, FIRST_XCAST_REASON, FIRST_XCAST_REFUSED};

/// The state of a router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub is_enabled: bool,
    /// The departure of a router that is leaving: it acts on data, and answers no discovery. `None` when it is not.
    pub leaving: Option<Leaving>,
    pub min_dsts: u8,
    /// The name of the dialect: `rfc` or `linux-6.5`.
    pub dialect: String,
    pub interfaces: Vec<Interface>,
    /// The number of MEADcast data packets that arrived.
    pub packets: u64,
    pub copies: Copies,
    pub discovery: Discovery,
    /// The number of packets that broke a rule of the header, for each rule.
    pub malformed: BTreeMap<String, u64>,
    /// Packets of the dialect that this router does not speak, if any has arrived.
    pub other_dialect: Option<OtherDialect>,
    /// The number of packets that were dropped for other reasons, for each reason.
    pub dropped: BTreeMap<String, u64>,
    /// The number of packets that were not copied, for each reason. They were passed on as if there were no
    /// router here.
    pub passed_on: BTreeMap<String, u64>,
    pub xcast: Xcast,
    /// The groups that receivers on this router's links have joined.
    pub groups: Vec<DesignatedGroup>,
    /// The neighbours to which the program sent copies lately. Copies that the kernel sent are not among them.
    pub neighbours: Vec<Neighbour>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub addresses: Vec<Ipv6Addr>,
}

/// The departure of a router: it answers no discovery any more, and acts on data until senders have found other
/// ways.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// The number of seconds for which the router has been leaving.
    pub seconds: f64,
    /// The number of seconds after which the router goes at the latest, even when somebody still sends.
    pub at_most_seconds: f64,
    /// Whether the daemon ends then. Otherwise the router is disabled.
    pub ends: bool,
}

/// Packets of senders or routers that speak the other dialect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherDialect {
    /// The name of the dialect: `rfc` or `linux-6.5`.
    pub dialect: String,
    /// The number of malformed packets that would be right in that dialect.
    pub packets: u64,
    /// The option with which a router acts on such packets.
    pub option: String,
    /// The option with which a sender makes packets that this router acts on.
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

/// Counts of the packets that left in place of those that arrived. A super-packet counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// The number of packets for other routers.
    pub replicas: u64,
    /// The number of packets that were passed on whole, because of the don't-replicate counter.
    pub whole: u64,
    /// The number of unicast packets for receivers behind this router.
    pub unicast: u64,
    /// The number of unicast packets for receivers behind another router, which has too few of them.
    pub premature: u64,
    /// The number of multicast packets for the listeners on a link.
    pub multicast: u64,
    /// The number of these copies, and of Xcast's, that the kernel forwards on its own.
    pub by_kernel: u64,
    /// The number of these copies, and of Xcast's, that a network device refused.
    pub not_sent: u64,
}

/// Counts of the Xcast packets that arrived, and of the packets that left in their place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xcast {
    /// The number of well-formed Xcast packets that arrived.
    pub packets: u64,
    /// The number of packets for other routers.
    pub copies: u64,
    /// The number of unicast packets for the only destination that was left on a path (X2U).
    pub unicast: u64,
    /// The number of unicast packets that were made early, because few destinations were left.
    pub premature: u64,
    /// The number of packets for this router itself.
    pub local: u64,
    /// The number of packets for destinations without a route.
    pub unrouted: u64,
    /// The number of multicast packets for the listeners on a link (X2M).
    pub multicast: u64,
    /// The number of multicast packets from senders on this router's links that became Xcast (M2X).
    pub encapsulated: u64,
    /// The channels (a sender on one of this router's links, and a multicast group) in which other routers have
    /// registered with this one, because they have listeners (Xcast+).
    pub registered: Vec<Registered>,
    /// The number of registrations that did not count: forged, replayed, or too many.
    pub registrations_refused: u64,
    /// The number of registrations that this router could not send.
    pub registrations_unsent: u64,
    /// The number of packets that broke a rule of the header, for each rule.
    pub malformed: BTreeMap<String, u64>,
    /// The number of packets that were dropped for other reasons, for each reason.
    pub dropped: BTreeMap<String, u64>,
    /// The number of packets that were not copied, for each reason. They were passed on as if there were no
    /// router here.
    pub passed_on: BTreeMap<String, u64>,
}

/// The routers that have registered for a channel of Xcast+.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub source: Ipv6Addr,
    pub group: Ipv6Addr,
    pub routers: Vec<Ipv6Addr>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// The number of requests that were passed on.
    pub requests: u64,
    /// The number of other routers' responses that were passed on.
    pub responses: u64,
    pub answered: u64,
    /// The number of requests that were not answered because too many came at once.
    pub limited: u64,
    /// The number of requests that were not answered because the daemon was busy or could not send.
    pub unanswered: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    pub interface: String,
    pub address: Ipv6Addr,
    /// The number of datagrams. Each datagram of a super-packet counts.
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesignatedGroup {
    pub group: Ipv6Addr,
    /// The interfaces on whose links somebody listens to the group.
    pub interfaces: Vec<String>,
}

/// A setting that can be changed while the router runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Enables or disables the router at once. Packets that are on their way through it are lost when it is
    /// disabled.
    Enabled(bool),
    /// Disables the router once senders have found other ways.
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

    /// Returns the number of packets for receivers that this router serves.
    pub fn served(&self) -> u64 {
        self.of(Counter::Unicast) + self.of(Counter::Multicast)
    }

    /// Returns the packets of the dialect that the router does not speak.
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
            malformed: named(malformed),
            dropped: named(dropped.chain(self.refused(FIRST_XCAST_REFUSED, true))),
            passed_on: named(self.refused(FIRST_XCAST_REFUSED, false)),
            ..Xcast::default()
        }
    }
}

/// Returns the counts that are not 0, by name.
fn named(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

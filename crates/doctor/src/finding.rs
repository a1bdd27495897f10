//! A finding: the fault, what is to blame for it, what follows for a session, and what to do.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

/// The fault. The names are those of `docs/doctor.md` and of the JSON output. Findings go to doctors of other hosts, which must know
/// the kind: a new one needs a higher `network::message::VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No interface is up, can multicast, and has an address.
    NoInterface,
    /// A host has no route for groups.
    MissingRoute,
    /// A firewall of a host drops groups, or the messages by which hosts join them.
    HostFirewall,
    /// The kernel of a host drops packets because their sender is reached by another interface.
    RpFilter,
    /// A host gets packets and does not hand them to the program, for a reason that is not known.
    HostDrops,
    /// A host does not send the packets that its program has sent.
    NotSent,
    /// Packets leave with a smaller hop limit than their program has set.
    HopLimit,
    /// Nobody asks for listeners on a LAN.
    NoQuerier,
    /// A querier speaks an old version, so hosts do too, and source-specific multicast does not work.
    OldQuerier,
    /// A setting of a host forces an old version of IGMP or MLD.
    OldVersion,
    /// A switch sends groups to hosts that have not joined them.
    Flooding,
    /// A packet arrives several times, because it goes round in a loop.
    Loop,
    /// A packet arrives twice, by two ways.
    Duplicates,
    /// Packets pass in one direction only.
    OneWay,
    /// Groups do not cross routers that do ask for listeners.
    RouterFilter,
    /// Groups do not cross routers, and no router asks for listeners.
    NoMulticastRouting,
    /// Groups of some scopes do not arrive.
    Scope,
    /// Some groups of a scope do not arrive, and others of the same scope do.
    SomeGroups,
    /// Nothing arrives, and no more is known.
    Lost,
    /// Groups lose packets at a rate that unicast bears.
    StormControl,
    /// Groups and unicast lose packets at a rate.
    NarrowLink,
    /// Packets from a certain size on do not arrive.
    SizeLimit,
    /// Packets in fragments do not arrive, and whole ones do.
    Fragments,
    /// Super-packets that a host hands to its network card do not become packets.
    SuperPackets,
    /// A group comes late after a host has joined it.
    SlowJoin,
    /// A group still comes long after all hosts have left it.
    SlowLeave,
    /// IPv6 packets with a routing header or destination options are dropped.
    HeaderFilter,
    /// A host cannot be reached by unicast.
    Unreachable,
    /// A network card hands on packets one by one as they arrive.
    ReceiveOffload,
    /// A limit of the kernel is lower than treecast wants.
    SmallLimit,
    /// A table of rules exists that could not be read.
    Unread,
}

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Something does not work, or stops working after some minutes.
    Problem,
    /// Something is worth knowing.
    Remark,
}

/// The part that is to blame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "kebab-case")]
pub enum Blame {
    /// The host of this name.
    Host { name: String },
    /// The cable of this host, or the switch's port at its other end.
    LinkOf { host: String },
    /// The switches of the LAN with this prefix.
    Lan { prefix: String },
    /// The routers between two LANs.
    Routers { from: String, to: String },
    /// The router with this address.
    Router { address: IpAddr },
    /// The last router that a packet passes, or the hop behind it, which it does not reach.
    Hops { after: String, before: String },
    /// The querier with this address.
    Querier { address: IpAddr },
    /// Something between two hosts.
    Path { from: String, to: String },
    /// The network between all hosts.
    Network,
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { name } => write!(f, "host {name}"),
            Self::LinkOf { host } => write!(f, "the cable of {host}, or the switch's port at its other end"),
            Self::Lan { prefix } => write!(f, "the switches of the LAN {prefix}"),
            Self::Routers { from, to } => write!(f, "the routers between {from} and {to}"),
            Self::Router { address } => write!(f, "the router {address}"),
            Self::Hops { after, before } => {
                write!(f, "the router {after}, or what is between it and {before}")
            }
            Self::Querier { address } => write!(f, "the querier {address}"),
            Self::Path { from, to } => write!(f, "something between {from} and {to}"),
            Self::Network => f.write_str("the network between all hosts"),
        }
    }
}

/// The consequence for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Every fanout works.
    Any,
    /// Multicast works, but not source-specific.
    AnySource,
    /// Multicast works on one LAN, and not beyond it.
    OneLan,
    /// Multicast works up to a rate.
    LowerRate,
    /// Multicast works with shorter packets.
    ShorterPackets,
    /// Packets that list their receivers in a routing header do not arrive.
    NotMead,
    /// Some groups arrive, and others do not.
    OtherGroup,
    /// Multicast does not reach everybody.
    NotMulticast,
    /// Nothing is known, because the host took no part in the tests.
    Unknown,
    /// No fanout works.
    Nothing,
}

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: Kind,
    pub level: Level,
    pub blame: Blame,
    /// The observation. Several observations of the same thing are joined.
    pub seen: String,
    pub advice: Advice,
    /// The remedy, in words.
    pub todo: String,
}

impl Finding {
    /// A problem.
    pub fn problem(kind: Kind, blame: Blame, seen: impl Into<String>) -> Self {
        Self { kind, level: Level::Problem, blame, seen: seen.into(), advice: advice(kind), todo: todo(kind) }
    }

    /// Something worth knowing.
    pub fn remark(kind: Kind, blame: Blame, seen: impl Into<String>) -> Self {
        Self { level: Level::Remark, ..Self::problem(kind, blame, seen) }
    }
}

/// The number of observations that a finding tells. The others are counted.
const MAX_SEEN: usize = 4;

/// Joins findings of the same kind about the same thing. Problems come first.
pub fn joined(findings: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    let mut by_what = BTreeMap::<_, (Finding, Vec<String>)>::new();
    for finding in findings {
        let what = (finding.kind, finding.blame.clone());
        let (known, seen) = by_what.entry(what).or_insert_with(|| (finding.clone(), Vec::new()));
        known.level = known.level.min(finding.level);
        known.advice = known.advice.max(finding.advice);
        if !seen.contains(&finding.seen) {
            seen.push(finding.seen);
        }
    }
    let told = |(finding, mut seen): (Finding, Vec<String>)| {
        let more = seen.len().saturating_sub(MAX_SEEN);
        seen.truncate(MAX_SEEN);
        let more = if more > 0 { format!("; and {more} more such observations") } else { String::new() };
        Finding { seen: seen.join("; ") + &more, ..finding }
    };
    let mut all: Vec<_> = by_what.into_values().map(told).collect();
    all.sort_by_key(|finding| finding.level);
    all
}

/// The usual consequence of a fault for a session.
fn advice(kind: Kind) -> Advice {
    match kind {
        Kind::NoInterface => Advice::Nothing,
        Kind::Unreachable => Advice::Unknown,
        Kind::SomeGroups => Advice::OtherGroup,
        Kind::MissingRoute
        | Kind::Flooding
        | Kind::Fragments
        | Kind::SlowJoin
        | Kind::SlowLeave
        | Kind::ReceiveOffload
        | Kind::SmallLimit
        | Kind::Unread => Advice::Any,
        Kind::OldQuerier | Kind::OldVersion => Advice::AnySource,
        Kind::StormControl | Kind::NarrowLink => Advice::LowerRate,
        Kind::SizeLimit => Advice::ShorterPackets,
        Kind::HeaderFilter => Advice::NotMead,
        Kind::HopLimit | Kind::NoMulticastRouting | Kind::RouterFilter => Advice::OneLan,
        Kind::HostFirewall
        | Kind::RpFilter
        | Kind::HostDrops
        | Kind::NotSent
        | Kind::SuperPackets
        | Kind::NoQuerier
        | Kind::Loop
        | Kind::Duplicates
        | Kind::OneWay
        | Kind::Scope
        | Kind::Lost => Advice::NotMulticast,
    }
}

/// The remedy for a fault, in words.
fn todo(kind: Kind) -> String {
    let text = match kind {
        Kind::NoInterface => "bring an interface up, and give it an address: `ip link set IF up`",
        Kind::MissingRoute => {
            "add a route: `ip route add 224.0.0.0/4 dev IF`, or a default route; or name the interface in each program"
        }
        Kind::HostFirewall => {
            "let IGMP (IPv4 protocol 2), MLD (ICMPv6 types 130 to 132 and 143) and UDP to 224.0.0.0/4 and ff00::/8 pass this host's firewall"
        }
        Kind::RpFilter => {
            "route the sender's network by the interface where its packets arrive, or set net.ipv4.conf.all.rp_filter and net.ipv4.conf.IF.rp_filter to 2"
        }
        Kind::HostDrops => {
            "look for a packet filter on this host that nft does not show (tc, eBPF, iptables-legacy)"
        }
        Kind::NotSent => {
            "look for a packet filter on this host (nft, tc, eBPF, iptables-legacy) that drops what leaves"
        }
        Kind::HopLimit => {
            "find the rule that rewrites the hop limit (nft `ip ttl set`, iptables `-j TTL`), or the program's own option, and take it away"
        }
        Kind::NoQuerier => {
            "enable the switch's IGMP and MLD querier (Linux bridge: `ip link set BRIDGE type bridge mcast_querier 1`), or run `treecast mroute` on one host"
        }
        Kind::OldQuerier => "have this querier speak IGMPv3 and MLDv2, or replace it",
        Kind::OldVersion => {
            "set net.ipv4.conf.*.force_igmp_version and net.ipv6.conf.*.force_mld_version to 0"
        }
        Kind::Flooding => {
            "turn snooping on in the LAN's switches (Linux bridge: `mcast_snooping 1`), with one querier; otherwise every host gets every group"
        }
        Kind::Loop => "find the two devices that forward the group to each other, and turn one of them off",
        Kind::Duplicates => {
            "find the second way (two routers that both forward, or a relay), and turn one of them off"
        }
        Kind::OneWay => "check the cable, and the filters and storm control of the switch's port",
        Kind::RouterFilter => {
            "check that these routers route groups, and let UDP to 224.0.0.0/4 and ff00::/8 pass their filters"
        }
        Kind::NoMulticastRouting => "enable multicast routing on these routers: PIM, or `treecast mroute`",
        Kind::Scope => "choose a group of a scope that arrives, or change the scope boundary of the routers",
        Kind::SomeGroups => {
            "name a group that arrives; look at the switches' table of groups (it may be full, or two groups may share an entry), and at their filters"
        }
        Kind::Lost => {
            "run the doctor as root on all hosts, and with a third host on each LAN: it can then say where packets get lost"
        }
        Kind::StormControl => "raise or turn off the storm control of the switches for multicast",
        Kind::NarrowLink => "send no faster than this link, or replace it",
        Kind::SizeLimit => "send packets that fit, or give the links one MTU",
        Kind::Fragments => {
            "leave --block so small that packets are not cut into fragments, as it is by default, or let fragments pass"
        }
        Kind::SuperPackets => "turn off the card's segmentation: `ethtool -K IF tx-udp-segmentation off`",
        Kind::SlowJoin => {
            "look for what delays or loses the reports of IGMP and MLD; until then, have receivers join before the sender begins"
        }
        Kind::SlowLeave => {
            "have the querier and the switches heed leaves: IGMPv3 and MLDv2, and a last-member query interval of 1 s"
        }
        Kind::HeaderFilter => "let IPv6 extension headers pass (RFC 7872, RFC 9288), or use another fanout",
        Kind::Unreachable => "start the doctor's listener there, and let its TCP port pass the firewalls",
        Kind::ReceiveOffload => "turn it on: `ethtool -K IF gro on`",
        Kind::SmallLimit => "raise the limit with `sysctl -w`",
        Kind::Unread => "run the doctor as root",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_thing_is_told_once_and_problems_come_first() {
        let lan = || Blame::Lan { prefix: "10.0.0.0/24".into() };
        let all = joined([
            Finding::remark(Kind::SmallLimit, Blame::Network, "x"),
            Finding::problem(Kind::NoQuerier, lan(), "no IGMP query"),
            Finding::problem(Kind::NoQuerier, lan(), "no MLD query"),
            Finding::problem(Kind::NoQuerier, lan(), "no MLD query"),
        ]);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].level, all[0].seen.as_str()), (Level::Problem, "no IGMP query; no MLD query"));
    }

    #[test]
    fn a_finding_is_the_same_after_json() {
        let querier = Blame::Querier { address: [10, 0, 0, 1].into() };
        let finding = Finding::problem(Kind::OldQuerier, querier, "IGMPv1");
        let text = serde_json::to_string(&finding).unwrap();
        assert!(text.contains(r#""kind":"old-querier""#) && text.contains(r#""who":"querier""#), "{text}");
        assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
    }
}

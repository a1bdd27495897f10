//! Judges facts about one host, and returns findings. Touches no machine.

use super::facts::{Facts, Firewall, InterfaceFacts};
use crate::finding::{Advice, Blame, Finding, Kind, joined};

/// The receive buffer, in bytes, below which a fast session loses packets while the receiver is held up: 200 ms at 80 Mbit/s.
const WANTED_RMEM: u64 = 2 << 20;
/// The kernel's defaults. Below them, programs that join many groups or sources fail.
const WANTED_MEMBERSHIPS: u64 = 20;
const WANTED_SOURCES: u64 = 10;

/// The faults of a host, and what is worth knowing.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    interfaces(facts, &mut all);
    routes(facts, &mut all);
    versions(facts, &mut all);
    queriers(facts, &mut all);
    firewall(facts, &mut all);
    limits(facts, &mut all);
    offloads(facts, &mut all);
    joined(all)
}

fn own(facts: &Facts) -> Blame {
    Blame::Host { name: facts.name.clone() }
}

fn interfaces(facts: &Facts, all: &mut Vec<Finding>) {
    if !facts.interfaces.iter().any(InterfaceFacts::is_usable) {
        let seen = "no interface is up, can multicast and has an address";
        return all.push(Finding::problem(Kind::NoInterface, own(facts), seen));
    }
    let up = facts.interfaces.iter().filter(|interface| interface.is_up && !interface.is_port);
    for interface in up {
        let name = &interface.name;
        let seen = if interface.addresses.is_empty() {
            continue;
        } else if !interface.has_carrier {
            format!("{name} is up, but nothing is plugged in")
        } else if !interface.can_multicast {
            format!("{name} cannot multicast (`ip link set {name} multicast on`)")
        } else {
            continue;
        };
        all.push(Finding { advice: Advice::Any, ..Finding::remark(Kind::NoInterface, own(facts), seen) });
    }
    let with_ipv4 = |interface: &&InterfaceFacts| {
        interface.is_usable() && interface.addresses.iter().any(|it| it.is_ipv4())
    };
    let strict = facts.interfaces.iter().filter(with_ipv4).filter(|interface| interface.rp_filter == 1);
    if facts.interfaces.iter().filter(with_ipv4).count() > 1 {
        for interface in strict {
            let seen = format!(
                "{} drops IPv4 packets whose senders are reached by another interface (rp_filter 1)",
                interface.name
            );
            all.push(Finding { advice: Advice::Any, ..Finding::remark(Kind::RpFilter, own(facts), seen) });
        }
    }
}

fn routes(facts: &Facts, all: &mut Vec<Finding>) {
    let has = |is_ipv4: bool| {
        let addresses = facts.interfaces.iter().filter(|it| it.is_usable()).flat_map(|it| &it.addresses);
        addresses.into_iter().any(|address| address.is_ipv4() == is_ipv4)
    };
    for (prefix, route, is_ipv4) in
        [("224.0.0.0/4", &facts.route_ipv4, true), ("ff00::/8", &facts.route_ipv6, false)]
    {
        if has(is_ipv4) && route.is_none() {
            let seen =
                format!("no route for {prefix}: a program that names no interface cannot send to a group");
            all.push(Finding::problem(Kind::MissingRoute, own(facts), seen));
        }
    }
}

fn versions(facts: &Facts, all: &mut Vec<Finding>) {
    for interface in facts.interfaces.iter().filter(|it| it.is_usable()) {
        let name = &interface.name;
        if (1..3).contains(&interface.forced_igmp) {
            let seen = format!("{name} is forced to IGMPv{}", interface.forced_igmp);
            all.push(Finding::problem(Kind::OldVersion, own(facts), seen));
        }
        if interface.forced_mld == 1 {
            all.push(Finding::problem(Kind::OldVersion, own(facts), format!("{name} is forced to MLDv1")));
        }
        let told = |querier: &super::Querier| {
            querier.interface == *name && querier.address.is_ipv4() && querier.version < 3
        };
        let version = interface.igmp_version.filter(|version| *version < 3 && interface.forced_igmp == 0);
        if let Some(version) = version.filter(|_| !facts.queriers.heard.iter().any(told)) {
            let seen = format!("{name} has fallen back to IGMPv{version}: an old querier is on its link");
            all.push(Finding::problem(Kind::OldQuerier, Blame::Lan { prefix: interface.lan.clone() }, seen));
        }
    }
    for querier in &facts.queriers.heard {
        let (name, newest) = if querier.address.is_ipv4() { ("IGMP", 3) } else { ("MLD", 2) };
        if querier.version < newest {
            let seen =
                format!("{name}v{} queries on {}'s {}", querier.version, facts.name, querier.interface);
            all.push(Finding::problem(Kind::OldQuerier, Blame::Querier { address: querier.address }, seen));
        }
    }
}

/// Judges the LANs on which queries were listened for. A LAN is named by its prefix, so that several hosts on it say
/// the same.
fn queriers(facts: &Facts, all: &mut Vec<Finding>) {
    for interface in facts.interfaces.iter().filter(|it| it.is_usable() && it.has_carrier) {
        // An interface without a network of its own, such as a container's, has no LAN.
        let has_lan = interface.lan != interface.name;
        if !has_lan || !facts.queriers.listened_on.contains(&interface.name) {
            continue;
        }
        for (name, is_ipv4) in [("IGMP", true), ("MLD", false)] {
            let has_family = interface.addresses.iter().any(|address| address.is_ipv4() == is_ipv4);
            let heard = &facts.queriers.heard;
            let is_asked =
                heard.iter().any(|it| it.interface == interface.name && it.address.is_ipv4() == is_ipv4);
            // A kernel that speaks an old version has heard an old query.
            let is_old = is_ipv4 && interface.igmp_version.is_some_and(|version| version < 3);
            if has_family && !is_asked && !is_old {
                let seen = format!(
                    "no {name} query on {}'s {}, not even after a group was left: switches that snoop forget listeners after some minutes, or flood",
                    facts.name, interface.name
                );
                let blame = Blame::Lan { prefix: interface.lan.clone() };
                all.push(Finding::problem(Kind::NoQuerier, blame, seen));
            }
        }
    }
    for bridge in facts.bridges.iter().filter(|bridge| bridge.snoops && !bridge.is_querier) {
        let listened = facts.queriers.listened_on.contains(&bridge.name);
        if !facts.queriers.heard.iter().any(|it| it.interface == bridge.name) && !listened {
            let seen = format!("bridge {} snoops and asks nobody (mcast_querier 0)", bridge.name);
            all.push(Finding::remark(Kind::NoQuerier, own(facts), seen));
        }
    }
}

fn firewall(facts: &Facts, all: &mut Vec<Finding>) {
    match &facts.firewall {
        Firewall::Unread(why) => {
            let seen = format!("the firewall was not looked at: {why}");
            all.push(Finding { advice: Advice::Any, ..Finding::remark(Kind::Unread, own(facts), seen) });
        }
        Firewall::Read(verdicts) => {
            for verdict in verdicts {
                let has = |is_ipv4: bool| {
                    facts.interfaces.iter().flat_map(|it| &it.addresses).any(|it| it.is_ipv4() == is_ipv4)
                };
                let is_ipv4 = verdict.packet.contains("IPv4") || verdict.packet.contains("IGMP");
                if has(is_ipv4) {
                    let (packet, rule) = (&verdict.packet, &verdict.rule);
                    all.push(if verdict.is_certain {
                        Finding::problem(
                            Kind::HostFirewall,
                            own(facts),
                            format!("{packet} are dropped by {rule}"),
                        )
                    } else {
                        let seen =
                            format!("{packet} may be dropped by {rule}: a rule before it is not understood");
                        let todo = "test with another host whether groups arrive".to_owned();
                        Finding { todo, ..Finding::remark(Kind::Unread, own(facts), seen) }
                    });
                }
            }
        }
    }
}

fn limits(facts: &Facts, all: &mut Vec<Finding>) {
    let limits = &facts.limits;
    let wanted = [
        ("net.core.rmem_max", limits.rmem_max.filter(|_| !facts.is_root), WANTED_RMEM),
        ("net.ipv4.igmp_max_memberships", limits.igmp_max_memberships, WANTED_MEMBERSHIPS),
        ("net.ipv4.igmp_max_msf", limits.igmp_max_msf, WANTED_SOURCES),
        ("net.ipv6.mld_max_msf", limits.mld_max_msf, WANTED_SOURCES),
    ];
    for (name, value, wanted) in wanted {
        if let Some(value) = value.filter(|value| *value < wanted) {
            all.push(Finding::remark(
                Kind::SmallLimit,
                own(facts),
                format!("{name} is {value}, below {wanted}"),
            ));
        }
    }
    for (what, has) in [("sends", facts.has_gso), ("receives", facts.has_gro)] {
        if !has {
            let seen = format!(
                "the kernel {what} no UDP super-packets: a session takes several times the processor time"
            );
            all.push(Finding {
                todo: "use Linux 5.0 or later".into(),
                ..Finding::remark(Kind::SmallLimit, own(facts), seen)
            });
        }
    }
}

fn offloads(facts: &Facts, all: &mut Vec<Finding>) {
    // The ports of a bridge have no addresses.
    let cards = facts.interfaces.iter().filter(|it| it.is_card && it.is_up && (it.is_port || it.is_usable()));
    for interface in cards.filter(|it| it.has_gro == Some(false)) {
        let seen = format!(
            "{} hands packets on one by one as they arrive (generic-receive-offload is off): a receiver takes more processor time",
            interface.name
        );
        all.push(Finding::remark(Kind::ReceiveOffload, own(facts), seen));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Limits, Querier, Queriers, Verdict},
        *,
    };
    use crate::finding::Level;

    fn sound() -> Facts {
        let interface = InterfaceFacts {
            name: "eth0".into(),
            is_up: true,
            has_carrier: true,
            can_multicast: true,
            is_card: true,
            has_gro: Some(true),
            has_lro: Some(false),
            mtu: 1500,
            addresses: vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()],
            igmp_version: Some(3),
            ..InterfaceFacts::default()
        };
        let heard = |address: &str, version| Querier {
            interface: "eth0".into(),
            address: address.parse().unwrap(),
            version,
        };
        Facts {
            name: "a".into(),
            is_root: true,
            interfaces: vec![interface],
            route_ipv4: Some("eth0".into()),
            route_ipv6: Some("eth0".into()),
            limits: Limits { igmp_max_memberships: Some(20), rmem_max: Some(212_992), ..Limits::default() },
            queriers: Queriers {
                listened_on: vec!["eth0".into()],
                heard: vec![heard("192.0.2.9", 3), heard("fe80::9", 2)],
            },
            has_gso: true,
            has_gro: true,
            ..Facts::default()
        }
    }

    fn kinds(change: impl FnOnce(&mut Facts)) -> Vec<(Kind, Level)> {
        let mut facts = sound();
        change(&mut facts);
        findings(&facts).iter().map(|finding| (finding.kind, finding.level)).collect()
    }

    #[test]
    fn a_sound_host_has_no_finding() {
        assert_eq!(kinds(|_| ()), []);
    }

    #[test]
    fn each_fault_of_a_host_is_named() {
        use Kind::*;
        use Level::*;
        assert_eq!(kinds(|it| it.interfaces[0].is_up = false), [(NoInterface, Problem)]);
        assert_eq!(kinds(|it| it.route_ipv4 = None), [(MissingRoute, Problem)]);
        assert_eq!(kinds(|it| it.route_ipv6 = None), [(MissingRoute, Problem)]);
        assert_eq!(kinds(|it| it.interfaces[0].forced_igmp = 2), [(OldVersion, Problem)]);
        assert_eq!(kinds(|it| it.interfaces[0].forced_mld = 1), [(OldVersion, Problem)]);
        assert_eq!(kinds(|it| it.interfaces[0].igmp_version = Some(1)), [(OldQuerier, Problem)]);
        assert_eq!(kinds(|it| it.queriers.heard[0].version = 1), [(OldQuerier, Problem)]);
        assert_eq!(kinds(|it| _ = it.queriers.heard.pop()), [(NoQuerier, Problem)]);
        let verdict =
            || Verdict { packet: "incoming UDP to IPv4 groups".into(), rule: "x".into(), is_certain: true };
        assert_eq!(kinds(|it| it.firewall = Firewall::Read(vec![verdict()])), [(HostFirewall, Problem)]);
        assert_eq!(kinds(|it| it.firewall = Firewall::Unread("x".into())), [(Unread, Remark)]);
        assert_eq!(kinds(|it| it.is_root = false), [(SmallLimit, Remark)]);
        assert_eq!(kinds(|it| it.limits.igmp_max_memberships = Some(19)), [(SmallLimit, Remark)]);
        assert_eq!(kinds(|it| it.has_gso = false), [(SmallLimit, Remark)]);
        assert_eq!(kinds(|it| it.interfaces[0].has_gro = Some(false)), [(ReceiveOffload, Remark)]);
        let bridge = |it: &mut Facts| {
            (it.interfaces[0].has_gro, it.interfaces[0].is_card) = (Some(false), false);
        };
        assert_eq!(kinds(bridge), [], "packets reach a bridge as its ports hand them on");
        let port = |it: &mut Facts| {
            let port = InterfaceFacts {
                name: "port".into(),
                is_port: true,
                has_gro: Some(false),
                addresses: Vec::new(),
                ..it.interfaces[0].clone()
            };
            it.interfaces.push(port);
        };
        assert_eq!(kinds(port), [(ReceiveOffload, Remark)]);
    }

    #[test]
    fn a_family_that_a_host_lacks_is_no_fault() {
        let only_ipv6 = |it: &mut Facts| {
            it.interfaces[0].addresses.remove(0);
            it.queriers.heard.remove(0);
            it.route_ipv4 = None;
            it.firewall = Firewall::Read(vec![Verdict {
                packet: "incoming IGMP queries".into(),
                rule: "x".into(),
                is_certain: true,
            }]);
        };
        assert_eq!(kinds(only_ipv6), []);
        let only_ipv4 = |it: &mut Facts| {
            it.interfaces[0].addresses.pop();
            it.queriers.heard.pop();
            it.route_ipv6 = None;
        };
        assert_eq!(kinds(only_ipv4), []);
    }

    #[test]
    fn an_old_querier_is_blamed_and_not_the_host_that_heeds_it() {
        let mut facts = sound();
        facts.queriers.heard[0].version = 1;
        facts.interfaces[0].igmp_version = Some(1);
        let found = findings(&facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].blame, Blame::Querier { address: "192.0.2.9".parse().unwrap() });
    }
}

//! Collects the facts about this host: netlink, /proc/sys/net, /proc/net/igmp, nft, and the queries on its links.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    process::{Command, Output, Stdio},
    time::Duration,
};

use treecast_host::{
    ethtool, interface, interface::Interface, netlink::Netlink, netlink::bridges::Link, nftables, option,
    user,
};

use super::{
    facts::{BridgeFacts, Facts, Firewall, InterfaceFacts, Limits},
    firewall, queriers,
};

/// The time that a provoked query needs to come, and the time in which a host would notice that none does.
pub fn shortest_wait() -> Duration {
    queriers::SHORTEST_WAIT
}

/// Collects the facts about the host of the calling thread's network namespace, which is to be called `name`. As root, listens
/// for queriers for so long on every interface that sessions can use. With `only`, looks at the interface of that name alone.
///
/// # Errors
/// The error of netlink. Anything else that cannot be read is left out.
pub fn gather(name: &str, only: Option<&str>, listen: Duration) -> io::Result<Facts> {
    let mut netlink = Netlink::open()?;
    let links = netlink.bridges_and_links()?;
    let known = netlink.interfaces()?;
    let is_root = user::is_root();
    let versions = fs::read_to_string("/proc/thread-self/net/igmp").unwrap_or_default();
    let described = known
        .values()
        .filter(|interface| !interface.is_loopback && only.is_none_or(|only| interface.name == only));
    let interfaces = described
        .filter_map(|interface| {
            Some(describe(interface, links.iter().find(|link| link.index == interface.index)?, &versions))
        })
        .collect::<Vec<_>>();
    let usable = known.values().filter(|it| {
        interfaces.iter().any(|facts| facts.name == it.name && facts.is_usable() && facts.has_carrier)
    });
    let listening = is_root.then(|| queriers::listen(usable, listen));
    let bridges = links.iter().filter_map(|link| {
        let snooping = link.bridge?;
        Some(BridgeFacts { name: link.name.clone(), snoops: snooping.is_on, is_querier: snooping.is_querier })
    });
    Ok(Facts {
        name: name.to_owned(),
        is_root,
        route_ipv4: route(&known.values().collect::<Vec<_>>(), Ipv4Addr::new(239, 255, 255, 250).into()),
        route_ipv6: route(
            &known.values().collect::<Vec<_>>(),
            Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x114).into(),
        ),
        limits: limits(),
        firewall: read_firewall(
            is_root,
            interfaces.iter().find(|it| it.is_usable()).map_or("", |it| &it.name),
        ),
        interfaces,
        bridges: bridges.collect(),
        queriers: listening.unwrap_or_default(),
        has_gso: has_option(libc::UDP_SEGMENT, 1200),
        has_gro: has_option(libc::UDP_GRO, 1),
    })
}

fn describe(interface: &Interface, link: &Link, versions: &str) -> InterfaceFacts {
    let name = &interface.name;
    let offloads = ethtool::receive_offloads(name).ok();
    let larger =
        |key: &str| setting(&format!("ipv4/conf/all/{key}")).max(setting(&format!("ipv4/conf/{name}/{key}")));
    let forced = |family: &str, key: &str| {
        let all = setting(&format!("{family}/conf/all/{key}")).unwrap_or(0);
        if all != 0 { all } else { setting(&format!("{family}/conf/{name}/{key}")).unwrap_or(0) }
    };
    InterfaceFacts {
        name: name.clone(),
        is_up: link.is_up,
        has_carrier: link.has_carrier,
        can_multicast: link.can_multicast,
        is_card: !link.is_virtual,
        has_gro: offloads.map(|offloads| offloads.gro),
        has_lro: offloads.map(|offloads| offloads.lro),
        is_port: link.can_multicast && !interface.is_usable,
        mtu: interface.mtu,
        addresses: interface.addresses.clone(),
        lan: lan(interface),
        rp_filter: larger("rp_filter").unwrap_or(0) as u8,
        forced_igmp: forced("ipv4", "force_igmp_version") as u8,
        forced_mld: forced("ipv6", "force_mld_version") as u8,
        igmp_version: igmp_version(versions, name),
    }
}

/// The prefix of an interface's first network that is not link-local. Without one, it is that of link-local addresses, or the
/// interface's name.
pub fn lan(interface: &Interface) -> String {
    let networks = interface.networks.iter().filter(|(address, _)| match address {
        IpAddr::V4(address) => !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    });
    // IPv4 first, so that all hosts of a LAN that have it say the same.
    match networks.min_by_key(|(address, _)| address.is_ipv6()) {
        Some((IpAddr::V4(address), len)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(*len)).unwrap_or(0);
            format!("{}/{len}", Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        Some((IpAddr::V6(address), len)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(*len)).unwrap_or(0);
            format!("{}/{len}", Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        // Whoever is reached by a link-local address is on the same link.
        None if interface.addresses.iter().any(IpAddr::is_ipv6) => "fe80::/64".into(),
        None => interface.name.clone(),
    }
}

/// The version in `/proc/net/igmp`, whose lines for devices are "2 eth0 : 1 V3".
fn igmp_version(text: &str, name: &str) -> Option<u8> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let is_it = words.nth(1).is_some_and(|word| word.trim_end_matches(':') == name);
        is_it.then(|| words.last()?.strip_prefix('V')?.parse().ok()).flatten()
    })
}

/// The interface of packets to a group for which the program names none.
fn route(interfaces: &[&Interface], group: IpAddr) -> Option<String> {
    let any: IpAddr =
        if group.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = interface::source_towards(SocketAddr::new(any, 0), SocketAddr::new(group, 9)).ok()?;
    let by = interfaces.iter().find(|interface| interface.addresses.contains(&source));
    Some(by.map_or_else(|| source.to_string(), |interface| interface.name.clone()))
}

fn limits() -> Limits {
    Limits {
        rmem_max: setting("core/rmem_max"),
        igmp_max_memberships: setting("ipv4/igmp_max_memberships"),
        igmp_max_msf: setting("ipv4/igmp_max_msf"),
        mld_max_msf: setting("ipv6/mld_max_msf"),
        optmem_max: setting("core/optmem_max"),
    }
}

/// A number of /proc/sys/net.
fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?.trim().parse().ok()
}

fn has_option(name: i32, value: i32) -> bool {
    let socket =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)));
    socket.is_ok_and(|socket| option::set(&socket, libc::SOL_UDP, name, value).is_ok())
}

/// Judges the rules of nftables for packets at an interface.
fn read_firewall(is_root: bool, interface: &str) -> Firewall {
    if !is_root {
        return Firewall::Unread("only root can read it".into());
    }
    let legacy = ["ip_tables_names", "ip6_tables_names"]
        .map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    if legacy.iter().any(|names| names.as_ref().is_ok_and(|names| !names.trim().is_empty())) {
        return Firewall::Unread("it has rules of iptables-legacy; `iptables-legacy-save` shows them".into());
    }
    match nftables::has_tables() {
        Ok(false) => return Firewall::Read(Vec::new()),
        Ok(true) => {}
        // A kernel without nftables.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Firewall::Read(Vec::new()),
        Err(error) => return Firewall::Unread(error.to_string()),
    }
    match list_ruleset("-j") {
        Ok(output) if output.status.success() => {
            // Rules as people write them, to name them by.
            let listing = list_ruleset("-a").map(|listing| listing.stdout).unwrap_or_default();
            let (ruleset, listing) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&listing));
            let verdicts = firewall::dropped(&ruleset, &listing, interface);
            verdicts.map_or_else(|| Firewall::Unread("nft prints no JSON".into()), Firewall::Read)
        }
        Ok(output) => Firewall::Unread(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(_) => Firewall::Unread("it has rules, and the program nft is not there: install nftables".into()),
    }
}

/// The output of nft about all rules with this option.
fn list_ruleset(option: &str) -> io::Result<Output> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    Command::new("nft").args([option, "list", "ruleset"]).env("PATH", path).stdin(Stdio::null()).output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_proc() {
        let text = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                    1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
                    2\teth0      :     3      V1\n3\tlongname0: 1      V2\n";
        assert_eq!(
            ["lo", "eth0", "longname0", "none"].map(|name| igmp_version(text, name)),
            [Some(3), Some(1), Some(2), None]
        );
    }

    #[test]
    fn this_machine_can_be_described() {
        let facts = std::thread::spawn(|| {
            treecast_host::namespace::Namespace::enter_new().unwrap();
            gather("me", None, Duration::ZERO).unwrap()
        });
        let facts = facts.join().unwrap();
        assert_eq!((facts.name.as_str(), facts.interfaces.len(), facts.route_ipv4), ("me", 0, None));
        assert!(facts.has_gso && facts.has_gro && facts.limits.igmp_max_memberships.is_some());
    }
}

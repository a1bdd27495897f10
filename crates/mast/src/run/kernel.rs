//! The programs' changes to the kernel: ends of tunnels, routes by source, addresses.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use treecast_host::{
    interface::index_of,
    netlink::{
        Batch, Netlink,
        policy::{self, MAIN_TABLE, Rule, Side, TableRoute},
        requests::{self, Lifetimes},
        tunnels::{Carrier, LARGEST_OVERHEAD, Tunnel, add_tunnel},
    },
    option::path_mtu,
};

use crate::{
    Prefix,
    message::{MAX_PREFIXES, TunnelKind},
};

use super::{Error, doing};

/// The priority of the rules by which packets to the stub itself are routed by the main table. Those behind it, one for each provider, choose
/// a table by a packet's source.
const OWN_PRIORITY: u32 = 4_700;

/// The number of the first provider's table, and the priority of its rule.
const FIRST_TABLE: u32 = 4_701;

/// The most tables.
const MOST_TABLES: u32 = MAX_PREFIXES as u32;

/// The metric of a stub's prefix through its tunnel at the provider: any other route is better. A daemon of frr takes the upper
/// byte, 250, for the route's administrative distance, so BGP is better, too.
const LAST_METRIC: u32 = 0xfa00_1000;

/// The MTU of a tunnel, in bytes, if that of the path is not known: what Ethernet carries.
const USUAL_MTU: u32 = 1_500;
/// The smallest MTU of IPv6 in bytes.
const LEAST_MTU: u32 = 1_280;

/// The bits that the two inner addresses of a tunnel share.
const INNER_BITS: u8 = 127;

/// The times after which the address inside a new tunnel is set again.
const REPETITIONS: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];

/// Addresses inside new tunnels, which are set again some times. That changes nothing, but the kernel tells everybody of them again.
///
/// A daemon of frr needs that: its zebra hears of interfaces and addresses by two sockets. If it reads an address before its
/// interface, it forgets the address, and BGP never starts over the tunnel (seen with frr 8.4.4).
#[derive(Debug, Default)]
pub struct Repetitions(Vec<(Duration, u32, Ipv6Addr)>);

impl Repetitions {
    /// Takes note of a tunnel that was made at `now`.
    pub fn add(&mut self, now: Duration, interface: u32, inner_own: Ipv6Addr) {
        self.0.extend(REPETITIONS.map(|later| (now + later, interface, inner_own)));
    }

    /// Takes out the addresses that are due.
    fn due(&mut self, now: Duration) -> Vec<(u32, Ipv6Addr)> {
        let due = self.0.extract_if(.., |(at, ..)| *at <= now);
        due.map(|(_, interface, address)| (interface, address)).collect()
    }

    /// Sets the addresses that are due. Returns when the next ones are.
    pub fn run(&mut self, now: Duration, netlink: &Netlink) -> Option<Duration> {
        for (interface, address) in self.due(now) {
            // The tunnel may have been removed since.
            _ = set_inner(netlink, interface, address);
        }
        self.0.iter().map(|(at, ..)| *at).min()
    }
}

/// The program that a tunnel belongs to. One host can run both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Srms,
    Tms,
}

impl Owner {
    /// The number of the group of the program's interfaces, by which they are found again: the letters `ms` and `mt`.
    fn group(self) -> u32 {
        match self {
            Self::Srms => 0x6d73,
            Self::Tms => 0x6d74,
        }
    }
}

/// This host's end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub kind: TunnelKind,
    pub id: u32,
    pub local: Ipv6Addr,
    pub remote: Ipv6Addr,
    pub inner_own: Ipv6Addr,
    pub inner_peer: Ipv6Addr,
}

impl End {
    /// The name of the interface.
    pub fn interface(&self) -> String {
        format!("mast{:x}", self.id)
    }
}

/// The names of the tunnels of a program that are there.
pub fn tunnels_of(netlink: &mut Netlink, owner: Owner) -> io::Result<Vec<String>> {
    let interfaces = netlink.interfaces()?;
    let own = interfaces.into_values().filter(|it| it.group == owner.group() && is_tunnel(&it.name));
    Ok(own.map(|it| it.name).collect())
}

/// Whether an interface has a name that [`End::interface`] gives.
fn is_tunnel(name: &str) -> bool {
    let digits = name.strip_prefix("mast").unwrap_or_default();
    (1..=6).contains(&digits.len()) && digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Makes an end of a tunnel, in place of one with the same name. One that is there as wished stays, if `is_there` says so.
pub fn make_tunnel(netlink: &Netlink, end: &End, owner: Owner, is_there: bool) -> io::Result<u32> {
    let name = end.interface();
    if !is_there || index_of(&name).is_err() {
        netlink.delete_link(&name)?;
        let (local, remote) = (SocketAddr::new(end.local.into(), 0), SocketAddr::new(end.remote.into(), 9));
        let path = path_mtu(local, remote).unwrap_or(USUAL_MTU);
        let carrier = carrier(end.kind);
        let mtu = path.saturating_sub(LARGEST_OVERHEAD).max(LEAST_MTU);
        let mut batch = Batch::default();
        let (local, remote) = (end.local, end.remote);
        let group = owner.group();
        add_tunnel(&mut batch, &Tunnel { name: &name, carrier, id: end.id, local, remote, mtu, group });
        netlink.run(batch)?;
    }
    let index = index_of(&name)?;
    set_inner(netlink, index, end.inner_own)?;
    Ok(index)
}

/// Sets the address inside a tunnel.
fn set_inner(netlink: &Netlink, interface: u32, inner_own: Ipv6Addr) -> io::Result<()> {
    let mut batch = Batch::default();
    requests::add_address(&mut batch, interface, inner_own.into(), INNER_BITS);
    netlink.run(batch)
}

/// The kinds of tunnels that this host can make, out of those that are wished.
pub fn kinds_here(netlink: &Netlink, wished: Option<&[TunnelKind]>) -> Result<Vec<TunnelKind>, Error> {
    let all = [TunnelKind::Gre, TunnelKind::Ip6tnl, TunnelKind::Vxlan];
    let mut kinds = wished.unwrap_or(&all).to_vec();
    let name = format!("mastp{}", std::process::id() % 1_000_000);
    let mut failed = None;
    kinds.retain(|kind| match netlink.has_carrier(carrier(*kind), &name) {
        Ok(has) => has,
        Err(error) => {
            failed = Some(error);
            false
        }
    });
    match (kinds.is_empty(), failed) {
        (false, _) => Ok(kinds),
        (true, Some(error)) => {
            Err(doing("cannot find out which tunnels the kernel has (this needs root)")(error))
        }
        (true, None) => {
            let wished = wished.unwrap_or(&all).iter().map(TunnelKind::to_string).collect::<Vec<_>>();
            Err(Error::new(format!("this kernel has no tunnels of the kinds {}", wished.join(", "))))
        }
    }
}

fn carrier(kind: TunnelKind) -> Carrier {
    match kind {
        TunnelKind::Gre => Carrier::Gre,
        TunnelKind::Ip6tnl => Carrier::Ip6tnl,
        TunnelKind::Vxlan => Carrier::Vxlan,
    }
}

/// Sets the rules of a stub's router: packets to the stub are routed by the main table, and others by the table of the provider whose
/// prefix their source is in. Rules of an earlier run go.
pub fn set_rules(netlink: &Netlink, prefixes: &[Prefix], by_source: &[bool]) -> io::Result<()> {
    delete_rules(netlink)?;
    let mut batch = Batch::default();
    let rule = |side, prefix: Prefix, table, priority| Rule {
        side,
        prefix: prefix.address(),
        prefix_length: prefix.length(),
        table,
        priority,
    };
    for (number, (prefix, is_by_source)) in (0..).zip(prefixes.iter().zip(by_source)) {
        policy::add_rule(&mut batch, &rule(Side::Destination, *prefix, MAIN_TABLE, OWN_PRIORITY));
        if *is_by_source {
            let table = FIRST_TABLE + number;
            policy::add_rule(&mut batch, &rule(Side::Source, *prefix, table, table));
        }
    }
    netlink.run(batch)
}

/// Removes the rules of an earlier run.
fn delete_rules(netlink: &Netlink) -> io::Result<()> {
    (OWN_PRIORITY..FIRST_TABLE + MOST_TABLES).try_for_each(|priority| netlink.delete_rules(priority))
}

/// Removes the rules and tables of an earlier run.
pub fn delete_source_routes(netlink: &Netlink) -> io::Result<()> {
    delete_rules(netlink)?;
    (FIRST_TABLE..FIRST_TABLE + MOST_TABLES).try_for_each(|table| netlink.delete_default_routes(table))
}

/// Routes the packets from a provider's prefix by a gateway.
pub fn set_source_route(
    netlink: &Netlink,
    provider: usize,
    gateway: Ipv6Addr,
    interface: u32,
) -> io::Result<()> {
    let mut batch = Batch::default();
    policy::set_table_route(
        &mut batch,
        &TableRoute {
            prefix: Ipv6Addr::UNSPECIFIED,
            prefix_length: 0,
            table: FIRST_TABLE + provider as u32,
            gateway: Some(gateway),
            interface,
            metric: 0,
        },
    );
    netlink.run(batch)
}

/// Routes a stub's prefix through its tunnel, where there is no better route.
pub fn set_last_route(netlink: &Netlink, prefix: Prefix, end: &End, interface: u32) -> io::Result<()> {
    let mut batch = Batch::default();
    policy::set_table_route(
        &mut batch,
        &TableRoute {
            prefix: prefix.address(),
            prefix_length: prefix.length(),
            table: MAIN_TABLE,
            gateway: Some(end.inner_peer),
            interface,
            metric: LAST_METRIC,
        },
    );
    netlink.run(batch)
}

/// Sets an address and its lifetimes, or changes them.
pub fn set_address(
    netlink: &Netlink,
    interface: u32,
    address: Ipv6Addr,
    prefix_length: u8,
    times: Lifetimes,
) -> io::Result<()> {
    let mut batch = Batch::default();
    requests::set_address(&mut batch, interface, IpAddr::V6(address), prefix_length, times);
    netlink.run(batch)
}

/// Removes an address. One that is gone is no error.
pub fn remove_address(
    netlink: &Netlink,
    interface: u32,
    address: Ipv6Addr,
    prefix_length: u8,
) -> io::Result<()> {
    let mut batch = Batch::default();
    requests::delete_address(&mut batch, interface, IpAddr::V6(address), prefix_length);
    match netlink.run(batch) {
        Err(error) if treecast_host::netlink::is_refused_with(&error, libc::EADDRNOTAVAIL) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_new_tunnel_is_set_again_three_times() {
        let mut repetitions = Repetitions::default();
        repetitions.add(Duration::from_secs(10), 7, Ipv6Addr::LOCALHOST);
        let due =
            |repetitions: &mut Repetitions, millis| repetitions.due(Duration::from_millis(millis)).len();
        let times = [10_499, 10_500, 11_999, 12_000, 18_000, 90_000];
        assert_eq!(times.map(|millis| due(&mut repetitions, millis)), [0, 1, 0, 1, 1, 0]);
    }

    #[test]
    fn tunnels_are_told_from_other_interfaces_by_their_names() {
        let names = ["mast1", "mastffffff", "mast", "mast1234567", "mastp12", "mastA", "eth0"];
        assert_eq!(names.map(is_tunnel), [true, true, false, false, false, false, false]);
    }
}

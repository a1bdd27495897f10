//! Chooses the addresses of networks and their members where a file leaves that open, and checks whether what a file
//! says of them can be.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Subnet;
use super::draft::{Draft, DraftNetwork};
use super::error::SpecError;

/// A network's prefixes.
type Subnets = (Subnet<Ipv4Addr>, Subnet<Ipv6Addr>);

/// The properties that IPv4 and IPv6 addresses share.
pub trait Address: Copy + PartialEq + Display + Into<IpAddr> {
    const BITS: u8;
    fn to_number(self) -> u128;
    /// `number` is less than 2^[`Self::BITS`].
    fn from_number(number: u128) -> Self;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;

    fn to_number(self) -> u128 {
        u32::from(self).into()
    }

    fn from_number(number: u128) -> Self {
        (number as u32).into()
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;

    fn to_number(self) -> u128 {
        self.into()
    }

    fn from_number(number: u128) -> Self {
        number.into()
    }
}

impl<A: Address> Subnet<A> {
    pub fn contains(&self, address: A) -> bool {
        let differing = address.to_number() ^ self.base.to_number();
        differing.checked_shr(u32::from(A::BITS - self.length)).unwrap_or(0) == 0
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }

    /// The numbers of its hosts: not that of the network, nor that of all hosts.
    fn hosts(&self) -> std::ops::Range<u128> {
        let size = 1u128.checked_shl(u32::from(A::BITS - self.length)).unwrap_or(u128::MAX);
        1..size - 1
    }
}

impl<A: Display> Display for Subnet<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}

/// Every address that somebody has.
#[derive(Default)]
pub(super) struct Owners {
    names: HashMap<IpAddr, String>,
    /// The next host number to try, by the network's address.
    next: HashMap<IpAddr, u128>,
}

impl Owners {
    /// `fixed`, or the next address of `subnet` that nobody has; `None` when there is none.
    pub fn take<A: Address>(&mut self, fixed: Option<A>, subnet: Subnet<A>) -> Option<A> {
        if fixed.is_some() {
            return fixed;
        }
        let hosts = subnet.hosts();
        let next = self.next.entry(subnet.base.into()).or_insert(hosts.start);
        while *next < hosts.end {
            let address = A::from_number(subnet.base.to_number() + *next);
            *next += 1;
            if !self.names.contains_key(&address.into()) {
                return Some(address);
            }
        }
        None
    }
}

impl Draft<'_> {
    /// Notes the addresses that the file gives, each to one owner.
    pub(super) fn claim_fixed_addresses(&self, owners: &mut Owners) -> Result<(), SpecError> {
        let of_nodes = self.nodes.iter().flat_map(|node| {
            node.loopback_v6.iter().map(|address| (IpAddr::from(*address), &node.name, node.line))
        });
        let of_members = self.networks.iter().flat_map(|network| &network.members).flat_map(|member| {
            let fixed = [member.v4.map(IpAddr::from), member.v6.map(IpAddr::from)];
            fixed.into_iter().flatten().map(|address| (address, &member.node, member.line))
        });
        for (address, node, line) in of_nodes.chain(of_members) {
            if let Some(other) = owners.names.insert(address, node.clone()) {
                let message = format!("{address} of {node} is an address of {other} too: change one of them");
                return Err(self.wrong(line, message));
            }
        }
        Ok(())
    }

    /// The given subnets, and the next free ones where none is given.
    pub(super) fn assign_subnets(&self) -> Result<Vec<Subnets>, SpecError> {
        let (mut taken_v4, mut taken_v6) = (Vec::new(), Vec::new());
        for network in &self.networks {
            self.reserve(&mut taken_v4, network.v4, network)?;
            self.reserve(&mut taken_v6, network.v6, network)?;
            self.check_inside(network)?;
        }
        let mut next = NUMBERED_STEP;
        let mut assigned = Vec::with_capacity(self.networks.len());
        for network in &self.networks {
            let block = (network.members.len() as u32 + 2).next_power_of_two().max(NUMBERED_STEP);
            let fits = |base: &u32| {
                let (v4, v6) = numbered(*base, block);
                base.is_multiple_of(block)
                    && !taken_v4.iter().any(|other| v4.overlaps(other))
                    && !taken_v6.iter().any(|other| v6.overlaps(other))
            };
            let base = (next..1 << 24).step_by(NUMBERED_STEP as usize).find(fits);
            let used_up = || self.wrong(network.line, "the addresses of 10.0.0.0/8 are used up");
            let base = base.ok_or_else(used_up)?;
            let (v4, v6) = numbered(base, block);
            if network.v4.is_none() || network.v6.is_none() {
                next = base + block;
            }
            assigned.push((network.v4.unwrap_or(v4), network.v6.unwrap_or(v6)));
        }
        Ok(assigned)
    }

    fn reserve<A: Address>(
        &self,
        taken: &mut Vec<Subnet<A>>,
        subnet: Option<Subnet<A>>,
        network: &DraftNetwork,
    ) -> Result<(), SpecError> {
        let Some(subnet) = subnet else { return Ok(()) };
        if let Some(other) = taken.iter().find(|other| subnet.overlaps(other)) {
            let name = &network.name;
            let message =
                format!("{subnet} of {name} overlaps {other} of another network: change one of them");
            return Err(self.wrong(network.line, message));
        }
        taken.push(subnet);
        Ok(())
    }

    /// An address that is given must be in a prefix that is given.
    fn check_inside(&self, network: &DraftNetwork) -> Result<(), SpecError> {
        for member in &network.members {
            let outside = [outside(member.v4, network.v4), outside(member.v6, network.v6)];
            if let Some(address) = outside.into_iter().flatten().next() {
                let message = format!(
                    "{address} of {} is outside its network {}: give the network a prefix that holds it",
                    member.node, network.name
                );
                return Err(self.wrong(member.line, message));
            }
        }
        Ok(())
    }
}

fn outside<A: Address>(address: Option<A>, subnet: Option<Subnet<A>>) -> Option<IpAddr> {
    let outside = address.filter(|address| !subnet.is_some_and(|subnet| subnet.contains(*address)));
    outside.map(Into::into)
}

/// Networks have numbers that are multiples of this, so that IPv4 prefixes end after a whole byte.
const NUMBERED_STEP: u32 = 256;

/// The subnets of 10.0.0.0/8 and fd00::/48 that start at `base`, the former with `block` addresses.
fn numbered(base: u32, block: u32) -> Subnets {
    let v4 = Subnet { base: Ipv4Addr::from((10 << 24) | base), length: 32 - block.trailing_zeros() as u8 };
    let number = (base / NUMBERED_STEP) as u16;
    (v4, Subnet { base: Ipv6Addr::new(0xfd00, 0, 0, number, 0, 0, 0, 0), length: 64 })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::topology::Topology;

    #[test]
    fn every_address_of_a_large_lab_is_inside_its_network_and_given_once() {
        let topology = Topology::parse("tree:levels=5,clients=60").unwrap();
        let mut seen = HashSet::new();
        for network in &topology.networks {
            for member in &network.members {
                assert!(network.v4.contains(member.v4) && network.v6.contains(member.v6));
                assert!(seen.insert(IpAddr::from(member.v4)) && seen.insert(IpAddr::from(member.v6)));
            }
        }
    }

    #[test]
    fn a_lan_of_a_thousand_has_a_prefix_that_holds_them() {
        let topology = Topology::parse("lan:clients=1000").unwrap();
        let lan = &topology.networks[0];
        assert_eq!(
            (lan.v4.to_string(), lan.v6.to_string()),
            ("10.0.4.0/22".into(), "fd00:0:0:4::/64".into())
        );
        assert_eq!(lan.members[1000].v4.to_string(), "10.0.7.233");
    }
}

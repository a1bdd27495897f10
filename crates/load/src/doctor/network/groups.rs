//! The groups that are tried: one of every scope. The port is the doctor's own, so nobody else's packets come.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A group that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub address: IpAddr,
    /// What its scope is called.
    pub name: &'static str,
    /// Whether routers never forward it.
    pub is_link_local: bool,
    /// Whether it is joined from one source only.
    pub is_source_specific: bool,
}

const fn v4(octets: [u8; 4], name: &'static str) -> Group {
    let address = IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]));
    Group { address, name, is_link_local: false, is_source_specific: false }
}

/// IPv6 groups are transient ones of their scope (RFC 4291, section 2.7): nobody has them for another purpose.
const fn v6(first: u16, third: u16, name: &'static str) -> Group {
    let address = IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0x7463, third));
    Group { address, name, is_link_local: false, is_source_specific: false }
}

/// All groups. A request names a group by its place here, so a listener never joins or sends to another one.
pub const GROUPS: [Group; 19] = [
    v4([239, 255, 77, 84], "239.255, local"),
    Group { is_link_local: true, ..v4([224, 0, 0, 254], "224.0.0, link-local") },
    v4([224, 0, 1, 20], "224.0.1, global"),
    Group { is_source_specific: true, ..v4([232, 77, 67, 84], "232, source-specific") },
    v4([233, 252, 0, 84], "233, GLOP"),
    v4([239, 192, 77, 84], "239.192, organisation"),
    v6(0xff15, 0x6472, "ff05, site"),
    Group { is_link_local: true, ..v6(0xff12, 0x6472, "ff02, link-local") },
    v6(0xff18, 0x6472, "ff08, organisation"),
    v6(0xff1e, 0x6472, "ff0e, global"),
    Group {
        is_source_specific: true,
        address: IpAddr::V6(Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x8000, 0x6472)),
        ..v6(0, 0, "ff3e, source-specific")
    },
    v4([239, 255, 77, 85], "239.255, joined by some"),
    v6(0xff15, 0x6473, "ff05, joined by some"),
    v4([239, 255, 77, 87], "239.255, joined late"),
    v6(0xff15, 0x6475, "ff05, joined late"),
    v4([239, 255, 77, 88], "239.255, joined late at the second look"),
    v6(0xff15, 0x6476, "ff05, joined late at the second look"),
    v4([239, 255, 77, 89], "239.255, joined late at the third look"),
    v6(0xff15, 0x6477, "ff05, joined late at the third look"),
];

/// The place of the group that most tests use, by family.
pub const fn main(is_ipv4: bool) -> usize {
    if is_ipv4 { 0 } else { 6 }
}

/// The place of the group that only some hosts on a LAN join, by family.
pub const fn joined_by_some(is_ipv4: bool) -> usize {
    if is_ipv4 { 11 } else { 12 }
}

/// The number of looks, each with groups of its own to join late. A switch that does not heed leaves still sends those of an
/// earlier look.
pub const LOOKS: usize = 3;

/// The place of the group that hosts join while others send to it, and leave again, by look (from 0) and family.
pub const fn visited(look: usize, is_ipv4: bool) -> usize {
    13 + 2 * look + if is_ipv4 { 0 } else { 1 }
}

/// The places of the groups, one of each scope, that everybody joins.
pub const EACH_SCOPE: std::ops::Range<usize> = 0..11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_where_they_are_looked_for() {
        for is_ipv4 in [true, false] {
            let late = (0..LOOKS).map(|look| visited(look, is_ipv4));
            for place in [main(is_ipv4), joined_by_some(is_ipv4)].into_iter().chain(late) {
                assert_eq!(GROUPS[place].address.is_ipv4(), is_ipv4);
                assert!(!GROUPS[place].is_link_local && !GROUPS[place].is_source_specific);
            }
        }
        assert!(GROUPS.iter().all(|group| group.address.is_multicast()));
        let mut addresses: Vec<_> = GROUPS.iter().map(|group| group.address).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), GROUPS.len());
    }
}

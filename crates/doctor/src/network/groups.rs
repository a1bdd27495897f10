//! The groups that are tried: several of every scope. The port is the doctor's own, so nobody else's packets come.
//!
//! Some switches forward one group of a scope and block the next (librecast-updates-2022, appendix B). So each run draws groups
//! of its own beside the fixed ones.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::{Index, Range},
};

/// A group that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestGroup {
    pub address: IpAddr,
    /// The name of its scope.
    pub name: &'static str,
    /// Whether routers never forward it.
    pub is_link_local: bool,
    /// Whether it is joined from one source only.
    pub is_source_specific: bool,
}

const fn v4(octets: [u8; 4], name: &'static str) -> TestGroup {
    let address = IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]));
    TestGroup { address, name, is_link_local: false, is_source_specific: false }
}

/// IPv6 groups are transient ones of their scope (RFC 4291, section 2.7): nobody has them for another purpose.
const fn v6(first: u16, third: u16, name: &'static str) -> TestGroup {
    let address = IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0x7463, third));
    TestGroup { address, name, is_link_local: false, is_source_specific: false }
}

/// The groups that each run tries, and those that its further tests use.
const FIXED: [TestGroup; 19] = [
    v4([239, 255, 77, 84], "239.255, local"),
    TestGroup { is_link_local: true, ..v4([224, 0, 0, 254], "224.0.0, link-local") },
    v4([224, 0, 1, 20], "224.0.1, global"),
    TestGroup { is_source_specific: true, ..v4([232, 77, 67, 84], "232, source-specific") },
    v4([233, 252, 0, 84], "233, GLOP"),
    v4([239, 192, 77, 84], "239.192, organisation"),
    v6(0xff15, 0x6472, "ff05, site"),
    TestGroup { is_link_local: true, ..v6(0xff12, 0x6472, "ff02, link-local") },
    v6(0xff18, 0x6472, "ff08, organisation"),
    v6(0xff1e, 0x6472, "ff0e, global"),
    TestGroup {
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

/// The places of the fixed groups, one of each scope, that everybody joins.
const EACH_SCOPE: Range<usize> = 0..11;

/// The largest number of groups that a person may name. With them, hosts stay below the kernel's limit of 20 IPv4 groups for a
/// socket (`igmp_max_memberships`).
pub const MAX_NAMED: usize = 4;

/// The scopes of which a run draws groups, by the place of the fixed one, and how many. The other scopes have no range that nobody
/// uses.
const DRAWN: [(usize, u8); 9] = [(0, 2), (3, 1), (4, 2), (5, 2), (6, 2), (7, 2), (8, 2), (9, 2), (10, 2)];

/// The groups of a run. A request names a group by its place here. They follow from the run's number and from the groups that the
/// person has named, so a listener joins and sends to no others.
#[derive(Debug, Clone)]
pub struct Groups(Vec<TestGroup>);

impl Default for Groups {
    fn default() -> Self {
        Self(FIXED.to_vec())
    }
}

impl Groups {
    /// The groups of a run with this number, and those that a person has named: at most [`MAX_NAMED`], and no group of a single host.
    pub fn of_run(run: u64, named: &[IpAddr]) -> Self {
        let mut groups = Self::default();
        for (place, number) in
            DRAWN.iter().flat_map(|(place, count)| (0..*count).map(|number| (*place, number)))
        {
            let mut draws = (0..).map(|attempt| drawn(&FIXED[place], run.wrapping_add(attempt), number));
            let new = draws.find(|drawn| !groups.has(drawn.address));
            groups.0.extend(new);
        }
        for address in named.iter().filter(|address| is_beyond_host(**address)).take(MAX_NAMED) {
            if !groups.has(*address) {
                groups.0.push(of_person(*address));
            }
        }
        groups
    }

    /// Whether a group has this address. A socket joins each group once.
    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|group| group.address == address)
    }

    /// The group at a place. `None` if there is none.
    pub fn get(&self, place: usize) -> Option<&TestGroup> {
        self.0.get(place)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The places of the groups, several of each scope, that everybody joins.
    pub fn of_scopes(&self) -> impl Iterator<Item = usize> + use<> {
        EACH_SCOPE.chain(FIXED.len()..self.0.len())
    }

    /// The places of the groups of the same scope, this one among them.
    pub fn siblings(&self, place: usize) -> impl Iterator<Item = usize> {
        self.of_scopes().filter(move |other| self[*other].name == self[place].name)
    }
}

impl Index<usize> for Groups {
    type Output = TestGroup;

    /// # Panics
    /// If there is no group at this place.
    fn index(&self, place: usize) -> &TestGroup {
        &self.0[place]
    }
}

/// The fixed group at a place, such as those of visits, which every run has. `None` if there is none.
pub fn fixed(place: usize) -> Option<&'static TestGroup> {
    FIXED.get(place)
}

/// Whether a group's packets may leave the host that sends them.
pub fn is_beyond_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_multicast(),
        IpAddr::V6(address) => address.is_multicast() && address.octets()[1] & 0xf > 1,
    }
}

/// Draws a group beside a fixed one. Of two that are drawn, one is even and one is odd, because switches sort groups by their low bits.
fn drawn(beside: &TestGroup, run: u64, number: u8) -> TestGroup {
    let mixed = (run ^ u64::from(number) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let drawn = ((mixed >> 32) as u32 & !1) | u32::from(number & 1);
    let address = match beside.address {
        IpAddr::V4(fixed) => {
            // 233.252.0.0/24 is for documentation and tests (RFC 5771, section 9.2).
            let bits = if fixed.octets()[0] == 233 { 8 } else { 16 };
            let mask = (1 << bits) - 1;
            IpAddr::V4(Ipv4Addr::from_bits(fixed.to_bits() & !mask | drawn & mask))
        }
        // Group numbers from 0x80000000 on are for hosts to draw (RFC 3307, section 4.3).
        IpAddr::V6(fixed) => {
            let low = u128::from(drawn | 0x8000_0000);
            IpAddr::V6(Ipv6Addr::from_bits(fixed.to_bits() & !u128::from(u32::MAX) | low))
        }
    };
    TestGroup { address, ..*beside }
}

/// A group that a person has named. It is of the scope of the fixed group that has its prefix.
fn of_person(address: IpAddr) -> TestGroup {
    let prefix = |address: IpAddr| match address {
        IpAddr::V4(address) => u32::from(u16::from_be_bytes([address.octets()[0], address.octets()[1]])),
        // The scope, whatever the flags are (RFC 4291, section 2.7).
        IpAddr::V6(address) => u32::from(address.octets()[1] & 0xf),
    };
    let of_scope = |group: &&TestGroup| {
        !group.is_source_specific
            && group.address.is_ipv4() == address.is_ipv4()
            && prefix(group.address) == prefix(address)
    };
    let (is_link_local, is_source_specific) = match address {
        IpAddr::V4(address) => (address.octets()[..3] == [224, 0, 0], address.octets()[0] == 232),
        IpAddr::V6(address) => (address.octets()[1] & 0xf == 2, address.octets()[1] & 0xf0 == 0x30),
    };
    let known = FIXED[EACH_SCOPE].iter().find(of_scope).filter(|_| !is_source_specific);
    let name = known.map_or(if is_source_specific { "source-specific" } else { "named" }, |known| known.name);
    TestGroup { address, name, is_link_local, is_source_specific }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_where_they_are_looked_for() {
        for is_ipv4 in [true, false] {
            let late = (0..LOOKS).map(|look| visited(look, is_ipv4));
            for place in [main(is_ipv4), joined_by_some(is_ipv4)].into_iter().chain(late) {
                assert_eq!(FIXED[place].address.is_ipv4(), is_ipv4);
                assert!(!FIXED[place].is_link_local && !FIXED[place].is_source_specific);
            }
        }
    }

    #[test]
    fn each_run_draws_groups_of_its_own_in_the_ranges_of_their_scopes() {
        let distinct = |groups: &Groups| {
            let mut addresses: Vec<_> = groups.0.iter().map(|group| group.address).collect();
            addresses.sort();
            addresses.dedup();
            addresses.len()
        };
        for run in 1..2000 {
            let groups = Groups::of_run(run, &[]);
            assert!(groups.0.iter().all(|group| group.address.is_multicast()));
            // Two of 256 addresses for documentation may be the same.
            assert!(distinct(&groups) >= groups.len() - 3, "{groups:?}");
            for place in groups.of_scopes().filter(|place| *place >= FIXED.len()) {
                let beside = &groups[groups.siblings(place).next().unwrap()];
                assert_eq!(of_person(groups[place].address).is_source_specific, beside.is_source_specific);
                assert_eq!(groups[place].is_link_local, of_person(groups[place].address).is_link_local);
            }
        }
        assert_ne!(Groups::of_run(1, &[]).0, Groups::of_run(2, &[]).0);
        assert_eq!(Groups::of_run(7, &[]).0, Groups::of_run(7, &[]).0);
    }

    /// A socket that joins a group twice gets an error, which looked like a limit of the host.
    #[test]
    fn no_group_is_tried_twice_whatever_a_run_draws_and_a_person_names() {
        let named = ["239.255.77.84", "239.255.1.2", "239.255.1.2"].map(|text| text.parse().unwrap());
        for run in 0..5_000 {
            let groups = Groups::of_run(run << 40 | run, &named);
            let addresses: std::collections::BTreeSet<_> =
                groups.0.iter().map(|group| group.address).collect();
            assert_eq!(addresses.len(), groups.len(), "run {run}");
        }
    }

    #[test]
    fn a_named_group_is_of_its_scope_and_one_of_a_single_host_is_left_out() {
        let named = ["239.255.1.2", "ff35::1:2", "ff11::1", "127.0.0.1", "225.1.2.3"];
        let named = named.map(|text| text.parse().unwrap());
        let groups = Groups::of_run(1, &named);
        let told: Vec<_> = groups.0.iter().rev().take(3).map(|group| group.name).collect();
        assert_eq!(told, ["named", "source-specific", "239.255, local"]);
        assert_eq!(groups.siblings(0).count(), 4);
    }
}

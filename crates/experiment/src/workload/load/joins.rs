//! Groups that hosts join beside the one of the packets, to fill the tables of the switches.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use socket2::Socket;
use treecast_host::{interface::index_of, option::join_on_link};

use crate::site::{Site, enter};

/// The most groups that one socket may join with the kernel's usual limits (igmp_max_memberships, optmem_max).
const PER_SOCKET_V4: usize = 20;
const PER_SOCKET_V6: usize = 100;

/// The distance between groups: the last byte of the address stays the same.
const STEP: u32 = 256;

/// Makes a host join `count` groups beside `group`. It leaves them when the sockets are dropped.
pub fn join(site: &dyn Site, host: &str, group: IpAddr, count: usize) -> io::Result<Vec<Socket>> {
    let interface = site.attachment(host)?.interface;
    let per_socket = if group.is_ipv4() { PER_SOCKET_V4 } else { PER_SOCKET_V6 };
    let groups: Vec<IpAddr> = (1..=count as u32).map(|number| other(group, number)).collect();
    enter(site, host, || {
        let index = index_of(&interface)?;
        groups.chunks(per_socket).map(|groups| join_on_link(index, groups)).collect()
    })?
}

/// The group with this number, from 1, behind `group`.
fn other(group: IpAddr, number: u32) -> IpAddr {
    match group {
        IpAddr::V4(group) => Ipv4Addr::from(u32::from(group).wrapping_add(number * STEP)).into(),
        IpAddr::V6(group) => Ipv6Addr::from(u128::from(group).wrapping_add(u128::from(number * STEP))).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_groups_have_the_scope_of_the_first_one() {
        let group = |text: &str, number| other(text.parse().unwrap(), number).to_string();
        assert_eq!(group("239.3.2.2", 1), "239.3.3.2");
        assert_eq!(group("239.3.2.2", 10_000), "239.42.18.2");
        assert_eq!(group("ff02::8", 1), "ff02::108");
        assert_eq!(group("ff15::8", 10_000), "ff15::27:1008");
    }
}

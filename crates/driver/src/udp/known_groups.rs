//! Multicast groups that no session can have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::remedies::{Advised, Remedy};

/// Refuses groups at which nothing arrives, and groups that all hosts or routers listen to.
///
/// # Errors
/// The reason why the group cannot be used, in words.
pub fn check_group(address: IpAddr) -> Result<(), Advised> {
    match address {
        IpAddr::V4(group) if is_reserved_v4(group) => {
            Err(format!("{group} belongs to another protocol (IANA): take one like 239.255.1.1").into())
        }
        IpAddr::V6(group) if group.is_multicast() => usable_v6(group),
        _ => Ok(()),
    }
}

/// Whether an IPv4 group is in the Local Network Control Block (RFC 5771, section 4), or is one that many hosts
/// listen to: NTP, PTP, SSDP.
fn is_reserved_v4(group: Ipv4Addr) -> bool {
    let known = [[224, 0, 1, 1], [224, 0, 1, 129], [239, 255, 255, 250]];
    group.octets()[..3] == [224, 0, 0] || known.contains(&group.octets())
}

/// Group IDs that are assigned in every scope, or in a wider one (IANA's registry of IPv6 multicast addresses):
/// all nodes, all routers, SSDP, mDNS, NTP, DHCP servers.
const RESERVED_IDS: [u128; 6] = [1, 2, 0xc, 0xfb, 0x101, 0x1_0003];

fn usable_v6(group: Ipv6Addr) -> Result<(), Advised> {
    let (flags, scope) = (group.octets()[1] >> 4, group.octets()[1] & 0xf);
    // RFC 4291, section 2.7: packets to scope 0 may not be sent, and scope 1 does not leave the interface.
    if scope <= 1 {
        let line = format!("{group} never leaves its host: take one of a wider scope, like ff15::1");
        return Err(Advised::by(Remedy::Loopback, line));
    }
    // RFC 4291, section 2.7: a group without flags is assigned by IANA. All such groups of link scope are
    // refused.
    let id = group.to_bits() & (u128::MAX >> 16);
    match flags {
        0 if scope == 2 || RESERVED_IDS.contains(&id) => Err(format!(
            "{group} belongs to another protocol (IANA): take one like ff15::1, or ff12::1 for one link"
        )
        .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_never_leave_their_host_or_are_others_are_refused() {
        let check = |group: &str| check_group(group.parse().unwrap());
        for refused in ["ff01::1", "ff10::1", "ff11::42"] {
            assert!(check(refused).unwrap_err().contains("never leaves its host"), "{refused}");
        }
        for refused in ["ff02::1", "ff05::2", "ff0e::101", "224.0.0.1", "224.0.1.1", "239.255.255.250"] {
            assert!(check(refused).unwrap_err().contains("belongs to another protocol"), "{refused}");
        }
        for good in ["ff12::1", "ff15::1", "232.1.1.1", "239.255.1.1", "192.0.2.1"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }
}

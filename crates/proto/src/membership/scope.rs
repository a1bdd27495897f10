//! The scopes of groups and sources, which decide what a router forwards.

use std::net::IpAddr;

/// Whether packets to `group` may leave their link: not in 224.0.0.0/24, and of an IPv6 scope wider than
/// link-local (RFC 4291, 2.7; RFC 9777, 6; RFC 9776, 6).
pub fn is_routable_group(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.is_multicast() && group.octets()[..3] != [224, 0, 0],
        IpAddr::V6(group) => group.is_multicast() && group.octets()[1] & 0xf > 2,
    }
}

/// Whether `group` is for source-specific multicast only: 232.0.0.0/8 or ff3x::/32 (RFC 4607, 1).
pub fn is_source_specific(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.octets()[0] == 232,
        IpAddr::V6(group) => {
            let octets = group.octets();
            octets[0] == 0xff && octets[1] >> 4 == 3 && octets[2..4] == [0, 0]
        }
    }
}

/// Whether packets from `source` may leave their link.
pub fn is_routable_source(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(source) => {
            !(source.is_unspecified()
                || source.is_link_local()
                || source.is_loopback()
                || source.is_multicast()
                || source.is_broadcast())
        }
        IpAddr::V6(source) => {
            !(source.is_unspecified()
                || source.is_loopback()
                || source.is_multicast()
                || source.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_groups() {
        let check = |group: &str| {
            let group = group.parse().expect("an address");
            (is_routable_group(group), is_source_specific(group))
        };
        assert_eq!(check("ff02::1:ff00:1"), (false, false));
        assert_eq!(check("ff01::1"), (false, false));
        assert_eq!(check("ff15::42"), (true, false));
        assert_eq!(check("ff3e::8000:1"), (true, true));
        assert_eq!(check("ff32::8000:1"), (false, true));
        assert_eq!(check("ff3e:30:2001:db8::1"), (true, false), "prefix-based, but not source-specific");
        assert_eq!(check("2001:db8::1"), (false, false));
        assert_eq!(check("224.0.0.251"), (false, false));
        assert_eq!(check("224.0.1.1"), (true, false));
        assert_eq!(check("232.1.1.1"), (true, true));
    }

    #[test]
    fn sources_of_a_link_stay_there() {
        let check = |source: &str| is_routable_source(source.parse().expect("an address"));
        assert!(check("2001:db8::1") && check("fd00::1") && check("192.0.2.1"));
        assert!(!check("fe80::1") && !check("::") && !check("169.254.3.4") && !check("0.0.0.0"));
    }
}

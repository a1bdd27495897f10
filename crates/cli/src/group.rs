//! `--group`: a multicast group, with or without a port.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use treecast::unstable::check_group;

use crate::advice;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    pub address: IpAddr,
    pub port: Option<u16>,
    /// The group and port that the text would name if its last part were meant as a port, written without
    /// brackets.
    seeming: Option<(Ipv6Addr, u16)>,
}

impl Group {
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.parse::<IpAddr>().ok();
        let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
        let (address, port) = match (bare.or_else(|| bracketed().map(IpAddr::V6)), text.parse::<SocketAddr>())
        {
            (Some(address), _) => (address, None),
            (None, Ok(both)) if both.port() != 0 => (both.ip(), Some(both.port())),
            _ => return Err(expected(text)),
        };
        check_group(address).map_err(|why| advice::advised(&why))?;
        let seeming = split_port(text).filter(|_| bare.is_some());
        Ok(Self { address, port, seeming })
    }

    pub fn with_default_port(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or(port))
    }

    /// Advice for an address whose last part may be meant as a port. Such an address is a valid group, so it is
    /// not refused.
    pub fn hint(&self) -> Option<String> {
        let (address, (group, port)) = (self.address, self.seeming?);
        Some(format!(
            "{address} is taken for a group without a port: for port {port} write [{group}]:{port}, or if it is meant so \
             [{address}]"
        ))
    }
}

fn expected(text: &str) -> String {
    match split_port(text) {
        Some((group, port)) => {
            format!("an IPv6 address before a port stands in brackets: write [{group}]:{port}")
        }
        None => {
            "expected an address like ff15::1 or 239.255.1.1, or one with a port like [ff15::1]:5000".into()
        }
    }
}

/// Splits a group and a port that are written without brackets: `ff15::42:7001`. The last four digits may also
/// belong to the address. They are taken for a port if they are decimal, above the ports of the system, and
/// follow a group.
fn split_port(text: &str) -> Option<(Ipv6Addr, u16)> {
    let (group, port) = text.rsplit_once(':')?;
    let group = group.parse().ok().filter(Ipv6Addr::is_multicast)?;
    let is_decimal = port.len() >= 4 && port.bytes().all(|digit| digit.is_ascii_digit());
    Some((group, port.parse().ok().filter(|port| is_decimal && *port >= 1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_have_a_port() {
        let group = Group::parse("[ff15::7]:5000").unwrap();
        assert_eq!((group.address, group.port), ("ff15::7".parse().unwrap(), Some(5000)));
        assert_eq!(Group::parse("[ff15::7]").unwrap().with_default_port(9), "[ff15::7]:9".parse().unwrap());
        assert_eq!(Group::parse("239.255.0.1").unwrap().port, None);
        for bad in ["ff15::7:port", "[ff15::7]:0", "[ff15::7]:99999", "host", "[239.255.0.1]"] {
            assert!(Group::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_without_brackets_is_noticed_where_it_is_likely() {
        let hint = |text: &str| Group::parse(text).unwrap().hint();
        for text in ["ff15::42:7001", "ff15:0:0::42:7001"] {
            let said = hint(text).unwrap();
            assert!(said.contains("write [ff15::42]:7001") && said.contains("so [ff15::42:7001]"), "{said}");
        }
        assert!(hint("ff15::0:7001").unwrap().contains("write [ff15::]:7001"));
        for meant in
            ["ff15::7:1", "ff15::42", "ff15::7001", "ff15::42:70a1", "ff15::42:0999", "[ff15::42:7001]"]
        {
            assert_eq!(hint(meant), None, "{meant}");
        }
        assert_eq!(hint("ff15:1:2:3:4:5:6:7001"), None, "nothing would be left of the address");
        assert!(Group::parse("ff15::42:50000").unwrap_err().contains("write [ff15::42]:50000"));
    }

    #[test]
    fn groups_that_cannot_work_or_are_others_are_refused() {
        for refused in ["ff01::1", "ff11::42", "[ff01::42]:5000", "ff10::1"] {
            assert!(Group::parse(refused).unwrap_err().contains("never leaves its host"), "{refused}");
        }
        let others =
            ["ff02::1", "ff02::4242", "ff05::2", "ff0e::101", "224.0.0.1", "224.0.0.251:5000", "224.0.1.1"];
        for refused in others {
            assert!(Group::parse(refused).unwrap_err().contains("belongs to another protocol"), "{refused}");
        }
        for good in [
            "ff12::1",
            "ff05::42",
            "ff0e::4242",
            "ff1e::42",
            "ff32::8000:1",
            "224.0.2.1",
            "232.1.1.1",
            "239.0.0.1",
        ] {
            assert!(Group::parse(good).is_ok(), "{good}");
        }
    }
}

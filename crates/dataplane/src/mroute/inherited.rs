//! Reads from procfs what a kernel's multicast router still does for a daemon that has ended: its interfaces
//! and entries.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::Slot;

/// Interfaces and entries that an earlier daemon has left behind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// The names of the interfaces, by their slot.
    pub interfaces: BTreeMap<Slot, String>,
    pub entries: Vec<InheritedEntry>,
}

/// The entry for the packets of one source to one group.
#[derive(Debug, PartialEq, Eq)]
pub struct InheritedEntry {
    pub source: IpAddr,
    pub group: IpAddr,
    pub from: Slot,
    pub to: Vec<Slot>,
}

impl Inherited {
    /// Reads what the IPv6 router has.
    pub fn ipv6() -> io::Result<Self> {
        let address = |text: &str| Some(text.parse::<Ipv6Addr>().ok()?.into());
        Self::read("ip6_mr_vif", "ip6_mr_cache", address)
    }

    /// Reads what the IPv4 router has.
    pub fn ipv4() -> io::Result<Self> {
        // The kernel prints the four bytes, as they lie in memory, as one number.
        let address =
            |text: &str| Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?.to_ne_bytes()).into());
        Self::read("ip_mr_vif", "ip_mr_cache", address)
    }

    fn read(interfaces: &str, entries: &str, address: impl Fn(&str) -> Option<IpAddr>) -> io::Result<Self> {
        let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let interfaces = parse_interfaces(&read(interfaces)?);
        let entries = read(entries)?.lines().filter_map(|line| parse_entry(line, &address)).collect();
        Ok(Self { interfaces, entries })
    }
}

/// Lines that begin with a number and a name, behind a heading.
fn parse_interfaces(text: &str) -> BTreeMap<Slot, String> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

/// Group, source, incoming interface, three counts, and an "interface:TTL" for each outgoing one. None: it is the heading,
/// or packets that wait for an entry.
fn parse_entry(line: &str, address: impl Fn(&str) -> Option<IpAddr>) -> Option<InheritedEntry> {
    let mut words = line.split_whitespace();
    let (group, source) = (address(words.next()?)?, address(words.next()?)?);
    let from = words.next()?.parse().ok()?;
    let to = words.skip(3).filter_map(|word| word.split(':').next()?.parse().ok()).collect();
    Some(InheritedEntry { source, group, from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_prints() {
        let interfaces = "Interface      BytesIn  PktsIn  BytesOut PktsOut Flags\n \
                          0 eth0          12       1         0       0 00000\n\
                          11 a-long-name-15        0       0         0       0 00000\n";
        let names = [(0, "eth0".to_owned()), (11, "a-long-name-15".to_owned())];
        assert_eq!(parse_interfaces(interfaces), BTreeMap::from(names));

        let ipv6 = |text: &str| Some(text.parse::<Ipv6Addr>().ok()?.into());
        let heading =
            "Group                            Origin                           Iif      Pkts  Bytes";
        let waiting = "ff15:0000:0000:0000:0000:0000:0000:0042 fd00:0000:0000:0000:0000:0000:0000:0001 -1         \
                       0        0        0";
        let entry = "ff15:0000:0000:0000:0000:0000:0000:0042 fd00:0000:0000:0000:0000:0000:0000:0001 0        \
                     11      220        0  1:1   12:1  ";
        assert_eq!([heading, waiting].map(|line| parse_entry(line, ipv6)), [None, None]);
        let expected = InheritedEntry {
            source: "fd00::1".parse().expect("an address"),
            group: "ff15::42".parse().expect("an address"),
            from: 0,
            to: vec![1, 12],
        };
        assert_eq!(parse_entry(entry, ipv6), Some(expected));
    }
}

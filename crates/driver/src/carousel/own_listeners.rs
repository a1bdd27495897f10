//! Finds out who listens to groups on the loopback interface. Hosts send no reports there, but the kernel lists which groups
//! programs of this host have joined.

use std::{fs, io, net::IpAddr};

/// Watches whether any program of this host listens to groups.
#[derive(Debug)]
pub(crate) struct OwnListeners {
    interface: String,
    groups: Vec<IpAddr>,
    was_heard: bool,
    /// The last answer.
    heard: Vec<bool>,
}

impl OwnListeners {
    pub fn new(interface: &str, groups: Vec<IpAddr>) -> Self {
        let heard = vec![true; groups.len()];
        Self { interface: interface.to_owned(), groups, was_heard: false, heard }
    }

    /// Whether no listener has been seen yet.
    pub fn is_presumed(&self) -> bool {
        !self.was_heard
    }

    /// Whether somebody listens to each of the groups. Before the first listener has come, somebody is taken to listen to all. The
    /// answer stays where the kernel's tables cannot be read.
    pub fn look(&mut self) -> Vec<bool> {
        let (Ok(v4), Ok(v6)) = (read("igmp"), read("igmp6")) else { return self.heard.clone() };
        let is_joined = |group: &IpAddr| match group {
            IpAddr::V4(group) => v4_groups(&v4, &self.interface).any(|joined| joined == group.octets()),
            IpAddr::V6(group) => v6_groups(&v6, &self.interface).any(|joined| joined == group.to_bits()),
        };
        let heard: Vec<bool> = self.groups.iter().map(is_joined).collect();
        self.was_heard |= heard.contains(&true);
        if self.was_heard {
            self.heard = heard;
        }
        self.heard.clone()
    }
}

/// Reads one of the kernel's tables. A protocol that the kernel does not have has no table.
fn read(table: &str) -> io::Result<String> {
    match fs::read_to_string(format!("/proc/thread-self/net/{table}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// The groups of an interface in the kernel's table `igmp`. A line of an interface is followed by indented ones of its groups, whose
/// addresses are numbers as this machine reads their octets.
fn v4_groups<'a>(table: &'a str, interface: &str) -> impl Iterator<Item = [u8; 4]> + 'a {
    let is_interface = |line: &str| !line.starts_with(char::is_whitespace);
    let begins = move |line: &&str| is_interface(line) && line.split_whitespace().nth(1) == Some(interface);
    let lines = table.lines().skip_while(|line| !begins(line)).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !is_interface(line)).collect();
    let first = lines.into_iter().filter_map(|line| line.split_whitespace().next());
    first.filter_map(|address| Some(u32::from_str_radix(address, 16).ok()?.to_ne_bytes()))
}

/// The groups of an interface in the kernel's table `igmp6`, which has a line for each: a number, the interface, and the address.
fn v6_groups<'a>(table: &'a str, interface: &'a str) -> impl Iterator<Item = u128> + 'a {
    table.lines().filter_map(move |line| {
        let mut words = line.split_whitespace().skip(1);
        let address = words.next().filter(|name| *name == interface).and(words.next())?;
        u128::from_str_radix(address, 16).ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    use super::*;

    #[test]
    fn a_program_that_joins_and_leaves_is_noticed() {
        let groups = ["239.7.8.9", "ff15::7:8:9"].map(|group| group.parse().unwrap());
        let mut listeners = OwnListeners::new("lo", groups.to_vec());
        assert_eq!(listeners.look(), [true, true], "nobody has been there");
        assert!(listeners.is_presumed());
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        v4.join_multicast_v4(&Ipv4Addr::new(239, 7, 8, 9), &Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!(listeners.look(), [true, false]);
        assert!(!listeners.is_presumed());
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        v6.join_multicast_v6(&"ff15::7:8:9".parse().unwrap(), 1).unwrap();
        assert_eq!(listeners.look(), [true, true]);
        drop(v4);
        assert_eq!(listeners.look(), [false, true]);
        drop(v6);
        assert_eq!(listeners.look(), [false, false]);
        let elsewhere =
            OwnListeners { was_heard: true, ..OwnListeners::new("eth77", groups.to_vec()) }.look();
        assert_eq!(elsewhere, [false, false]);
    }
}

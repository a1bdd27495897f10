//! Speaks MLD on a designated router's links: it takes in reports, with the Ethernet addresses that they come
//! from, and sends queries.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsFd, BorrowedFd},
};

use socket2::{SockFilter, Socket};
use treecast_host::{
    classic_bpf::{JUMP_EQUAL, JUMP_GREATER, JUMP_GREATER_OR_EQUAL, LOAD_BYTE, LOAD_HALF, RETURN},
    interface::Interface,
    netlink::{Netlink, Route},
    packet::{self, Addressee},
    raw,
};
use treecast_proto::{
    Instant,
    explicit::{
        mead::listeners::{Host, Listeners},
        xcast::registration::Channel,
    },
};
use treecast_wire::mld;

use super::taps::Taps;

/// Frames taken off an interface before anything else is looked at.
const BATCH: usize = 256;

const ETHERNET_LEN: usize = 14;

/// The registrations of listeners on a designated router's links.
pub struct Registrations {
    listeners: Listeners,
    links: Taps,
    out: Socket,
}

impl Registrations {
    pub fn open() -> io::Result<Self> {
        let out = raw::open_mld()?;
        raw::set_up_mld(&out, &[])?;
        Ok(Self { listeners: Listeners::default(), links: Taps::new()?, out })
    }

    /// Listens on these interfaces, as far as they have a link-local address, and on no others from now on.
    pub fn attend<'a>(
        &mut self,
        now: Instant,
        interfaces: impl Iterator<Item = &'a Interface>,
    ) -> io::Result<()> {
        let link_local = |interface: &Interface| match interface.ipv6 {
            Some(IpAddr::V6(address)) => Some((interface.index, address)),
            _ => None,
        };
        let addresses: BTreeMap<u32, Ipv6Addr> = interfaces.filter_map(link_local).collect();
        let interfaces: Vec<_> = addresses.keys().copied().collect();
        let gone = self.links.attend(&interfaces, listen)?;
        gone.into_iter().for_each(|interface| self.listeners.remove_link(interface));
        for (interface, address) in addresses {
            self.listeners.add_link(now, interface, address);
        }
        Ok(())
    }

    /// Takes in the reports that have come, and sends the messages that are due.
    pub fn work(&mut self, now: Instant) -> io::Result<()> {
        for interface in self.links.ready()? {
            for _ in 0..BATCH {
                let Some((frame, to)) = self.links.next(interface) else { break };
                if to != Addressee::Leaving
                    && let Some((host, from, said)) = message(frame)
                {
                    self.listeners.handle(now, interface, host, from, said);
                }
            }
        }
        while let Some((interface, said)) = self.listeners.poll(now) {
            if let Some((own, said)) = self.listeners.address(interface).zip(said.to_wire::<Ipv6Addr>()) {
                // A link that is down has nobody to say it to; it is said again later.
                let to = said.destination().into();
                let _ = raw::send_from(&self.out, interface, own, to, &said.to_bytes());
            }
        }
        Ok(())
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.listeners.deadline()
    }

    pub fn groups(&self) -> BTreeMap<Ipv6Addr, BTreeSet<u32>> {
        self.listeners.groups()
    }

    /// Returns at most `most` channels that hosts on the links have joined.
    pub fn channels(&self, now: Instant, most: usize) -> BTreeSet<Channel> {
        self.listeners.channels(now, most)
    }

    /// Whether this router reaches a receiver by the group: the receiver is on one of its links, and has
    /// reported that it listens.
    pub fn serves(
        &self,
        now: Instant,
        netlink: &mut Netlink,
        (source, receiver): (Ipv6Addr, Ipv6Addr),
        group: Ipv6Addr,
    ) -> io::Result<bool> {
        let Some(Route { interface, .. }) = netlink.route(receiver.into(), None)? else { return Ok(false) };
        if !self.links.has(interface) {
            return Ok(false);
        }
        // A host behind another router has no entry there.
        let host = netlink.neighbour(interface, receiver)?;
        Ok(host.is_some_and(|host| self.listeners.serves(now, interface, host, source, group)))
    }
}

impl AsFd for Registrations {
    /// Readable when something has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.links.as_fd()
    }
}

fn listen(interface: u32) -> io::Result<Socket> {
    let socket = packet::open(interface, packet::IPV6)?;
    socket.attach_filter(&is_mld())?;
    packet::take_all_groups(&socket, interface)?;
    Ok(socket)
}

/// IPv6 (ethertype at 12) with hop-by-hop options (next header at 20) and then ICMPv6 (at 54) of type 130 to 132 or 143
/// (at 62), in classic BPF.
fn is_mld() -> [SockFilter; 12] {
    let step = SockFilter::new;
    [
        step(LOAD_HALF, 0, 0, 12),
        step(JUMP_EQUAL, 0, 9, 0x86dd),
        step(LOAD_BYTE, 0, 0, 20),
        step(JUMP_EQUAL, 0, 7, 0),
        step(LOAD_BYTE, 0, 0, 54),
        step(JUMP_EQUAL, 0, 5, 58),
        step(LOAD_BYTE, 0, 0, 62),
        step(JUMP_EQUAL, 2, 0, 143),
        step(JUMP_GREATER, 2, 0, 132),
        step(JUMP_GREATER_OR_EQUAL, 0, 1, 130),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

/// The MLD message of a frame, and its sender, if that may send it.
fn message(frame: &[u8]) -> Option<(Host, Ipv6Addr, mld::Message)> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_LEN)?;
    let host = ethernet[6..12].try_into().ok()?;
    let (from, said) = mld::parse_packet(packet)?;
    Some((host, from, said))
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        ipv6::{self, next_header},
        membership::RecordKind,
    };

    use super::*;

    /// Hop-by-hop options with nothing but the router alert and padding.
    const ALERT: [u8; 8] = [next_header::ICMPV6, 0, 5, 2, 0, 0, 1, 0];

    fn frame(hop_limit: u8, source: Ipv6Addr) -> Vec<u8> {
        let group = "ff15::9".parse().expect("an address");
        let record = mld::GroupRecord { kind: RecordKind::IsExclude, group, sources: Vec::new() };
        let mut body = mld::Message::Report(mld::Report { records: vec![record] }).to_bytes();
        mld::seal(&mut body, source, mld::REPORT_DESTINATION);
        let ip = ipv6::Header { hop_limit, ..ipv6::Header::new(source, mld::REPORT_DESTINATION, 0) };
        let ethernet = [0x33, 0x33, 0, 0, 0, 0x16, 2, 0, 0, 0, 0, 7, 0x86, 0xdd];
        [&ethernet[..], &ip.packet(&[&ALERT, &body])].concat()
    }

    #[test]
    fn only_a_neighbours_reports_are_heard() {
        let neighbour = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
        let good = frame(1, neighbour);
        let (host, from, _) = message(&good).expect("a report");
        assert_eq!((host, from), ([2, 0, 0, 0, 0, 7], neighbour));
        assert!(message(&frame(2, neighbour)).is_none(), "from afar");
        assert!(message(&frame(1, Ipv6Addr::LOCALHOST)).is_none());
        for at in [20, 54, 55, 56, 62, 66] {
            let mut changed = good.clone();
            changed[at] ^= 0x40;
            assert!(message(&changed).is_none(), "octet {at}");
        }
        assert!((0..good.len()).all(|len| message(&good[..len]).is_none()));
    }
}

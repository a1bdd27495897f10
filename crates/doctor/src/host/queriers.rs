//! Listens for the queries of IGMP and MLD, which ask hosts for the groups that they listen to.
//!
//! General queries come every two minutes, which is long to wait. But a querier also asks when a host leaves a
//! group, whether somebody else still listens (RFC 9776, section 6.4.2). So the doctor joins a group and leaves it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    thread,
    time::{Duration, Instant},
};

use socket2::Socket;
use treecast_host::{interface::Interface, option, packet, poller::Poller};
use treecast_wire::{igmp, ipv6::next_header, membership, mld};

use super::facts::{Querier, Queriers};
use crate::packet::Packet;

/// The number of IGMP in IP headers.
const IGMP: u8 = libc::IPPROTO_IGMP as u8;

/// The groups that are joined and left. Nobody sends to them.
const GROUPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(239, 255, 77, 86)),
    IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x7463, 0x6474)),
];

/// The time of membership before a leave: a switch must have noticed it.
const MEMBER_TIME: Duration = Duration::from_millis(350);
const LEAVES: u32 = 2;
/// The number of times that an interface is listened to before its link counts as one without a querier. A querier may be busy.
const LOOKS: u32 = 2;
/// The time after which a query would have come.
pub const SHORTEST_WAIT: Duration = Duration::from_millis(2200);

/// Listens for queries on interfaces for so long, but at least [`SHORTEST_WAIT`], and twice as long where none is heard.
pub fn listen<'a>(interfaces: impl Iterator<Item = &'a Interface>, time: Duration) -> Queriers {
    let time = time.max(SHORTEST_WAIT);
    let each =
        |interface: &Interface| listen_on(interface, time).ok().map(|heard| (interface.name.clone(), heard));
    let heard: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = interfaces.map(|interface| scope.spawn(move || each(interface))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    });
    let mut queriers = Queriers::default();
    for (name, heard) in heard {
        queriers.listened_on.push(name);
        queriers.heard.extend(heard);
    }
    queriers
}

fn listen_on(interface: &Interface, time: Duration) -> io::Result<Vec<Querier>> {
    let socket = packet::open(interface.index, packet::ALL_TYPES)?;
    let mut heard = Vec::new();
    for _ in 0..LOOKS {
        let until = Instant::now() + time;
        provoke(&socket, interface, &mut heard);
        hear(&socket, interface, until.saturating_duration_since(Instant::now()), &mut heard);
        let is_heard = |group: &IpAddr| {
            let has_family = interface.addresses.iter().any(|it| it.is_ipv4() == group.is_ipv4());
            !has_family || heard.iter().any(|it: &Querier| it.address.is_ipv4() == group.is_ipv4())
        };
        if GROUPS.iter().all(is_heard) {
            break;
        }
    }
    heard.sort();
    heard.dedup();
    Ok(heard)
}

/// Joins and leaves groups, which makes queriers ask.
fn provoke(socket: &Socket, interface: &Interface, heard: &mut Vec<Querier>) {
    for _ in 0..LEAVES {
        // A family that the interface lacks cannot be joined.
        let members: Vec<_> =
            GROUPS.iter().filter_map(|group| option::join_on_link(interface.index, &[*group]).ok()).collect();
        hear(socket, interface, MEMBER_TIME, heard);
        drop(members);
        hear(socket, interface, MEMBER_TIME, heard);
    }
}

fn hear(socket: &Socket, interface: &Interface, time: Duration, heard: &mut Vec<Querier>) {
    let start = Instant::now();
    let mut buffer = [0; 2048];
    let Ok(mut poller) = Poller::new() else { return };
    _ = poller.watch(socket, 0);
    while let Some(left) = time.checked_sub(start.elapsed()) {
        _ = poller.tokens(Some(left));
        // The rest of the time may be over while frames still come: then this goes on with the next step.
        while let Ok((len, _)) = packet::receive(socket, &mut buffer) {
            let packet = Packet::in_frame(&buffer[..len.min(buffer.len())], interface.is_ethernet);
            heard.extend(packet.and_then(|packet| query(&packet)).map(|(address, version)| Querier {
                interface: interface.name.clone(),
                address,
                version,
            }));
            if start.elapsed() >= time {
                return;
            }
        }
    }
}

/// The sender and the version of a query.
fn query(packet: &Packet) -> Option<(IpAddr, u8)> {
    use membership::Message::{OldQuery, Query};
    let version = match packet.protocol {
        IGMP => match igmp::Message::parse(packet.payload).ok()? {
            Query(_) => 3,
            // Version 1 has no response time (RFC 1112).
            OldQuery(_) if packet.payload.get(1) == Some(&0) => 1,
            OldQuery(_) => 2,
            _ => return None,
        },
        next_header::ICMPV6 => match mld::Message::parse(packet.payload).ok()? {
            Query(_) => 2,
            OldQuery(_) => 1,
            _ => return None,
        },
        _ => return None,
    };
    let is_from_neighbour = |address: IpAddr| match address {
        // Routers do not forward queries, and MLD says so by the source (RFC 9777, section 5.1).
        IpAddr::V6(address) => packet.hop_limit == 1 && address.is_unicast_link_local(),
        IpAddr::V4(_) => true,
    };
    is_from_neighbour(packet.source).then_some((packet.source, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_query_is_told_by_its_length_and_its_response_time() {
        let v4 = |body: &[u8]| {
            let mut body = body.to_vec();
            let sum: u32 = body.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
            body[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
            query(&Packet {
                source: [10, 0, 0, 1].into(),
                destination: [224, 0, 0, 1].into(),
                hop_limit: 1,
                protocol: IGMP,
                payload: &body,
            })
        };
        let of = |version| Some((IpAddr::from([10, 0, 0, 1]), version));
        assert_eq!(v4(&[0x11, 0, 0, 0, 0, 0, 0, 0]), of(1));
        assert_eq!(v4(&[0x11, 100, 0, 0, 0, 0, 0, 0]), of(2));
        assert_eq!(v4(&[0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]), of(3));
        assert_eq!(v4(&[0x16, 0, 0, 0, 239, 1, 2, 3]), None, "a report");
        let v6 = |source: &str, hop_limit, len| {
            let payload = [&[130][..], &[0; 27]].concat();
            query(&Packet {
                source: source.parse().unwrap(),
                destination: IpAddr::V6(mld::ALL_ROUTERS),
                hop_limit,
                protocol: next_header::ICMPV6,
                payload: &payload[..len],
            })
            .map(|(_, version)| version)
        };
        assert_eq!([v6("fe80::1", 1, 24), v6("fe80::1", 1, 28)], [Some(1), Some(2)]);
        assert_eq!([v6("2001:db8::1", 1, 28), v6("fe80::1", 64, 28)], [None, None]);
    }
}

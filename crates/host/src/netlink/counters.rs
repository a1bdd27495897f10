//! The counters of all interfaces of a network namespace.
//!
//! A dump of RTM_GETSTATS limited to the 64-bit counters (linux/if_link.h, `IFLA_STATS_LINK_64`) is
//! an eighth of what RTM_GETLINK sends, and needs no text to be written and parsed as /proc/net/dev does.

use std::io;

use super::{
    Netlink,
    message::{attribute, text, u32_at},
    queries::LINK_LEN,
};

const RTM_NEWLINK: u16 = libc::RTM_NEWLINK;
const RTM_NEWQDISC: u16 = libc::RTM_NEWQDISC;
const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;
/// The size of `struct if_stats_msg` in bytes.
const STATS_LEN: usize = 12;
const IFLA_STATS_LINK_64: u16 = 1;
/// The size of `struct tcmsg` in bytes.
const QUEUE_LEN: usize = 20;

/// Counters of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The interface's index.
    pub index: u32,
    /// Bytes, packets and drops received; then bytes, packets and drops sent.
    pub values: [u64; 6],
}

/// The state of a token bucket filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Index of the filter's interface.
    pub index: u32,
    /// Number of packets that passed, number of packets that were dropped, and bytes that wait.
    pub values: [u64; 3],
}

impl Netlink {
    /// Reads the index and name of each interface.
    pub fn links(&mut self) -> io::Result<Vec<(u32, String)>> {
        let mut links = Vec::new();
        self.dump(libc::RTM_GETLINK, &link_request(), |kind, body| {
            links.extend(parse_link(body).filter(|_| kind == RTM_NEWLINK));
        })?;
        Ok(links)
    }

    /// Reads the counters of each interface and appends them to `counters`.
    pub fn counters(&mut self, counters: &mut Vec<Counters>) -> io::Result<()> {
        let mut request = [0u8; STATS_LEN];
        request[8..].copy_from_slice(&(1u32 << (IFLA_STATS_LINK_64 - 1)).to_ne_bytes());
        self.dump(RTM_GETSTATS, &request, |kind, body| {
            counters.extend(parse_counters(body).filter(|_| kind == RTM_NEWSTATS));
        })
    }

    /// Reads the state of the token bucket filter of each interface that has one, and appends it to `queues`.
    pub fn queues(&mut self, queues: &mut Vec<QueueState>) -> io::Result<()> {
        self.dump(libc::RTM_GETQDISC, &[0; QUEUE_LEN], |kind, body| {
            queues.extend(parse_queue(body).filter(|_| kind == RTM_NEWQDISC));
        })
    }
}

/// The body of a request for links: `struct ifinfomsg`, and the flag that leaves the counters out
/// (`RTEXT_FILTER_SKIP_STATS`).
fn link_request() -> Vec<u8> {
    const IFLA_EXT_MASK: u16 = 29;
    const SKIP_STATS: u32 = 1 << 3;
    let mut request = vec![0u8; LINK_LEN];
    request.extend(8u16.to_ne_bytes());
    request.extend(IFLA_EXT_MASK.to_ne_bytes());
    request.extend(SKIP_STATS.to_ne_bytes());
    request
}

fn parse_link(body: &[u8]) -> Option<(u32, String)> {
    let name = attribute(body.get(LINK_LEN..)?, libc::IFLA_IFNAME)?;
    Some((u32_at(body, 4)?, text(name)))
}

/// Parses `struct rtnl_link_stats64`. It starts with received and sent packets, bytes, errors and drops.
/// Received packets that the device had no room for (`rx_missed_errors`) count as drops.
fn parse_counters(body: &[u8]) -> Option<Counters> {
    let stats = attribute(body.get(STATS_LEN..)?, IFLA_STATS_LINK_64)?;
    let value = |field: usize| -> Option<u64> {
        stats.get(field * 8..field * 8 + 8)?.try_into().ok().map(u64::from_ne_bytes)
    };
    let (rx_packets, tx_packets, rx_bytes, tx_bytes) = (value(0)?, value(1)?, value(2)?, value(3)?);
    let (rx_drops, tx_drops) = (value(6)?.saturating_add(value(15)?), value(7)?);
    let values = [rx_bytes, rx_packets, rx_drops, tx_bytes, tx_packets, tx_drops];
    Some(Counters { index: u32_at(body, 4)?, values })
}

/// Parses `TCA_STATS2`. It contains a `struct gnet_stats_basic` (bytes, packets) and a `struct
/// gnet_stats_queue` (packets and bytes that wait, drops); see linux/gen_stats.h.
fn parse_queue(body: &[u8]) -> Option<QueueState> {
    const TCA_KIND: u16 = 1;
    const TCA_STATS2: u16 = 7;
    const TCA_STATS_BASIC: u16 = 1;
    const TCA_STATS_QUEUE: u16 = 3;
    let attributes = body.get(QUEUE_LEN..)?;
    if attribute(attributes, TCA_KIND)? != b"tbf\0" {
        return None;
    }
    let stats = attribute(attributes, TCA_STATS2)?;
    let (basic, queue) = (attribute(stats, TCA_STATS_BASIC)?, attribute(stats, TCA_STATS_QUEUE)?);
    let values = [u32_at(basic, 8)?, u32_at(queue, 8)?, u32_at(queue, 4)?].map(u64::from);
    Some(QueueState { index: u32_at(body, 4)?, values })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn the_loopback_interface_counts_what_is_sent_over_it() {
        let mut netlink = Netlink::open().unwrap();
        let links = netlink.links().unwrap();
        let loopback = links.iter().find(|(_, name)| name == "lo").unwrap().0;
        let mut sent_bytes = || {
            let mut counters = Vec::new();
            netlink.counters(&mut counters).unwrap();
            counters.iter().find(|c| c.index == loopback).unwrap().values[3]
        };
        let before = sent_bytes();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..10 {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        assert!(sent_bytes() >= before + 10_000);
    }

    #[test]
    fn counters_are_taken_from_their_fields() {
        let mut body = vec![0u8; STATS_LEN];
        body[4..8].copy_from_slice(&7u32.to_ne_bytes());
        // A padding attribute without payload comes first, as the kernel may send it.
        body.extend([4, 0, 0, 0]);
        body.extend(((4 + 24 * 8) as u16).to_ne_bytes());
        body.extend(IFLA_STATS_LINK_64.to_ne_bytes());
        body.extend((0..24u64).flat_map(|field| (field + 100).to_ne_bytes()));
        let counters = parse_counters(&body).unwrap();
        assert_eq!(counters.index, 7);
        assert_eq!(counters.values, [102, 100, 106 + 115, 103, 101, 107]);
        assert_eq!(parse_counters(&body[..body.len() - 1]), None);
    }

    #[test]
    fn a_queue_is_that_of_the_rate_and_no_other() {
        let attribute = |kind: u16, payload: &[u8]| {
            let mut bytes = ((4 + payload.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(payload);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let body = |kind: &[u8]| {
            let basic: Vec<u8> = [7000u32, 0, 5, 0].iter().flat_map(|field| field.to_ne_bytes()).collect();
            let queue: Vec<u8> = [2u32, 3000, 9, 0, 1].iter().flat_map(|field| field.to_ne_bytes()).collect();
            let mut body = vec![0; QUEUE_LEN];
            body[4..8].copy_from_slice(&7u32.to_ne_bytes());
            body.extend(attribute(1, kind));
            body.extend(attribute(7, &[attribute(1, &basic), attribute(3, &queue)].concat()));
            body
        };
        assert_eq!(parse_queue(&body(b"tbf\0")), Some(QueueState { index: 7, values: [5, 9, 3000] }));
        assert_eq!(parse_queue(&body(b"netem\0")), None);
    }
}

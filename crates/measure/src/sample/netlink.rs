//! The counters of all interfaces of a network namespace, by rtnetlink.
//!
//! A dump of RTM_GETSTATS limited to the 64-bit counters (linux/if_link.h, `IFLA_STATS_LINK_64`) is
//! an eighth of what RTM_GETLINK sends, and needs no text to be written and parsed as /proc/net/dev does.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::series::{Counter, Queue};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;
const NLMSG_HEADER_LEN: usize = 16;
/// `struct if_stats_msg`.
const STATS_LEN: usize = 12;
/// `struct ifinfomsg`.
const LINK_LEN: usize = 16;
const IFLA_STATS_LINK_64: u16 = 1;
/// `struct tcmsg`.
const QUEUE_LEN: usize = 20;

/// A netlink socket that stays in the namespace in which it was opened.
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Counters of one interface, in the order of [`Counter::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub index: u32,
    values: [u64; 6],
}

impl Counters {
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }
}

/// What passed, was dropped by and waits in a token bucket filter, in the order of [`Queue::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Of its interface.
    pub index: u32,
    pub values: [u64; Queue::ALL.len()],
}

impl Socket {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> io::Result<Self> {
        // SAFETY: socket has no memory effects; the descriptor is owned from here on.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { fd, sequence: 0, buffer: vec![0; 32 * 1024] })
    }

    /// Index and name of each interface.
    pub fn links(&mut self) -> io::Result<Vec<(u32, String)>> {
        let mut links = Vec::new();
        self.dump(RTM_GETLINK, &link_request(), |kind, body| {
            if kind == RTM_NEWLINK
                && let Some(link) = parse_link(body)
            {
                links.push(link);
            }
        })?;
        Ok(links)
    }

    /// Counters of each interface, appended to `counters`.
    pub fn counters(&mut self, counters: &mut Vec<Counters>) -> io::Result<()> {
        let mut request = [0u8; STATS_LEN];
        request[8..].copy_from_slice(&(1u32 << (IFLA_STATS_LINK_64 - 1)).to_ne_bytes());
        self.dump(RTM_GETSTATS, &request, |kind, body| {
            if kind == RTM_NEWSTATS
                && let Some(of_one) = parse_counters(body)
            {
                counters.push(of_one);
            }
        })
    }

    /// The state of each interface's token bucket filter, where it has one, appended to `queues`.
    pub fn queues(&mut self, queues: &mut Vec<QueueState>) -> io::Result<()> {
        self.dump(RTM_GETQDISC, &[0; QUEUE_LEN], |kind, body| {
            if kind == RTM_NEWQDISC
                && let Some(of_one) = parse_queue(body)
            {
                queues.push(of_one);
            }
        })
    }

    fn dump(&mut self, kind: u16, body: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.send(kind, body)?;
        loop {
            let len = self.receive()?;
            let mut rest = &self.buffer[..len];
            while let Some((header, body, after)) = split_message(rest) {
                rest = after;
                // What is left of a dump that was given up is not an answer to this request.
                if header.sequence != self.sequence {
                    continue;
                }
                match header.kind as i32 {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return Err(error_of(body)),
                    _ => each(header.kind, body),
                }
            }
        }
    }

    fn send(&self, kind: u16, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(NLMSG_HEADER_LEN + body.len());
        message.extend(((NLMSG_HEADER_LEN + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        // SAFETY: the pointer and length are those of `message`, which outlives the call.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn receive(&mut self) -> io::Result<usize> {
        loop {
            // SAFETY: the pointer and length are those of `self.buffer`, which outlives the call.
            let len = unsafe {
                libc::recv(self.fd.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0)
            };
            match usize::try_from(len) {
                Ok(len) => return Ok(len),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// Moves the calling thread into `namespace` (a file of /run/netns or /proc/PID/ns/net).
pub fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: setns has no memory effects; it changes the calling thread only.
    let done = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct ifinfomsg`, and the wish to leave the counters out (`RTEXT_FILTER_SKIP_STATS`).
fn link_request() -> Vec<u8> {
    const IFLA_EXT_MASK: u16 = 29;
    const SKIP_STATS: u32 = 1 << 3;
    let mut request = vec![0u8; LINK_LEN];
    request.extend(8u16.to_ne_bytes());
    request.extend(IFLA_EXT_MASK.to_ne_bytes());
    request.extend(SKIP_STATS.to_ne_bytes());
    request
}

struct Header {
    kind: u16,
    sequence: u32,
}

/// The first message of `bytes`, its body, and what follows it; `None` at the end, or when the
/// message is not whole.
fn split_message(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let len = u32_at(bytes, 0)? as usize;
    if len < NLMSG_HEADER_LEN || len > bytes.len() {
        return None;
    }
    let header = Header { kind: u16_at(bytes, 4)?, sequence: u32_at(bytes, 8)? };
    let next = len.next_multiple_of(4).min(bytes.len());
    Some((header, &bytes[NLMSG_HEADER_LEN..len], &bytes[next..]))
}

fn error_of(body: &[u8]) -> io::Error {
    let code = u32_at(body, 0).unwrap_or(0) as i32;
    io::Error::from_raw_os_error(-code)
}

fn parse_link(body: &[u8]) -> Option<(u32, String)> {
    let name = attribute(body.get(LINK_LEN..)?, libc::IFLA_IFNAME)?;
    let name = name.split(|&byte| byte == 0).next()?;
    Some((u32_at(body, 4)?, String::from_utf8_lossy(name).into_owned()))
}

/// `struct rtnl_link_stats64` starts with received and sent packets, bytes, errors and drops;
/// received packets that the device had no room for (`rx_missed_errors`) are drops, too.
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

/// `TCA_STATS2` holds a `struct gnet_stats_basic` (bytes, packets) and a `struct gnet_stats_queue` (packets and bytes that
/// wait, drops), see linux/gen_stats.h.
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

/// The payload of the first attribute of type `wanted`.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)?;
        let payload = bytes.get(4..len)?;
        if kind == wanted {
            return Some(payload);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn the_loopback_interface_counts_what_is_sent_over_it() {
        let mut socket = Socket::open().unwrap();
        let links = socket.links().unwrap();
        let loopback = links.iter().find(|(_, name)| name == "lo").unwrap().0;
        let mut sent_bytes = || {
            let mut counters = Vec::new();
            socket.counters(&mut counters).unwrap();
            counters.iter().find(|c| c.index == loopback).unwrap().get(Counter::TxBytes)
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
        assert_eq!(Counter::ALL.map(|c| counters.get(c)), [102, 100, 106 + 115, 103, 101, 107]);
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

    #[test]
    fn a_message_cut_short_or_of_a_wrong_length_is_not_read() {
        let mut message = Vec::new();
        message.extend(20u32.to_ne_bytes());
        message.extend([0; 16]);
        assert!(split_message(&message).is_some());
        assert!(split_message(&message[..19]).is_none());
        message[0] = 3;
        assert!(split_message(&message).is_none());
        assert!(attribute(&[2, 0, 1, 0], 1).is_none());
    }
}

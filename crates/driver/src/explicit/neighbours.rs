//! Which frame takes a packet to its next hop, by the kernel's own routes and neighbours (rtnetlink(7)).
//!
//! Super-packets leave by a packet socket, which the kernel neither routes nor resolves neighbours for. What it knows is asked for
//! five times a second: the route for each destination, and the Ethernet addresses for each next hop, of which there are few. Once in
//! ten seconds there is no answer: then a packet goes the kernel's own way, by which it notices that a neighbour has gone.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    net::Ipv6Addr,
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};

/// For so long an answer is good: when a route changes, packets leave by it well within the half second that a receiver may hear
/// nothing.
const GOOD: Duration = Duration::from_millis(200);

/// How often a packet goes the kernel's own way.
const OWN_WAY: Duration = Duration::from_secs(10);

/// More destinations than any group has; then all is asked for again.
const MAX_WAYS: usize = 65_536;

/// `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;

/// `struct rtmsg` and `struct ndmsg` have as many, and `struct ifinfomsg` a few more.
const BODY_LEN: usize = 12;
const LINK_BODY_LEN: usize = 16;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFLA_ADDRESS: u16 = 1;

/// Neighbours whose address is no guess (`neighbour.h`): all but incomplete and failed ones.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

pub(super) const ETHERNET_LEN: usize = 14;

const IPV6_ETHERTYPE: [u8; 2] = [0x86, 0xdd];

/// Where a frame leaves, and how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub interface: u32,
    pub ethernet: [u8; ETHERNET_LEN],
}

#[derive(Debug)]
struct Way {
    asked: Instant,
    left_to_kernel: Instant,
    hop: Option<Hop>,
}

#[derive(Debug)]
pub(super) struct Neighbours {
    socket: Socket,
    /// Where packets must leave; none: where routes lead.
    interface: Option<u32>,
    ways: BTreeMap<Ipv6Addr, Way>,
    /// By interface and next hop.
    hops: BTreeMap<(u32, Ipv6Addr), (Instant, Hop)>,
}

impl Neighbours {
    pub fn open(interface: Option<u32>) -> io::Result<Self> {
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))?;
        // The kernel answers before the request returns; this is for one that does not.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(Self { socket, interface, ways: BTreeMap::new(), hops: BTreeMap::new() })
    }

    /// The next hop to `destination`; none when the kernel must find it.
    pub fn towards(&mut self, now: Instant, destination: Ipv6Addr) -> Option<Hop> {
        if self.ways.len().max(self.hops.len()) >= MAX_WAYS {
            self.ways.clear();
            self.hops.clear();
        }
        let known = self.ways.get(&destination);
        if let Some(way) = known.filter(|way| now < way.asked + GOOD && now < way.left_to_kernel + OWN_WAY) {
            return way.hop;
        }
        let is_left = known.is_none_or(|way| now >= way.left_to_kernel + OWN_WAY);
        let left_to_kernel = known.filter(|_| !is_left).map_or(now, |way| way.left_to_kernel);
        let hop = self.ask(now, destination).ok().flatten();
        self.ways.insert(destination, Way { asked: now, left_to_kernel, hop });
        hop.filter(|_| !is_left)
    }

    fn ask(&mut self, now: Instant, destination: Ipv6Addr) -> io::Result<Option<Hop>> {
        let Some(by) = self.next_hop(destination)? else { return Ok(None) };
        if let Some((_, hop)) = self.hops.get(&by).filter(|(asked, _)| now < *asked + GOOD) {
            return Ok(Some(*hop));
        }
        let hop = self.frame_to(by)?;
        // One that is not known yet may be in a moment.
        if let Some(hop) = hop {
            self.hops.insert(by, (now, hop));
        }
        Ok(hop)
    }

    /// The interface by which packets to `destination` leave, and whom they go to there.
    fn next_hop(&self, destination: Ipv6Addr) -> io::Result<Option<(u32, Ipv6Addr)>> {
        let mut route = body(libc::AF_INET6, BODY_LEN);
        route[1] = 128;
        attribute(&mut route, RTA_DST, &destination.octets());
        if let Some(interface) = self.interface {
            attribute(&mut route, RTA_OIF, &interface.to_ne_bytes());
        }
        let Some(route) = self.answer(libc::RTM_GETROUTE, &route)? else { return Ok(None) };
        let (mut interface, mut next) = (None, destination);
        for (kind, value) in attributes(route.get(BODY_LEN..).unwrap_or_default()) {
            match kind {
                RTA_OIF => interface = value.first_chunk().map(|index| u32::from_ne_bytes(*index)),
                RTA_GATEWAY => next = value.first_chunk::<16>().map_or(next, |address| (*address).into()),
                _ => {}
            }
        }
        let is_unicast = route.get(7) == Some(&libc::RTN_UNICAST);
        Ok(interface.filter(|_| is_unicast).zip(Some(next)))
    }

    /// How a frame to a next hop begins; none when the kernel does not know it.
    fn frame_to(&self, (interface, next): (u32, Ipv6Addr)) -> io::Result<Option<Hop>> {
        let (Some(to), Some(from)) = (self.link_address(interface, next)?, self.own_address(interface)?)
        else {
            return Ok(None);
        };
        let mut ethernet = [0; ETHERNET_LEN];
        ethernet[..6].copy_from_slice(&to);
        ethernet[6..12].copy_from_slice(&from);
        ethernet[12..].copy_from_slice(&IPV6_ETHERTYPE);
        Ok(Some(Hop { interface, ethernet }))
    }

    /// The neighbour's, when the kernel knows it.
    fn link_address(&self, interface: u32, neighbour: Ipv6Addr) -> io::Result<Option<[u8; 6]>> {
        let mut request = body(libc::AF_INET6, BODY_LEN);
        request[4..8].copy_from_slice(&interface.to_ne_bytes());
        attribute(&mut request, NDA_DST, &neighbour.octets());
        let Some(answer) = self.answer(libc::RTM_GETNEIGH, &request)? else { return Ok(None) };
        let is_known =
            answer.get(8..10).is_some_and(|state| u16::from_ne_bytes([state[0], state[1]]) & KNOWN != 0);
        Ok(six_bytes(answer.get(BODY_LEN..).unwrap_or_default(), NDA_LLADDR).filter(|_| is_known))
    }

    /// The interface's own, when it is an Ethernet's.
    fn own_address(&self, interface: u32) -> io::Result<Option<[u8; 6]>> {
        let mut request = body(libc::AF_UNSPEC, LINK_BODY_LEN);
        request[4..8].copy_from_slice(&interface.to_ne_bytes());
        let Some(answer) = self.answer(libc::RTM_GETLINK, &request)? else { return Ok(None) };
        let is_ethernet = answer.get(2..4) == Some(&libc::ARPHRD_ETHER.to_ne_bytes()[..]);
        Ok(six_bytes(answer.get(LINK_BODY_LEN..).unwrap_or_default(), IFLA_ADDRESS).filter(|_| is_ethernet))
    }

    /// The body of the kernel's answer; none when it has none.
    fn answer(&self, kind: u16, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let len = (HEADER_LEN + body.len()) as u32;
        let flags = libc::NLM_F_REQUEST as u16;
        let mut request = Vec::with_capacity(len as usize);
        request.extend_from_slice(&len.to_ne_bytes());
        [kind, flags].iter().for_each(|field| request.extend_from_slice(&field.to_ne_bytes()));
        request.extend_from_slice(&[0; 8]);
        request.extend_from_slice(body);
        self.socket.send(&request)?;
        let mut buffer = vec![0; 16 << 10];
        let len = (&self.socket).read(&mut buffer)?;
        let is_error = buffer[4..6] == ERROR.to_ne_bytes();
        Ok(buffer.get(HEADER_LEN..len).filter(|_| !is_error).map(<[u8]>::to_vec))
    }
}

fn body(family: libc::c_int, len: usize) -> Vec<u8> {
    let mut body = vec![0; len];
    body[0] = family as u8;
    body
}

/// Adds an attribute whose value's length is a multiple of 4.
fn attribute(request: &mut Vec<u8>, kind: u16, value: &[u8]) {
    request.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(value);
}

/// Types and values, as far as they are whole.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let [len, kind] =
            [left.get(..2)?, left.get(2..4)?].map(|field| u16::from_ne_bytes([field[0], field[1]]));
        let value = left.get(4..usize::from(len))?;
        left = left.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn six_bytes(bytes: &[u8], wanted: u16) -> Option<[u8; 6]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).and_then(|(_, value)| value.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_leads_to_this_host_itself_or_nowhere() {
        let mut neighbours = Neighbours::open(None).expect("netlink is there");
        let now = Instant::now();
        for address in [Ipv6Addr::LOCALHOST, Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 9)] {
            for later in [0, 1, 2] {
                assert_eq!(neighbours.towards(now + later * GOOD, address), None, "{address}");
            }
        }
    }
}

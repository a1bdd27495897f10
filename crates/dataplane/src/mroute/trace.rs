//! The port at which a router answers traces (Mtrace2, RFC 8487), and what it says of itself.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, IoSlice},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::SystemTime,
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::{
    control::Control,
    interface::Interface,
    messages::{self, Received},
    netlink::Netlink,
    option::{self, ToGroups},
};
use treecast_proto::{
    Instant,
    membership::{
        LinkId, Passing, Router,
        trace::{Arrival, HOP_LIMIT, MAX_LEN, Refusal, Surroundings, Tracer, Transmit, Upstream},
    },
};
use treecast_wire::{
    igmp, mld,
    mtrace2::{Message, PORT},
};

use super::{Slot, counts::Counters, kernel::Kernel};

/// The number of messages that are answered before other work goes on.
const BATCH: usize = 64;

/// Seconds from the origin of NTP's time, 1900, to 1970 (RFC 5905, figure 4).
const NTP_OFFSET_S: u64 = 2_208_988_800;

/// The port of one address family, with the machine that answers there.
pub struct Traces {
    socket: UdpSocket,
    tracer: Tracer,
    is_ipv4: bool,
    refused: BTreeMap<Refusal, u64>,
}

/// The surroundings of the machine: links, the router's machine, the kernel and its routes.
pub struct Around<'a> {
    pub links: BTreeMap<LinkId, Place<'a>>,
    pub router: &'a Router,
    pub kernel: &'a dyn Kernel,
    pub netlink: &'a mut Netlink,
}

/// An interface that is routed to and from.
pub struct Place<'a> {
    pub slot: Slot,
    pub interface: &'a Interface,
    /// The source address of IGMP and MLD messages.
    pub address: IpAddr,
}

impl Traces {
    /// Opens the port.
    pub fn open(is_ipv4: bool, is_prohibited: bool) -> io::Result<Self> {
        let any: SocketAddr = match is_ipv4 {
            true => (Ipv4Addr::UNSPECIFIED, PORT).into(),
            false => (Ipv6Addr::UNSPECIFIED, PORT).into(),
        };
        let socket = Socket::new(Domain::for_address(any), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if is_ipv4 {
            option::set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        } else {
            socket.set_only_v6(true)?;
            option::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
        option::receive_hop_limit(&socket)?;
        // Each answer names its own interface.
        let hop_limit = u32::from(HOP_LIMIT);
        option::send_to_groups(&socket, ToGroups { interface: 0, hop_limit, loops_back: false })?;
        option::set_unicast_hop_limit(&socket, hop_limit)?;
        socket.bind(&any.into())?;
        let tracer = Tracer::new(is_prohibited);
        Ok(Self { socket: socket.into(), tracer, is_ipv4, refused: BTreeMap::new() })
    }

    /// The number of messages that were not answered, for each reason.
    pub fn refused(&self) -> impl Iterator<Item = (String, u64)> {
        self.refused.iter().map(|(reason, count)| (reason.to_string(), *count))
    }

    /// Answers messages that have come, at most a batch. An error of the socket is one of an earlier answer's
    /// addressee, which does not concern the router.
    pub fn answer(&mut self, now: Instant, around: &mut Around<'_>) {
        // A longer message is cut, and then refused.
        let mut buffer = [0; MAX_LEN + 1];
        for _ in 0..BATCH {
            match messages::receive_from(&self.socket, &mut buffer) {
                Ok((from, received)) => {
                    let Some(arrival) = from.as_socket().and_then(|from| arrival(from.ip(), &received))
                    else {
                        continue;
                    };
                    let bytes = if received.is_truncated { &[] } else { &buffer[..received.len] };
                    match self.tracer.handle(now, &arrival, bytes, around) {
                        Ok(answers) => answers.into_iter().for_each(|answer| self.send(answer)),
                        Err(refusal) => *self.refused.entry(refusal).or_default() += 1,
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }

    /// Sends an answer. One that cannot be sent counts as lost; the client asks again.
    fn send(&self, answer: Transmit) {
        let (to, source, interface, message) = match answer {
            Transmit::Request { link, to, message } => {
                let to = (to.unwrap_or_else(|| self.all_routers()), PORT).into();
                (option::scoped(to, link.0), None, link.0, message)
            }
            Transmit::Reply { from, to, message } => (to, from, 0, message),
        };
        // The kernel chooses where the source is unspecified.
        let source = source.unwrap_or(match self.is_ipv4 {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        });
        let control = Control::NONE.with_source(source, interface);
        let bytes = Message::to_bytes(&message);
        let _ = messages::send(&self.socket, Some(&to.into()), &[IoSlice::new(&bytes)], &control);
    }

    fn all_routers(&self) -> IpAddr {
        if self.is_ipv4 { igmp::ALL_ROUTERS.into() } else { mld::ALL_ROUTERS.into() }
    }
}

impl AsFd for Traces {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Surroundings for Around<'_> {
    fn is_neighbour(&self, link: LinkId, address: IpAddr) -> bool {
        let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        self.links.get(&link).is_some_and(|place| is_link_local || place.interface.is_on_link(address))
    }

    fn address(&self, link: LinkId) -> Option<IpAddr> {
        let place = self.links.get(&link)?;
        let mut reachable = place.interface.reachable_addresses().into_iter();
        let reachable = reachable.find(|address| address.is_ipv4() == place.address.is_ipv4());
        Some(reachable.unwrap_or(place.address))
    }

    fn upstream(&mut self, source: Option<IpAddr>) -> Upstream {
        let Some(source) = source else {
            return self.router.upstream().map_or(Upstream::Unknown, Upstream::Link);
        };
        if self.links.values().any(|place| place.interface.addresses.contains(&source)) {
            return Upstream::Here;
        }
        // A route that cannot be looked up is none to the client, either.
        match self.netlink.route(source, None).ok().flatten() {
            Some(route) => match (LinkId(route.interface), route.gateway) {
                (link, _) if !self.links.contains_key(&link) => Upstream::NotRouted,
                (link, Some(router)) => Upstream::Router(link, router),
                (link, None) => Upstream::Neighbour(link),
            },
            None => Upstream::Unknown,
        }
    }

    fn passing(&self, link: LinkId, source: Option<IpAddr>, group: Option<IpAddr>) -> Passing {
        self.router.passing(link, source, group)
    }

    fn packets(&self, link: LinkId) -> Option<(u64, u64)> {
        self.kernel.interface_count(self.links.get(&link)?.slot).ok()
    }

    fn packets_of(&self, source: IpAddr, group: IpAddr) -> Option<u64> {
        let Counters { packets, wrong_interface, .. } = self.kernel.count(source, group).ok()?;
        Some(packets.saturating_sub(wrong_interface))
    }
}

fn arrival(from: IpAddr, received: &Received) -> Option<Arrival> {
    let ancillary = received.ancillary;
    Some(Arrival {
        link: LinkId(ancillary.interface?),
        from,
        to: ancillary.destination?,
        hop_limit: ancillary.hop_limit?,
        time: ntp_middle(SystemTime::now()),
    })
}

/// The middle 32 bits of a time in the form of NTP (RFC 5905, section 6).
fn ntp_middle(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(since.subsec_nanos()) << 16) / 1_000_000_000;
    ((since.as_secs() + NTP_OFFSET_S) << 16 | fraction) as u32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// RFC 8487, section 3.2.4, gives the sum ((seconds + 32384) << 16) + ((nanoseconds << 7) / 1953125).
    #[test]
    fn times_are_those_of_the_rfcs_formula() {
        for (seconds, nanoseconds) in [(0, 0), (1_795_000_000, 500_000_000), (3, 999_999_999)] {
            let expected = (((seconds + 32_384) << 16) + ((nanoseconds << 7) / 1_953_125)) as u32;
            let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds as u32);
            assert_eq!(ntp_middle(time), expected);
        }
    }
}

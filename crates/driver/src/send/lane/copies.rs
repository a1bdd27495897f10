//! The lane of a session that sends copies: to receivers, to lists of receivers, and to the group. A packet is
//! sealed once for all its copies, because two sockets must not seal with the same key.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use treecast_host::{messages, option};
use treecast_proto::{Instant, fanout::Way, policy::Pacer};
use treecast_wire::{
    header::{HEADER_LEN, Header},
    ticket::Fanout,
};

use super::{
    super::{Plan, SendError},
    Packets, heed_marks,
    multicast::{open_group, open_slower},
    turns::Copies,
};
use crate::{
    fanout::SharedList,
    udp::{NarrowWay, Transmitter, UdpError, headers, open_slower_unicast_sender, open_unicast_sender},
};

/// A socket for each family that the host has, and one for the group where there is one.
#[derive(Debug)]
pub(in super::super) struct CopiesLane {
    v4: Option<UnicastSocket>,
    v6: Option<UnicastSocket>,
    group: Option<(Transmitter, SocketAddr)>,
    /// The destinations of the packets that begin now.
    targets: Arc<[Target]>,
    /// Packets whose copies have not all left, in order.
    waiting: VecDeque<Copies<Packets<'static>, Target>>,
    left: LeftBytes,
}

/// A socket for the receivers of one family.
#[derive(Debug)]
struct UnicastSocket {
    transmitter: Transmitter,
    /// Whether the socket queues what hosts say of packets that did not arrive.
    hears_errors: bool,
}

/// The most errors that are taken off a socket's queue in one look, so that a flood of them does not keep the session from
/// sending. Two sockets make 256.
const MOST_ERRORS: usize = 128;

/// The destination of a copy.
#[derive(Debug, Clone)]
pub(in super::super) enum Target {
    Receiver(SocketAddr),
    /// One packet for all receivers in the list.
    List(Arc<SharedList>),
    Group,
}

/// Bytes of IP packets that have left, by [`Way`] as a number.
pub(in super::super) type LeftBytes = [u64; 4];

impl CopiesLane {
    /// Opens the lane of the group of this number.
    pub fn open(plan: &Plan, group: u8) -> Result<Self, SendError> {
        let open = |family: IpAddr| -> Result<UnicastSocket, UdpError> {
            let socket =
                if group == 0 { open_unicast_sender(family)? } else { open_slower_unicast_sender(family)? };
            heed_marks(plan, &socket);
            let transmitter = Transmitter::new(socket, plan.options.network.offload);
            Ok(UnicastSocket { transmitter, hears_errors: false })
        };
        let v4 = open(Ipv4Addr::UNSPECIFIED.into());
        let v6 = open(Ipv6Addr::UNSPECIFIED.into());
        let address = plan.group_addresses().get(usize::from(group)).copied();
        let group = match address.filter(|_| plan.options.fanout == Fanout::Auto) {
            Some(address) if group == 0 => Some((open_group(plan)?, address)),
            Some(address) => Some((open_slower(plan)?, address)),
            None => None,
        };
        match (v4, v6) {
            (Err(error), Err(_)) => Err(error.into()),
            (v4, v6) => {
                let (targets, left) = (Arc::new([]), LeftBytes::default());
                Ok(Self { v4: v4.ok(), v6: v6.ok(), group, targets, waiting: VecDeque::new(), left })
            }
        }
    }

    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    pub fn set_targets(&mut self, targets: Arc<[Target]>) {
        self.targets = targets;
    }

    /// Takes packets to send to each target, as the rate allows.
    pub fn begin(&mut self, packets: Packets<'_>) {
        let (packets, targets) = (packets.into_owned(), Arc::clone(&self.targets));
        self.waiting.push_back(match &packets {
            Packets::Message(packet) => {
                let bytes = packet.len() as u64;
                Copies::urgent(packets, targets, bytes)
            }
            Packets::Blocks { .. } | Packets::Segments { .. } => Copies::new(packets, targets),
        });
    }

    /// Whether copies are left to be sent.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the remaining copies are of blocks, and not of a message.
    pub fn are_blocks(&self) -> bool {
        self.waiting.front().is_some_and(|copies| !copies.what().is_message())
    }

    /// Sends the copies that may leave now. Returns the bytes of IP packets that left, and how long the next copy has to
    /// wait.
    pub fn send_due(&mut self, pacer: &mut Pacer, now: Instant) -> (u64, Option<Duration>) {
        let Self { v4, v6, group, waiting, left, .. } = self;
        let Some(copies) = waiting.front_mut() else { return (0, None) };
        let group_address = group.as_ref().map(|(_, address)| *address);
        let bytes_of = |packets: &Packets<'static>, to: &Target| bytes_to(packets, to, group_address);
        let (sent, delay) = copies.send_due(pacer, now, bytes_of, |packets, to| {
            let bytes = bytes_of(packets, to);
            // A receiver that cannot be reached by it loses the packet, and asks for it over its connection.
            let _ = match to {
                Target::Receiver(to) => {
                    left[Way::Unicast as usize] += bytes;
                    let socket = if to.is_ipv4() { v4.as_mut() } else { v6.as_mut() };
                    socket.map(|socket| socket.send(packets, *to))
                }
                Target::Group => {
                    left[Way::Multicast as usize] += bytes;
                    group.as_mut().map(|(transmitter, to)| packets.send(transmitter, *to))
                }
                Target::List(list) => {
                    left[list.way() as usize] += bytes;
                    Some(send_to_list(packets, list))
                }
            };
        });
        if delay.is_none() {
            waiting.pop_front();
        }
        (sent, delay)
    }

    /// The bytes that have left so far.
    pub fn left_bytes(&self) -> LeftBytes {
        self.left
    }

    /// The UDP source port of IPv6 copies. 0 if there are none.
    pub fn source_port(&self) -> u16 {
        let Some(socket) = &self.v6 else { return 0 };
        socket.transmitter.socket().local_addr().map_or(0, |address| address.port())
    }

    /// Lets the sockets queue what hosts say of packets that did not arrive.
    pub fn hear_errors(&mut self) {
        for (socket, is_ipv4) in [(&mut self.v4, true), (&mut self.v6, false)] {
            let Some(socket) = socket else { continue };
            socket.hears_errors = option::hear_errors(socket.transmitter.socket(), is_ipv4).is_ok();
        }
    }

    /// Takes the receivers whose hosts, or routers on the way, have lately said that a packet did not arrive, each with the
    /// number of the kernel's error.
    pub fn take_errors(&self) -> Vec<(IpAddr, i32)> {
        let sockets = [&self.v4, &self.v6].into_iter().flatten().filter(|socket| socket.hears_errors);
        let errors = sockets.flat_map(|socket| {
            std::iter::from_fn(|| messages::receive_error(socket.transmitter.socket()).ok()).take(MOST_ERRORS)
        });
        errors.filter_map(|(to, error)| Some((to.as_socket()?.ip(), error?))).collect()
    }

    /// Takes hosts that were lately found to have a path too narrow for the packets.
    pub fn take_narrow(&mut self) -> Vec<NarrowWay> {
        let sockets = [&mut self.v4, &mut self.v6].into_iter().flatten();
        sockets.flat_map(|socket| socket.transmitter.take_narrow()).collect()
    }
}

impl UnicastSocket {
    fn send(&mut self, packets: &Packets<'_>, to: SocketAddr) -> io::Result<()> {
        match packets.send(&mut self.transmitter, to) {
            // The error is that of an earlier packet, and has kept this one back.
            Err(error) if self.hears_errors && may_be_earlier(&error) => {
                packets.send(&mut self.transmitter, to)
            }
            sent => sent,
        }
    }
}

/// Whether an attempt to send may fail so because of what a host or router has said of an earlier packet.
fn may_be_earlier(error: &io::Error) -> bool {
    let earlier = [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EACCES];
    error.raw_os_error().is_some_and(|code| earlier.contains(&code))
}

/// Bytes of the IP packets that a copy is. `group` is the group's address.
fn bytes_to(packets: &Packets<'_>, to: &Target, group: Option<SocketAddr>) -> u64 {
    match to {
        Target::Receiver(to) => packets.ip_bytes(*to),
        Target::Group => group.map_or(0, |to| packets.ip_bytes(to)),
        Target::List(list) => packets.datagram_lens().map(|len| list.packet_bytes(len)).sum(),
    }
}

fn send_to_list(packets: &Packets<'_>, list: &SharedList) -> io::Result<()> {
    match packets {
        Packets::Message(packet) => list.send(packet.len(), packet),
        Packets::Segments { segment_len, bytes } => list.send(*segment_len, bytes),
        Packets::Blocks { first, block_len, run } => {
            list.send(HEADER_LEN + block_len, &with_headers(*first, *block_len, run))
        }
    }
}

/// A run of blocks as datagrams one behind the other. `first` is as for [`Transmitter::send_blocks`].
fn with_headers(first: Header, block_len: usize, run: &[u8]) -> Vec<u8> {
    let mut datagrams = Vec::with_capacity(run.len() + run.len().div_ceil(block_len) * HEADER_LEN);
    let mut header_of = headers(first);
    for block in run.chunks(block_len) {
        datagrams.extend_from_slice(&header_of(block));
        datagrams.extend_from_slice(block);
    }
    datagrams
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_hosts_say_is_taken_for_an_earlier_packets_error() {
        let is_earlier = |code| may_be_earlier(&io::Error::from_raw_os_error(code));
        let said = [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EACCES];
        assert!(said.into_iter().all(is_earlier));
        let own = [libc::EMSGSIZE, libc::ENOBUFS, libc::EAGAIN, libc::EINVAL, libc::EPERM];
        assert!(!own.into_iter().any(is_earlier));
    }
}

//! The kernel's IPv4 multicast router (linux/mroute.h), and IGMP through its socket.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use socket2::Socket;
use treecast_host::{
    messages, option,
    plain::{self, Plain},
    raw,
};
use treecast_proto::membership::Message;
use treecast_wire::igmp;

use super::{
    Error, MAX_INTERFACES, Slot,
    counts::{self, Counters, EntryRequest},
    inherited::Inherited,
    kernel::{Incoming, Kernel, Refusal},
};

const MRT_INIT: i32 = 200;
const MRT_DONE: i32 = 201;
const MRT_ADD_VIF: i32 = 202;
const MRT_DEL_VIF: i32 = 203;
const MRT_ADD_MFC: i32 = 204;
const MRT_DEL_MFC: i32 = 205;
const MRT_ASSERT: i32 = 207;
const VIFF_USE_IFINDEX: u8 = 8;
const IGMPMSG_NOCACHE: u8 = 1;
const IGMPMSG_WRONGVIF: u8 = 2;

/// Internetwork control, as IGMP is sent with (RFC 9776, 4).
const TOS_INTERNETWORK_CONTROL: i32 = 0xc0;

/// struct vifctl.
#[derive(Clone, Copy)]
#[repr(C)]
struct VifCtl {
    vifi: u16,
    flags: u8,
    threshold: u8,
    rate_limit: u32,
    interface: u32,
    remote: [u8; 4],
}

/// struct mfcctl.
#[derive(Clone, Copy)]
#[repr(C)]
struct MfcCtl {
    origin: [u8; 4],
    group: [u8; 4],
    parent: u16,
    /// The TTL that a packet must exceed to go out, for each interface. 0 for none.
    ttls: [u8; MAX_INTERFACES],
    unused: [u32; 4],
}

const _: () = assert!(size_of::<VifCtl>() == 16);
const _: () = assert!(size_of::<MfcCtl>() == 60);
const _: () = assert!(size_of::<EntryRequest<[u8; 4]>>() == 8 + 3 * size_of::<libc::c_ulong>());

// SAFETY: integers and arrays of integers only.
unsafe impl Plain for VifCtl {}
unsafe impl Plain for MfcCtl {}
unsafe impl Plain for EntryRequest<[u8; 4]> {}

/// The kernel's IPv4 multicast router.
#[derive(Debug)]
pub struct Ipv4Kernel {
    socket: Socket,
}

impl Ipv4Kernel {
    /// Becomes the multicast router of this network namespace, with the socket of an earlier daemon if there is one.
    pub fn open(kept: Option<OwnedFd>) -> Result<Self, Error> {
        if let Some(kept) = kept {
            return Self::set_up(kept.into());
        }
        let failed = || Error::of_kernel("IPv4", "CONFIG_IP_MROUTE");
        let socket = raw::open_igmp().map_err(failed())?;
        option::set(&socket, libc::IPPROTO_IP, MRT_INIT, 1).map_err(failed())?;
        Self::set_up(socket)
    }

    fn set_up(socket: Socket) -> Result<Self, Error> {
        configure(&socket).map_err(Error::system("cannot set up the IGMP socket"))?;
        Ok(Self { socket })
    }
}

fn configure(socket: &Socket) -> io::Result<()> {
    let option = |name, value: i32| option::set(socket, libc::IPPROTO_IP, name, value);
    option(MRT_ASSERT, 1)?;
    option(libc::IP_PKTINFO, 1)?;
    option(libc::IP_TOS, TOS_INTERNETWORK_CONTROL)?;
    raw::set_up_igmp(socket)?;
    // A burst of reports must fit; more than the system's limit is root's to take.
    let _ = option::set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 1 << 20);
    Ok(())
}

impl AsFd for Ipv4Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Kernel for Ipv4Kernel {
    fn router_groups(&self) -> [IpAddr; 3] {
        [igmp::REPORT_DESTINATION.into(), igmp::ALL_ROUTERS.into(), igmp::ALL_SNOOPERS.into()]
    }

    fn add_interface(&self, slot: Slot, interface: u32) -> io::Result<()> {
        plain::set_option(self, libc::IPPROTO_IP, MRT_ADD_VIF, &vif(slot, interface))
    }

    fn remove_interface(&self, slot: Slot) -> io::Result<()> {
        plain::set_option(self, libc::IPPROTO_IP, MRT_DEL_VIF, &vif(slot, 0))
    }

    fn install(&self, source: IpAddr, group: IpAddr, from: Slot, to: &[Slot]) -> io::Result<()> {
        let mut entry = entry(source, group);
        entry.parent = from;
        for slot in to {
            entry.ttls[usize::from(*slot) % MAX_INTERFACES] = 1;
        }
        plain::set_option(self, libc::IPPROTO_IP, MRT_ADD_MFC, &entry)
    }

    fn remove(&self, source: IpAddr, group: IpAddr) -> io::Result<()> {
        plain::set_option(self, libc::IPPROTO_IP, MRT_DEL_MFC, &entry(source, group))
    }

    fn count(&self, source: IpAddr, group: IpAddr) -> io::Result<Counters> {
        counts::of_entry(self, octets(source), octets(group))
    }

    fn send(&self, interface: u32, source: IpAddr, message: &Message) -> io::Result<()> {
        let Some(message) = message.to_wire::<Ipv4Addr>() else { return Ok(()) };
        raw::send_from(self, interface, source, message.destination().into(), &message.to_bytes())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Incoming> {
        let (_, received) = messages::receive_from(self, buffer)?;
        let packet = &buffer[..received.len];
        // The kernel's own messages have protocol 0 where a packet has IGMP's number (struct igmpmsg).
        let incoming = match packet.get(9) {
            Some(0) => parse_upcall(packet),
            _ => parse_packet(packet, received.ancillary.interface),
        };
        Ok(incoming.unwrap_or(Incoming::Refused(Refusal::Malformed)))
    }

    fn inherited(&self) -> io::Result<Inherited> {
        Inherited::ipv4()
    }

    fn close(&self) -> io::Result<()> {
        option::set(self, libc::IPPROTO_IP, MRT_DONE, 1)
    }
}

/// struct igmpmsg, laid over an IP header: 8 bytes unused, type, zero, vif in two halves, source, group.
fn parse_upcall(packet: &[u8]) -> Option<Incoming> {
    let slot = Slot::from(*packet.get(10)?) | Slot::from(*packet.get(11)?) << 8;
    let source = Ipv4Addr::from(*packet.get(12..)?.first_chunk::<4>()?).into();
    let group = Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?).into();
    match *packet.get(8)? {
        IGMPMSG_NOCACHE => Some(Incoming::NoEntry { slot, source, group }),
        IGMPMSG_WRONGVIF => Some(Incoming::WrongInterface { slot, source, group }),
        _ => None,
    }
}

/// A whole IP packet, as raw sockets get it.
fn parse_packet(packet: &[u8], interface: Option<u32>) -> Option<Incoming> {
    let header_len = usize::from(packet.first()? & 0xf) * 4;
    let (header, body) = packet.split_at_checked(header_len)?;
    let from = Ipv4Addr::from(*header.get(12..)?.first_chunk::<4>()?);
    // RFC 9776, 4: all messages have TTL 1 and the router alert option.
    if *header.get(8)? != 1 {
        return Some(Incoming::Refused(Refusal::NotFromLink));
    }
    if !has_router_alert(header.get(20..)?) {
        return Some(Incoming::Refused(Refusal::NoRouterAlert));
    }
    let message = Message::from_wire(igmp::Message::parse(body).ok()?)?;
    Some(Incoming::Message { interface: interface?, from: from.into(), message })
}

fn has_router_alert(mut options: &[u8]) -> bool {
    loop {
        match options {
            [0x94, 4, 0, 0, ..] => return true,
            [1, rest @ ..] => options = rest,
            [kind, len, ..] if *kind > 1 && *len >= 2 && options.len() >= usize::from(*len) => {
                options = &options[usize::from(*len)..];
            }
            _ => return false,
        }
    }
}

fn vif(slot: Slot, interface: u32) -> VifCtl {
    VifCtl { vifi: slot, flags: VIFF_USE_IFINDEX, threshold: 1, rate_limit: 0, interface, remote: [0; 4] }
}

fn entry(source: IpAddr, group: IpAddr) -> MfcCtl {
    let (origin, group) = (octets(source), octets(group));
    MfcCtl { origin, group, parent: 0, ttls: [0; MAX_INTERFACES], unused: [0; 4] }
}

/// An IPv6 address, which nobody hands in, becomes 0.0.0.0.
fn octets(address: IpAddr) -> [u8; 4] {
    if let IpAddr::V4(address) = address { address.octets() } else { [0; 4] }
}

#[cfg(test)]
mod tests {
    use raw::IP_ROUTER_ALERT as ROUTER_ALERT;

    use super::*;

    /// An IPv4 header with the options, as far as it is looked at.
    fn packet(ttl: u8, options: &[u8], body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45 + (options.len() / 4) as u8, 0xc0, 0, 0, 0, 0, 0, 0, ttl, 2, 0, 0];
        packet.extend_from_slice(&[192, 0, 2, 8, 224, 0, 0, 22]);
        packet.extend_from_slice(options);
        packet.extend_from_slice(body);
        packet
    }

    #[test]
    fn takes_only_what_comes_from_the_link() {
        let report = igmp::Message::Report(igmp::Report { records: vec![] }).to_bytes();
        let refusal = |packet: &[u8]| match parse_packet(packet, Some(3)) {
            Some(Incoming::Refused(refusal)) => Some(refusal),
            _ => None,
        };
        let good = packet(1, &ROUTER_ALERT, &report);
        assert_eq!(
            parse_packet(&good, Some(3)),
            Some(Incoming::Message {
                interface: 3,
                from: IpAddr::from([192, 0, 2, 8]),
                message: Message::Report(vec![])
            })
        );
        assert_eq!(refusal(&packet(2, &ROUTER_ALERT, &report)), Some(Refusal::NotFromLink));
        assert_eq!(refusal(&packet(1, &[], &report)), Some(Refusal::NoRouterAlert));
        assert_eq!(refusal(&packet(1, &[0, 0x94, 4, 0], &report)), Some(Refusal::NoRouterAlert));
        assert!(parse_packet(&packet(1, &[1, 1, 1, 1, 0x94, 4, 0, 0], &report), Some(3)).is_some());
        for len in 0..good.len() {
            assert_ne!(parse_packet(&good[..len], Some(3)), parse_packet(&good, Some(3)));
        }
    }
}

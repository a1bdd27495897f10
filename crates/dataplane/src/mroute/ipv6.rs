//! The kernel's IPv6 multicast router (linux/mroute6.h), and MLD through its socket.

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use socket2::Socket;
use treecast_host::{
    messages, option,
    plain::{self, Plain},
    raw,
};
use treecast_proto::membership::Message;
use treecast_wire::mld;

use super::{
    Error, Slot,
    counts::{self, Counters, EntryRequest},
    inherited::Inherited,
    kernel::{Incoming, Kernel, Refusal},
};

const MRT6_INIT: i32 = 200;
const MRT6_DONE: i32 = 201;
const MRT6_ADD_MIF: i32 = 202;
const MRT6_DEL_MIF: i32 = 203;
const MRT6_ADD_MFC: i32 = 204;
const MRT6_DEL_MFC: i32 = 205;
const MRT6_ASSERT: i32 = 207;
const MRT6MSG_NOCACHE: u8 = 1;
const MRT6MSG_WRONGMIF: u8 = 2;

/// struct mif6ctl.
#[derive(Clone, Copy)]
#[repr(C)]
struct Mif6Ctl {
    mifi: u16,
    flags: u8,
    threshold: u8,
    pifi: u16,
    rate_limit: u32,
}

/// struct sockaddr_in6.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct SockAddrIn6 {
    family: u16,
    port: u16,
    flow_info: u32,
    address: [u8; 16],
    scope_id: u32,
}

/// struct mf6cctl.
#[derive(Clone, Copy)]
#[repr(C)]
struct Mf6cCtl {
    origin: SockAddrIn6,
    group: SockAddrIn6,
    parent: u16,
    outgoing: [u32; 8],
}

const _: () = assert!(size_of::<Mif6Ctl>() == 12);
const _: () = assert!(size_of::<Mf6cCtl>() == 92);
const _: () = assert!(size_of::<EntryRequest<SockAddrIn6>>() == 56 + 3 * size_of::<libc::c_ulong>());

// SAFETY: integers and arrays of integers only.
unsafe impl Plain for Mif6Ctl {}
unsafe impl Plain for Mf6cCtl {}
unsafe impl Plain for EntryRequest<SockAddrIn6> {}

/// The kernel's IPv6 multicast router.
#[derive(Debug)]
pub struct Ipv6Kernel {
    socket: Socket,
}

impl Ipv6Kernel {
    /// Becomes the multicast router of this network namespace, with the socket of an earlier daemon if there is one; none
    /// where there is no IPv6 at all.
    pub fn open(kept: Option<OwnedFd>) -> Result<Option<Self>, Error> {
        if let Some(kept) = kept {
            return Self::set_up(kept.into()).map(Some);
        }
        let failed = || Error::of_kernel("IPv6", "CONFIG_IPV6_MROUTE");
        let socket = match raw::open_mld() {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => return Ok(None),
            other => other.map_err(failed())?,
        };
        option::set(&socket, libc::IPPROTO_IPV6, MRT6_INIT, 1).map_err(failed())?;
        Self::set_up(socket).map(Some)
    }

    fn set_up(socket: Socket) -> Result<Self, Error> {
        configure(&socket).map_err(Error::system("cannot set up the MLD socket"))?;
        Ok(Self { socket })
    }
}

fn configure(socket: &Socket) -> io::Result<()> {
    let option = |name, value: i32| option::set(socket, libc::IPPROTO_IPV6, name, value);
    option(MRT6_ASSERT, 1)?;
    option(libc::IPV6_RECVPKTINFO, 1)?;
    option(libc::IPV6_RECVHOPLIMIT, 1)?;
    option(libc::IPV6_RECVHOPOPTS, 1)?;
    raw::set_up_mld(socket, &mld::Message::TYPES)?;
    // A burst of reports must fit; more than the system's limit is root's to take.
    let _ = option::set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 1 << 20);
    Ok(())
}

impl AsFd for Ipv6Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Kernel for Ipv6Kernel {
    fn router_groups(&self) -> [IpAddr; 3] {
        [mld::REPORT_DESTINATION.into(), mld::ALL_ROUTERS.into(), mld::ALL_SNOOPERS.into()]
    }

    fn add_interface(&self, slot: Slot, interface: u32) -> io::Result<()> {
        // The kernel's structure has 16 bits for a number that has 31 everywhere else.
        let pifi = u16::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mif = Mif6Ctl { mifi: slot, flags: 0, threshold: 1, pifi, rate_limit: 0 };
        plain::set_option(self, libc::IPPROTO_IPV6, MRT6_ADD_MIF, &mif)
    }

    fn remove_interface(&self, slot: Slot) -> io::Result<()> {
        option::set_bytes(self, libc::IPPROTO_IPV6, MRT6_DEL_MIF, &slot.to_ne_bytes())
    }

    fn install(&self, source: IpAddr, group: IpAddr, from: Slot, to: &[Slot]) -> io::Result<()> {
        let mut outgoing = [0u32; 8];
        for slot in to {
            outgoing[usize::from(slot / 32) % 8] |= 1 << (slot % 32);
        }
        let entry = Mf6cCtl { origin: sockaddr(source), group: sockaddr(group), parent: from, outgoing };
        plain::set_option(self, libc::IPPROTO_IPV6, MRT6_ADD_MFC, &entry)
    }

    fn remove(&self, source: IpAddr, group: IpAddr) -> io::Result<()> {
        let (origin, group) = (sockaddr(source), sockaddr(group));
        let entry = Mf6cCtl { origin, group, parent: 0, outgoing: [0; 8] };
        plain::set_option(self, libc::IPPROTO_IPV6, MRT6_DEL_MFC, &entry)
    }

    fn count(&self, source: IpAddr, group: IpAddr) -> io::Result<Counters> {
        counts::of_entry(self, sockaddr(source), sockaddr(group))
    }

    fn send(&self, interface: u32, source: IpAddr, message: &Message) -> io::Result<()> {
        let Some(message) = message.to_wire::<Ipv6Addr>() else { return Ok(()) };
        raw::send_from(self, interface, source, message.destination().into(), &message.to_bytes())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Incoming> {
        let (from, received) = messages::receive_from(self, buffer)?;
        let packet = &buffer[..received.len];
        // No ICMPv6 message has type 0, so the kernel's own begin with it (struct mrt6msg).
        if packet.first() == Some(&0) {
            return Ok(parse_upcall(packet).unwrap_or(Incoming::Refused(Refusal::Malformed)));
        }
        let (Some(IpAddr::V6(from)), Some(interface)) =
            (from.as_socket().map(|from| from.ip()), received.ancillary.interface)
        else {
            return Ok(Incoming::Refused(Refusal::Malformed));
        };
        // RFC 9777, 5.1.14 and 5.2.13.
        if !from.is_unicast_link_local() || received.ancillary.hop_limit != Some(1) {
            return Ok(Incoming::Refused(Refusal::NotFromLink));
        }
        if !mld::has_router_alert(received.ancillary.hop_options()) {
            return Ok(Incoming::Refused(Refusal::NoRouterAlert));
        }
        Ok(match mld::Message::parse(packet).ok().and_then(Message::from_wire) {
            Some(message) => Incoming::Message { interface, from: from.into(), message },
            None => Incoming::Refused(Refusal::Malformed),
        })
    }

    fn inherited(&self) -> io::Result<Inherited> {
        Inherited::ipv6()
    }

    fn close(&self) -> io::Result<()> {
        option::set(self, libc::IPPROTO_IPV6, MRT6_DONE, 1)
    }
}

/// struct mrt6msg: zero, type, 16 bits of mif, 4 bytes of padding, source, destination.
fn parse_upcall(packet: &[u8]) -> Option<Incoming> {
    let slot = Slot::from_ne_bytes(packet.get(2..4)?.try_into().ok()?);
    let source = Ipv6Addr::from(*packet.get(8..)?.first_chunk::<16>()?).into();
    let group = Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?).into();
    match *packet.get(1)? {
        MRT6MSG_NOCACHE => Some(Incoming::NoEntry { slot, source, group }),
        MRT6MSG_WRONGMIF => Some(Incoming::WrongInterface { slot, source, group }),
        _ => None,
    }
}

/// An IPv4 address, which nobody hands in, becomes ::.
fn sockaddr(address: IpAddr) -> SockAddrIn6 {
    let address = match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(_) => [0; 16],
    };
    SockAddrIn6 { family: libc::AF_INET6 as u16, address, ..SockAddrIn6::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_upcall() {
        let mut packet = vec![0, MRT6MSG_NOCACHE];
        packet.extend_from_slice(&7u16.to_ne_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().expect("an address").octets());
        packet.extend_from_slice(&"ff15::42".parse::<Ipv6Addr>().expect("an address").octets());
        let (source, group) = ("2001:db8::1".parse(), "ff15::42".parse());
        let expected = Incoming::NoEntry {
            slot: 7,
            source: source.expect("an address"),
            group: group.expect("an address"),
        };
        assert_eq!(parse_upcall(&packet), Some(expected));
        assert_eq!(parse_upcall(&packet[..39]), None);
    }
}

//! Control messages, which accompany a packet's data (cmsg(3)): the segment size of a super-packet, the drop
//! counter, addresses, and times.
//!
//! They are written and read as bytes, so no pointer is needed. The kernel copies them and demands no
//! alignment.

use std::{
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

/// The size of `struct cmsghdr` in bytes: a length, a level and a type.
const HEADER_LEN: usize = mem::size_of::<libc::cmsghdr>();
const LEVEL_AT: usize = HEADER_LEN - 8;
const KIND_AT: usize = HEADER_LEN - 4;
/// The alignment of messages in bytes.
const ALIGNMENT: usize = mem::size_of::<usize>();

/// Room for the control messages of one packet, in bytes.
pub(crate) const CONTROL_LEN: usize = 192;

/// The two lowest bits of the traffic class (RFC 3168, 5).
const ECN_MASK: u8 = 3;
const CONGESTION_EXPERIENCED: u8 = 3;

/// The control messages of a packet to send.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    bytes: [u8; CONTROL_LEN],
    len: usize,
}

impl Control {
    pub const NONE: Self = Self { bytes: [0; CONTROL_LEN], len: 0 };

    /// Makes the packet a super-packet of datagrams with `segment_len` bytes.
    #[must_use]
    pub fn with_segment_len(self, segment_len: u16) -> Self {
        self.with(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_len.to_ne_bytes())
    }

    /// Sets the interface by which the packet leaves, and its source address. Otherwise the kernel chooses both
    /// (RFC 3542, section 6, and ip(7)).
    #[must_use]
    pub fn with_source(self, source: IpAddr, interface: u32) -> Self {
        let interface = interface.to_ne_bytes();
        match source {
            // struct in_pktinfo: interface, source, and an address that is not read.
            IpAddr::V4(source) => {
                let info = [interface, source.octets(), [0; 4]];
                self.with(libc::IPPROTO_IP, libc::IP_PKTINFO, info.as_flattened())
            }
            // struct in6_pktinfo: source, interface.
            IpAddr::V6(source) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                info[16..].copy_from_slice(&interface);
                self.with(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
            }
        }
    }

    fn with(mut self, level: i32, kind: i32, data: &[u8]) -> Self {
        let message = &mut self.bytes[self.len..];
        message[..LEVEL_AT].copy_from_slice(&(HEADER_LEN + data.len()).to_ne_bytes());
        message[LEVEL_AT..KIND_AT].copy_from_slice(&level.to_ne_bytes());
        message[KIND_AT..HEADER_LEN].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER_LEN..HEADER_LEN + data.len()].copy_from_slice(data);
        self.len += HEADER_LEN + data.len().next_multiple_of(ALIGNMENT);
        self
    }

    /// The messages as bytes for the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The control messages of one received packet. The kernel only sends those that it was asked for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Ancillary {
    /// Length of each datagram but the last in a super-packet, in bytes. `None` for a single datagram.
    pub segment_len: Option<usize>,
    /// The error's number, on a socket's error queue: what a router or host said of a packet that did not arrive.
    pub error: Option<i32>,
    /// Number of datagrams dropped at this socket so far, modulo 2^32. `None` if there were none.
    pub dropped: Option<u32>,
    /// Whether the packet experienced congestion on the way (RFC 3168, section 5).
    pub is_marked: bool,
    /// Index of the interface where the packet came in.
    pub interface: Option<u32>,
    /// The address that the packet was sent to.
    pub destination: Option<IpAddr>,
    /// The packet's hop limit on arrival.
    pub hop_limit: Option<u8>,
    /// The time of the packet's arrival, since 1970.
    pub arrived: Option<Duration>,
    hop_options: Option<HopOptions>,
}

/// The hop-by-hop options of a packet. Longer options are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HopOptions {
    bytes: [u8; 64],
    len: usize,
}

impl Ancillary {
    /// The packet's IPv6 hop-by-hop options header. Empty if it has none, or one that is too long.
    pub fn hop_options(&self) -> &[u8] {
        self.hop_options.as_ref().map_or(&[], |options| &options.bytes[..options.len])
    }

    /// Parses a control buffer that the kernel has filled.
    pub fn read(control: &[u8]) -> Self {
        let mut ancillary = Self::default();
        for (level, kind, data) in messages(control) {
            ancillary.take(level, kind, data);
        }
        ancillary
    }

    fn take(&mut self, level: i32, kind: i32, data: &[u8]) {
        let word = |at: usize| Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*data.get(at..)?.first_chunk()?));
        let is_marked = |class: Option<u8>| class.is_some_and(|it| it & ECN_MASK == CONGESTION_EXPERIENCED);
        match (level, kind) {
            // struct sock_extended_err begins with the error's number.
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                self.error = word(0).map(|number| number as i32);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => self.segment_len = word(0).map(|len| len as usize),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.dropped = word(0),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let time = long(0).zip(long(8));
                self.arrived = time.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds as u32));
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => self.is_marked = is_marked(data.first().copied()),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.is_marked = is_marked(word(0).map(|it| it as u8)),
            // struct in_pktinfo: interface, local address, destination.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                self.interface = word(0);
                let octets = data.get(8..).and_then(|data| data.first_chunk::<4>());
                self.destination = octets.map(|octets| Ipv4Addr::from(*octets).into());
            }
            // struct in6_pktinfo: destination, interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                self.interface = word(16);
                self.destination = data.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.hop_limit = word(0).and_then(|limit| u8::try_from(limit).ok());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS) => self.hop_options = HopOptions::of(data),
            _ => {}
        }
    }
}

impl HopOptions {
    fn of(data: &[u8]) -> Option<Self> {
        let mut options = Self { bytes: [0; 64], len: data.len() };
        options.bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(options)
    }
}

/// The level, type and data of each complete message in a control buffer.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from_ne_bytes(*bytes.first_chunk()?);
        let level = i32::from_ne_bytes(*bytes.get(LEVEL_AT..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*bytes.get(KIND_AT..)?.first_chunk()?);
        let data = bytes.get(HEADER_LEN..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((level, kind, data))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let control = Control::NONE
            .with_source(Ipv4Addr::LOCALHOST.into(), 7)
            .with(libc::SOL_UDP, libc::UDP_GRO, &1400_i32.to_ne_bytes())
            .with(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &9_u32.to_ne_bytes())
            .with(libc::IPPROTO_IP, libc::IP_TTL, &31_i32.to_ne_bytes())
            .with(libc::IPPROTO_IP, libc::IP_TOS, &[3]);
        let read = Ancillary::read(control.as_bytes());
        let expected = Ancillary {
            segment_len: Some(1400),
            dropped: Some(9),
            is_marked: true,
            interface: Some(7),
            destination: Some(Ipv4Addr::UNSPECIFIED.into()),
            hop_limit: Some(31),
            ..Ancillary::default()
        };
        assert_eq!(read, expected);
        let control = Control::NONE
            .with_source(Ipv6Addr::LOCALHOST.into(), 8)
            .with(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &2_i32.to_ne_bytes())
            .with(libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &[0, 0, 5, 2, 0, 0, 1, 0]);
        let read = Ancillary::read(control.as_bytes());
        assert_eq!((read.interface, read.is_marked, read.hop_options().len()), (Some(8), false, 8));
        assert_eq!(read.destination, Some(Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn a_message_cut_short_or_too_long_ends_the_list() {
        let control = Control::NONE.with_segment_len(1400);
        let whole = control.as_bytes();
        assert_eq!(messages(whole).count(), 1);
        assert!((0..HEADER_LEN + 2).all(|len| messages(&whole[..len]).count() == 0));
        let mut long = whole.to_vec();
        long[..LEVEL_AT].fill(0xff);
        assert_eq!(messages(&long).count(), 0);
        long[..LEVEL_AT].fill(0);
        assert_eq!(messages(&long).count(), 0, "shorter than its own header");
    }
}

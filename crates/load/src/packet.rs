//! The two packets of the load generator: the one of the paper congested-multicast-2019, and ours.
//!
//! The paper's packet (4.1, 4.3 and figure 16) has 8 bytes: the packet's number as the x86 hosts of the paper store it
//! (little-endian, from 1), and the sender's IPv4 address in network order.
//!
//! Ours has 32 bytes, all numbers in network order:
//!
//! ```text
//!  0  magic "tcL" and the kind: 'D' data, 'E' end of the session
//!  4  sender's identity, an IPv4 address
//!  8  session: a random number, new each time a sender starts
//! 12  rate asked for at this moment, in packets per second (IEEE 754, single precision)
//! 16  number, from 1; in the end packet the number of the last data packet
//! 24  sending time in nanoseconds since 1970
//! ```
//!
//! Both are followed by zeros up to the wanted size.

use std::{net::Ipv4Addr, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The size of the paper's packet, in bytes of UDP payload.
pub(crate) const PAPER_LEN: usize = 8;
/// The size of our packet, in bytes of UDP payload.
pub(crate) const OWN_LEN: usize = 32;
/// The UDP port of the paper.
pub const PAPER_PORT: u16 = 4321;
/// The paper's IPv4 group.
pub const PAPER_GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 3, 2, 2);
/// The paper's IPv6 group, ff02::8.
pub const PAPER_GROUP_V6: std::net::Ipv6Addr = std::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 8);

const MAGIC: [u8; 3] = *b"tcL";

/// The format of the packets of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Ours, with session and sending time.
    #[default]
    Own,
    /// The one of the paper congested-multicast-2019.
    Paper,
}

impl Format {
    /// The smallest payload of this format, in bytes.
    pub fn min_bytes(self) -> usize {
        match self {
            Self::Own => OWN_LEN,
            Self::Paper => PAPER_LEN,
        }
    }
}

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packet {
    /// The sender's identity.
    pub sender: Ipv4Addr,
    /// The packet's number in its session, from 1.
    pub number: u64,
    /// The further fields of our packet. `None` for the paper's.
    pub stamp: Option<Stamp>,
}

/// The fields that only our packet has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stamp {
    /// Whether this is the packet that ends the session. It carries the number of the last data packet, or 0 if none was sent.
    pub is_end: bool,
    /// A random number that the sender drew when it started.
    pub session: u32,
    /// The rate asked for when the packet was sent, in packets per second.
    pub rate_pps: f32,
    /// The sender's clock when the packet was sent: the time since 1970.
    pub sent: Duration,
}

/// The reason why a datagram is not a packet of the load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotOurs {
    #[error("length: {have} bytes are there, {need} are needed")]
    Short { have: usize, need: usize },
    #[error("magic: {0:02x?} found, expected \"tcLD\" or \"tcLE\"")]
    Magic([u8; 4]),
    #[error("number: 0 found, expected 1 or more")]
    Number,
    #[error("rate: not a number of packets per second above 0")]
    Rate,
}

impl Packet {
    /// Reads a packet. `bytes` may be the beginning of a longer payload.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(format: Format, bytes: &[u8]) -> Result<Self, NotOurs> {
        match format {
            Format::Paper => parse_paper(bytes),
            Format::Own => parse_own(bytes),
        }
    }

    /// Writes the packet to the beginning of `bytes`: a packet with a stamp in our format, one without in the
    /// paper's, whose number keeps its lower 32 bits.
    ///
    /// # Panics
    /// If there is no room for it ([`Format::min_bytes`]).
    pub fn write(&self, bytes: &mut [u8]) {
        let Some(stamp) = self.stamp else {
            bytes[..4].copy_from_slice(&(self.number as u32).to_le_bytes());
            bytes[4..PAPER_LEN].copy_from_slice(&self.sender.octets());
            return;
        };
        bytes[..3].copy_from_slice(&MAGIC);
        bytes[3] = if stamp.is_end { b'E' } else { b'D' };
        bytes[4..8].copy_from_slice(&self.sender.octets());
        bytes[8..12].copy_from_slice(&stamp.session.to_be_bytes());
        bytes[12..16].copy_from_slice(&stamp.rate_pps.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_be_bytes());
        bytes[24..OWN_LEN].copy_from_slice(&(stamp.sent.as_nanos() as u64).to_be_bytes());
    }
}

fn parse_paper(bytes: &[u8]) -> Result<Packet, NotOurs> {
    let Some(&[a, b, c, d, e, f, g, h]) = bytes.first_chunk() else {
        return Err(NotOurs::Short { have: bytes.len(), need: PAPER_LEN });
    };
    match u32::from_le_bytes([a, b, c, d]) {
        0 => Err(NotOurs::Number),
        number => Ok(Packet { sender: Ipv4Addr::new(e, f, g, h), number: number.into(), stamp: None }),
    }
}

fn parse_own(bytes: &[u8]) -> Result<Packet, NotOurs> {
    let short = NotOurs::Short { have: bytes.len(), need: OWN_LEN };
    let bytes: &[u8; OWN_LEN] = bytes.first_chunk().ok_or(short)?;
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let long = |at: usize| {
        u64::from(u32::from_be_bytes(word(at))) << 32 | u64::from(u32::from_be_bytes(word(at + 4)))
    };
    let is_end = match (bytes[..3] == MAGIC, bytes[3]) {
        (true, b'D') => false,
        (true, b'E') => true,
        _ => return Err(NotOurs::Magic(word(0))),
    };
    let (number, rate_pps) = (long(16), f32::from_be_bytes(word(12)));
    if number == 0 && !is_end {
        return Err(NotOurs::Number);
    }
    if !(rate_pps > 0.0 && rate_pps.is_finite()) {
        return Err(NotOurs::Rate);
    }
    let session = u32::from_be_bytes(word(8));
    let stamp = Stamp { is_end, session, rate_pps, sent: Duration::from_nanos(long(24)) };
    Ok(Packet { sender: Ipv4Addr::from(word(4)), number, stamp: Some(stamp) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Figure 16 of the paper shows these 8 bytes as the payload of an IPv6 packet.
    #[test]
    fn the_papers_packet_is_that_of_figure_16() {
        let bytes = [0x01, 0, 0, 0, 0xac, 0x10, 0x09, 0x71];
        let packet = Packet { sender: Ipv4Addr::new(172, 16, 9, 113), number: 1, stamp: None };
        assert_eq!(Packet::parse(Format::Paper, &bytes), Ok(packet));
        let mut written = [0; PAPER_LEN];
        packet.write(&mut written);
        assert_eq!(written, bytes);
    }

    #[test]
    fn our_packet_has_these_bytes() {
        let stamp = Stamp {
            is_end: false,
            session: 0x0102_0304,
            rate_pps: 450.0,
            sent: Duration::from_nanos(0x0a0b_0c0d),
        };
        let packet = Packet { sender: Ipv4Addr::new(10, 0, 0, 7), number: 258, stamp: Some(stamp) };
        let mut bytes = [0; OWN_LEN];
        packet.write(&mut bytes);
        let expected = [
            b't', b'c', b'L', b'D', 10, 0, 0, 7, 1, 2, 3, 4, 0x43, 0xe1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0,
            0, 0, 0x0a, 0x0b, 0x0c, 0x0d,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(Packet::parse(Format::Own, &bytes), Ok(packet));
    }

    #[test]
    fn what_is_not_ours_is_refused_with_the_field() {
        let stamp = Stamp { is_end: false, session: 1, rate_pps: 1.0, sent: Duration::ZERO };
        let good = Packet { sender: Ipv4Addr::LOCALHOST, number: 1, stamp: Some(stamp) };
        let refused = |change: &dyn Fn(&mut [u8; OWN_LEN])| {
            let mut bytes = [0; OWN_LEN];
            good.write(&mut bytes);
            change(&mut bytes);
            Packet::parse(Format::Own, &bytes).unwrap_err().to_string()
        };
        assert!(refused(&|bytes| bytes[3] = b'X').starts_with("magic: "));
        assert!(refused(&|bytes| bytes[23] = 0).starts_with("number: "));
        assert!(refused(&|bytes| bytes[12] = 0xff).starts_with("rate: "));
        assert_eq!(Packet::parse(Format::Paper, &[0; 8]), Err(NotOurs::Number));
        assert_eq!(Packet::parse(Format::Paper, &[1; 7]), Err(NotOurs::Short { have: 7, need: 8 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for format in [Format::Own, Format::Paper] {
                if let Ok(packet) = Packet::parse(format, &bytes) {
                    let mut written = vec![0; format.min_bytes()];
                    packet.write(&mut written);
                    prop_assert_eq!(&written[..], &bytes[..format.min_bytes()]);
                }
            }
        }
    }
}

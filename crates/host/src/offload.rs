//! The offload header in front of a packet (`struct virtio_net_hdr` of Linux's `virtio_net.h`). It describes
//! the work on a packet that the kernel leaves to its sender.
//!
//! ```text
//!  0       1     2            4              6                8                 10
//!  +-------+-----+------------+--------------+----------------+-----------------+
//!  | flags | GSO | header len | segment size | checksum start | checksum offset |   in the host's order
//!  +-------+-----+------------+--------------+----------------+-----------------+
//! ```

/// The length of an offload header, in bytes.
pub const OFFLOAD_LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_UDP: u8 = 5;

/// The place of the checksum in a UDP header, in bytes.
const UDP_CHECKSUM_OFFSET: u16 = 6;
/// The length of a UDP header, in bytes.
pub const UDP_HEADER_LEN: usize = 8;

/// The work that is left to do on one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    flags: u8,
    gso: u8,
    header_len: u16,
    segment_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl Offload {
    /// The offload of a UDP packet without checksum. `start` is the position of its UDP header in the frame, in
    /// bytes. With `segment_bytes`, it is a super-packet.
    pub fn of_udp(start: usize, segment_bytes: Option<usize>) -> Self {
        Self {
            flags: NEEDS_CHECKSUM,
            gso: if segment_bytes.is_some() { GSO_UDP } else { 0 },
            header_len: (start + UDP_HEADER_LEN) as u16,
            segment_bytes: segment_bytes.unwrap_or(0) as u16,
            checksum_start: start as u16,
            checksum_offset: UDP_CHECKSUM_OFFSET,
        }
    }

    /// Parses the header in front of a frame.
    pub fn parse(bytes: &[u8; OFFLOAD_LEN]) -> Self {
        let field = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let [header_len, segment_bytes, checksum_start, checksum_offset] = [2, 4, 6, 8].map(field);
        Self { flags: bytes[0], gso: bytes[1], header_len, segment_bytes, checksum_start, checksum_offset }
    }

    /// The header's bytes in front of a frame.
    pub fn to_bytes(self) -> [u8; OFFLOAD_LEN] {
        let mut bytes = [self.flags, self.gso, 0, 0, 0, 0, 0, 0, 0, 0];
        let fields = [self.header_len, self.segment_bytes, self.checksum_start, self.checksum_offset];
        for (place, field) in bytes[2..].chunks_exact_mut(2).zip(fields) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    /// The data bytes in each datagram of a super-packet. `None` for a single datagram.
    pub fn segment_bytes(&self) -> Option<usize> {
        (self.gso == GSO_UDP).then_some(self.segment_bytes.into())
    }

    /// Whether the checksum must still be computed.
    pub fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for segment_bytes in [None, Some(1200)] {
            let offload = Offload::of_udp(54, segment_bytes);
            assert_eq!(Offload::parse(&offload.to_bytes()), offload);
            assert_eq!((offload.segment_bytes(), offload.needs_checksum()), (segment_bytes, true));
        }
        let bytes = Offload::of_udp(54, Some(0x0102)).to_bytes();
        assert_eq!(bytes[4..6], 0x0102_u16.to_ne_bytes());
        let nothing = Offload::parse(&[0; OFFLOAD_LEN]);
        assert!(!nothing.needs_checksum() && nothing.segment_bytes().is_none());
    }
}

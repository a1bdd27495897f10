//! The internet checksum (RFC 1071).

/// The checksum of `bytes`, in the form for the packet. Over bytes that contain their right checksum it is 0.
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    !fold(ones_complement_sum(bytes))
}

/// The sum of the 16-bit words of `bytes`, before carries are folded. An odd last byte is padded with zero. Up
/// to 2^32 words cannot overflow it.
pub(crate) fn ones_complement_sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + last
}

pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3: 0001 f203 f4f5 f6f7 add up to ddf2.
    #[test]
    fn sums_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&bytes), !0xddf2);
    }

    #[test]
    fn pads_an_odd_byte_and_accepts_its_own_result() {
        assert_eq!(internet_checksum(&[0x12]), internet_checksum(&[0x12, 0x00]));
        let mut bytes = vec![0x11, 0x64, 0, 0, 1, 2, 3, 4];
        let checksum = internet_checksum(&bytes);
        bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(internet_checksum(&bytes), 0);
    }
}

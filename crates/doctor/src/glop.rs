//! GLOP: the 256 multicast groups that an autonomous system has without asking anybody (RFC 3180).

use std::net::Ipv4Addr;

/// The reason why an autonomous system has no GLOP groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoGlop {
    /// AS 0 is reserved (RFC 7607).
    #[error("AS 0 is reserved (RFC 7607): no network has it")]
    Zero,
    /// The number is one of 64512 to 65535. RFC 5771, section 9.1, gives their blocks to other uses.
    #[error(
        "AS {0} is private or reserved, and its block of 233/8 has other uses (RFC 5771): take groups of 239/8"
    )]
    Private(u32),
    /// The number has more than 16 bits.
    #[error(
        "AS {0} has more than 16 bits: take the groups of an IPv4 prefix that you own, in 234/8 (RFC 6034)"
    )]
    Wide(u32),
}

/// The first group of the block that belongs to the autonomous system `number`; the block has 256 groups (RFC 3180,
/// section 2).
///
/// # Errors
/// The number has no such block: see [`NoGlop`].
pub fn block(number: u32) -> Result<Ipv4Addr, NoGlop> {
    match number {
        0 => Err(NoGlop::Zero),
        64_512..=65_535 => Err(NoGlop::Private(number)),
        1..=64_511 => {
            let [high, low] = (number as u16).to_be_bytes();
            Ok(Ipv4Addr::new(233, high, low, 0))
        }
        _ => Err(NoGlop::Wide(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 3180, section 2.
    #[test]
    fn the_example_of_the_rfc_comes_out() {
        assert_eq!(block(5662), Ok(Ipv4Addr::new(233, 22, 30, 0)));
    }

    #[test]
    fn who_has_no_block_is_told_why() {
        assert_eq!(block(0), Err(NoGlop::Zero));
        assert_eq!(block(64_511), Ok(Ipv4Addr::new(233, 251, 255, 0)));
        assert_eq!(block(64_512), Err(NoGlop::Private(64_512)));
        assert_eq!(block(65_536), Err(NoGlop::Wide(65_536)));
    }
}

//! Prefixes of IPv6 addresses.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The length of an interface identifier in bits (RFC 4291, 2.5.1).
const INTERFACE_ID_BITS: u8 = 64;

/// A block of IPv6 addresses, such as `2001:db8:a:1::/64`. The bits behind the prefix are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    address: Ipv6Addr,
    length: u8,
}

/// The reason why something is not a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PrefixError {
    #[error("`{0}` is no IPv6 prefix: expected one such as 2001:db8:a:1::/64")]
    Syntax(String),
    #[error("a prefix of {0} bits: expected 1 to 128")]
    Length(u8),
    #[error("{address}/{length} has bits behind its prefix: expected {}/{length}", masked(*address, *length))]
    Bits { address: Ipv6Addr, length: u8 },
}

impl Prefix {
    /// Makes a prefix of the first `length` bits of `address`.
    ///
    /// # Errors
    /// If the length is not 1 to 128, or bits behind it are set.
    pub fn new(address: Ipv6Addr, length: u8) -> Result<Self, PrefixError> {
        match length {
            0 | 129.. => Err(PrefixError::Length(length)),
            _ if masked(address, length) != address => Err(PrefixError::Bits { address, length }),
            _ => Ok(Self { address, length }),
        }
    }

    /// The first address of the block.
    pub fn address(self) -> Ipv6Addr {
        self.address
    }

    /// The number of bits that all addresses of the block share, from 1 to 128.
    pub fn length(self) -> u8 {
        self.length
    }

    pub fn contains(self, address: Ipv6Addr) -> bool {
        masked(address, self.length) == self.address
    }

    /// Whether every address of `other` is in this block.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The network of 64 bits with this number in the block: `2001:db8:a:100::/56` and 1 make `2001:db8:a:101::/64`. `None` if the block
    /// has no such network.
    pub fn subnet(self, number: u64) -> Option<Self> {
        let bits = (128 - INTERFACE_ID_BITS).checked_sub(self.length)?;
        let fits = number.checked_shr(bits.into()).unwrap_or(0) == 0;
        let address = u128::from(self.address) | u128::from(number) << INTERFACE_ID_BITS;
        fits.then(|| Self { address: address.into(), length: 128 - INTERFACE_ID_BITS })
    }

    /// The address with this interface identifier. `None` if the prefix is longer than 64 bits.
    pub fn with_interface_id(self, id: u64) -> Option<Ipv6Addr> {
        (self.length <= 128 - INTERFACE_ID_BITS).then(|| (u128::from(self.address) | u128::from(id)).into())
    }

    /// The address of an interface in a network with this prefix. `None` if the prefix is not 64 bits long.
    pub fn join(self, id: u64) -> Option<Ipv6Addr> {
        self.with_interface_id(id).filter(|_| self.length == 128 - INTERFACE_ID_BITS)
    }
}

fn masked(address: Ipv6Addr, length: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
    (u128::from(address) & mask).into()
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let parts = text
            .split_once('/')
            .and_then(|(address, length)| Some((address.parse().ok()?, length.parse().ok()?)));
        let (address, length) = parts.ok_or_else(|| PrefixError::Syntax(text.to_owned()))?;
        Self::new(address, length)
    }
}

impl TryFrom<String> for Prefix {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Self, PrefixError> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_read_and_joined_with_an_interface_identifier() {
        let prefix: Prefix = "2001:db8:a:1::/64".parse().unwrap();
        assert_eq!(prefix.to_string(), "2001:db8:a:1::/64");
        assert_eq!(prefix.with_interface_id(0x15).unwrap().to_string(), "2001:db8:a:1::15");
        assert!(prefix.contains("2001:db8:a:1:8000::".parse().unwrap()));
        assert!(!prefix.contains("2001:db8:a:2::".parse().unwrap()));
        let block: Prefix = "2001:db8:a::/48".parse().unwrap();
        assert!(block.covers(prefix) && !prefix.covers(block));
        assert_eq!("2001:db8::1/128".parse::<Prefix>().unwrap().with_interface_id(1), None);
    }

    #[test]
    fn a_block_has_networks_of_64_bits() {
        let subnet = |text: &str, number| text.parse::<Prefix>().unwrap().subnet(number);
        assert_eq!(subnet("2001:db8:a:100::/56", 1).unwrap().to_string(), "2001:db8:a:101::/64");
        assert_eq!(subnet("2001:db8:a:100::/56", 255).unwrap().to_string(), "2001:db8:a:1ff::/64");
        assert_eq!(subnet("2001:db8:a:100::/56", 256), None);
        assert_eq!(subnet("2001:db8:a:1::/64", 0).unwrap().to_string(), "2001:db8:a:1::/64");
        assert_eq!((subnet("2001:db8:a:1::/64", 1), subnet("2001:db8::/65", 0)), (None, None));
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for (text, error) in [
            ("2001:db8::", "`2001:db8::` is no IPv6 prefix: expected one such as 2001:db8:a:1::/64"),
            ("10.0.0.0/8", "`10.0.0.0/8` is no IPv6 prefix: expected one such as 2001:db8:a:1::/64"),
            ("::/0", "a prefix of 0 bits: expected 1 to 128"),
            ("2001:db8::/129", "a prefix of 129 bits: expected 1 to 128"),
            ("2001:db8::1/64", "2001:db8::1/64 has bits behind its prefix: expected 2001:db8::/64"),
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap_err().to_string(), error);
        }
    }
}
